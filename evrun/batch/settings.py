"""The resolved configuration of a batch run: what the log records and every decision reads.

Names are those of the options, with underscores. Nothing here is a secret: an API key is never a setting.
"""

import hashlib
from typing import Any

import msgspec

REASONING_EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh", "max", "ultra")
UNKNOWN_PRICE = ("refuse", "allow")
PROVIDER_SORTS = ("price", "throughput", "latency")
APIS = ("openai", "anthropic")
CHAT = "chat"
"""The built-in agent."""
LOCAL, RAY = "local", "ray"
EXECUTORS = (LOCAL, RAY)
UNKNOWN_TOOLS = ("discard", "keep")


class Settings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Everything that decides how a batch run goes; durations are in seconds.

    `base_url` is null for the embedded model, whose port is new in each session. `toolsets` null means:
    drawn from `distribution`. `headers` hold no secrets: a value that begins with ``$`` names a variable of
    the environment. `tools` are paths of Python files, `mcp_config` is one of a JSON file, `web_allow` names
    the hosts that may be fetched from (null: all that are public). `unknown_tools` null means: discard
    where reasoning is required, else keep. `judge_text` is the text of the judge's rubric, or of
    its file. `rpm` and `tpm` are requests and tokens per minute. `executor` is where sessions run;
    `ray_address` null means: the cluster that Ray finds, or one of its own.
    """

    dataset: str
    batch_size: int = 10
    max_samples: int | None = None
    samples: int = 1
    skip_bad_rows: bool = False
    template: str = "{prompt}"
    system_prompt: str | None = None
    ephemeral_system_prompt: str | None = None
    prefill: list[dict[str, Any]] | None = None
    agent: str = CHAT
    judge: str | None = None
    judge_text: str | None = None
    min_score: float | None = None
    model: str
    base_url: str | None = None
    api_key_env: str = "OPENAI_API_KEY"
    api: str = "openai"
    headers: dict[str, str] | None = None
    stream: bool = False
    max_turns: int = 10
    max_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    seed: int | None = None
    reasoning_effort: str | None = None
    reasoning_disabled: bool = False
    response_format: dict[str, Any] | None = None
    tool_choice: str | None = None
    extra_body: dict[str, Any] | None = None
    providers_allowed: list[str] | None = None
    providers_ignored: list[str] | None = None
    providers_order: list[str] | None = None
    provider_sort: str | None = None
    distribution: str = "default"
    toolsets: list[str] | None = None
    tools: list[str] = []
    mcp_config: str | None = None
    web_allow: list[str] | None = None
    require_reasoning: bool = True
    unknown_tools: str | None = None
    concurrency: int = 8
    retries: int = 4
    prompt_timeout: float = 600.0
    request_timeout: float = 120.0
    rpm: int | None = None
    tpm: int | None = None
    otel: str | None = None
    prices: list[str] = []
    unknown_price: str = "refuse"
    executor: str = LOCAL
    ray_address: str | None = None


# What does not change a trajectory: where the work is done, how much at once, how patiently, and which of the
# finished trajectories are kept. An open attempt goes on when one of these changes.
OPERATIONAL = frozenset(
    {
        "dataset", "batch_size", "max_samples", "samples", "skip_bad_rows", "base_url", "api_key_env",
        "require_reasoning", "unknown_tools", "judge", "judge_text", "min_score", "concurrency",
        "retries", "prompt_timeout", "request_timeout", "rpm", "tpm", "otel", "prices", "unknown_price",
        "executor", "ray_address",
    }
)  # fmt: skip


def settings_digest(settings: Settings) -> bytes:
    """Eight bytes that stand for all settings that shape a trajectory."""
    shaping = {k: v for k, v in msgspec.to_builtins(settings).items() if k not in OPERATIONAL}
    return hashlib.sha256(msgspec.json.encode(shaping, order="sorted")).digest()[:8]


def settings_record(settings: Settings) -> dict[str, Any]:
    """The settings as the log records them."""
    record: dict[str, Any] = msgspec.to_builtins(settings)
    return record


def settings_from_record(record: dict[str, Any]) -> Settings:
    """The settings that a log recorded, perhaps by an older evrun with fewer of them."""
    return msgspec.convert(record, Settings)


def changes_between(before: Settings, now: Settings) -> dict[str, tuple[Any, Any]]:
    """What differs, as ``{name: (before, now)}``."""
    old, new = settings_record(before), settings_record(now)
    return {name: (old[name], new[name]) for name in new if old[name] != new[name]}


def in_words(settings: Settings) -> str:
    """The settings that are not their defaults, as one line for people; long values are cut."""
    parts = []
    for field in msgspec.structs.fields(Settings):
        value = getattr(settings, field.name)
        default = field.default_factory() if callable(field.default_factory) else field.default
        if value != default and field.name not in {"dataset", "model", "base_url"}:
            parts.append(f"{field.name} {_short(value)}")
    return ", ".join(parts)


def _short(value: object, limit: int = 60) -> str:
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    text = " ".join(text.split())
    return text if len(text) <= limit else text[: limit - 1] + "…"
