"""Which options an endpoint can honour. What it cannot is refused, before anything is spent. Pure."""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from ..errors import UsageFault
from ..tools.distributions import percents
from .agent_setting import is_program
from .headers import check_headers
from .request import FREE_CHOICES
from .request_anthropic import EFFORTS
from .settings import Settings

LOCAL_MODEL = "local"
ROUTING = ("providers_allowed", "providers_ignored", "providers_order", "provider_sort")
ROLES = ("system", "developer", "user", "assistant", "tool", "function")
LOWEST_THINKING_TOP_P = 0.95
OF_A_CONVERSATION = (
    "system_prompt", "ephemeral_system_prompt", "prefill", "response_format", "tool_choice",
)  # fmt: skip
OF_ANY_REQUEST = (
    "stream", "temperature", "top_p", "seed", "reasoning_effort", "reasoning_disabled", "extra_body",
    *ROUTING,
)  # fmt: skip
_SPELLED = {"prefill": "prefill-messages-file"}
_DEFINED = frozenset({"text", "json_object", "json_schema"})


class Refusal(NamedTuple):
    """Why an option cannot be honoured, and what to do instead."""

    message: str
    hint: str | None = None


def check_wire(settings: Settings) -> None:
    """Refuse what the settings' endpoint cannot be asked for.

    Raises:
        UsageFault: naming the option.
    """
    check_headers(settings)
    if settings.toolsets == [] and not settings.tools and settings.mcp_config is None:
        check_tool_choice(settings, {})
    found = [*_everywhere(settings), *_by_a_program(settings)]
    if settings.model == LOCAL_MODEL:
        found += _at_the_embedded_model(settings)
    elif settings.api == "anthropic":
        found += _in_anthropics_dialect(settings)
    if found:
        raise UsageFault(found[0].message, found[0].hint)


def check_tool_choice(settings: Settings, toolsets: Mapping[str, list[dict[str, Any]]]) -> None:
    """Refuse to force a tool that an attempt may not have; `toolsets` are those of the run.

    Raises:
        UsageFault: naming the tools that there are.
    """
    choice = settings.tool_choice
    if choice is None or choice in FREE_CHOICES:
        return
    names = {tool["name"]: toolset for toolset, tools in toolsets.items() for tool in tools}
    if not names:
        raise UsageFault(
            f"--tool-choice {choice}: the run offers no tools", "give --toolsets, or leave it out"
        )
    if choice == "required":
        return
    if choice not in names:
        known = ", ".join(sorted(names))
        raise UsageFault(f"--tool-choice {choice}: expected auto, none, required, or one of {known}")
    drawn = percents(settings.distribution) if settings.toolsets is None else {}
    if drawn.get(names[choice], 100) < 100:  # noqa: PLR2004  # always
        raise UsageFault(
            f"--tool-choice {choice}: in distribution {settings.distribution} not every prompt has this tool",
            hint=f"give --toolsets {names[choice]}",
        )


def _everywhere(settings: Settings) -> Iterator[Refusal]:
    extra = settings.extra_body or {}
    if settings.stream and "stream_options" in extra:
        yield Refusal("--extra-body stream_options: evrun sets this itself with --stream", "leave it out")
    for option, field in (("tool_choice", "tool_choice"), ("response_format", "response_format")):
        if getattr(settings, option) is not None and field in extra:
            name = option.replace("_", "-")
            yield Refusal(f"--{name} and --extra-body {field} contradict each other", "give one of them")
    kind = (settings.response_format or {"type": "text"}).get("type")
    if kind not in _DEFINED:
        yield Refusal(
            f"--response-format: unknown type {kind!r}; expected one of {', '.join(sorted(_DEFINED))}"
        )
    if kind == "json_schema" and not isinstance(_schema(settings), dict):
        yield Refusal("--response-format: json_schema without an object json_schema.schema")


def _by_a_program(settings: Settings) -> Iterator[Refusal]:
    """What a program's own requests say, because it writes them. A model that judges is asked by evrun."""
    if not is_program(settings.agent):
        return
    plain = {"reasoning_disabled": False, "stream": False}
    judged = (settings.judge or "").startswith("llm:")
    for name in OF_A_CONVERSATION if judged else OF_A_CONVERSATION + OF_ANY_REQUEST:
        if getattr(settings, name) != plain.get(name):
            option = _SPELLED.get(name, name.replace("_", "-"))
            yield Refusal(f"--{option}: --agent {settings.agent} writes its requests itself", "say it there")


def _schema(settings: Settings) -> object:
    inner = (settings.response_format or {}).get("json_schema")
    return inner.get("schema") if isinstance(inner, dict) else None


def _at_the_embedded_model(settings: Settings) -> Iterator[Refusal]:
    if settings.api != "openai":
        yield Refusal(f"--api {settings.api}: the embedded model speaks openai", "leave it out")
    if settings.headers:
        yield Refusal("--header: the embedded model takes no notice of headers", "leave it out")
    yield from _no_routing(settings, "the embedded model")
    if settings.tool_choice not in {None, "auto", "none", "required"}:
        yield Refusal(
            f"--tool-choice {settings.tool_choice}: the embedded model cannot be made to call a certain tool",
            hint="give --tool-choice required and a toolset with this tool alone",
        )


def _no_routing(settings: Settings, where: str) -> Iterator[Refusal]:
    for name in ROUTING:
        if getattr(settings, name) is not None:
            yield Refusal(f"--{name.replace('_', '-')}: {where} routes to nobody else", "leave it out")


def _in_anthropics_dialect(settings: Settings) -> Iterator[Refusal]:
    extra = settings.extra_body or {}
    if settings.max_tokens is None and not isinstance(extra.get("max_tokens"), int):
        yield Refusal("--api anthropic: requests need the most tokens of an answer", "give --max-tokens N")
    if settings.seed is not None:
        yield Refusal(
            "--seed: Anthropic's dialect has none", "leave it out; toolsets are drawn as with seed 0"
        )
    if settings.temperature is not None and settings.temperature > 1:
        yield Refusal(f"--temperature {settings.temperature}: expected 0 to 1 with --api anthropic")
    if (settings.response_format or {}).get("type") == "json_object":
        yield Refusal(
            "--response-format json_object: Anthropic's dialect has none", "give the path of a JSON schema"
        )
    if "system" in extra:
        yield Refusal("--extra-body system: evrun sets this itself", "give --system-prompt")
    for message in settings.prefill or []:
        if message["role"] not in ROLES:
            found = f"--prefill-messages-file: unknown role {message['role']!r}"
            yield Refusal(found, f"expected one of {', '.join(ROLES)} with --api anthropic")
    yield from _no_routing(settings, "Anthropic's dialect")
    yield from _thinking(settings, extra)


def _thinking(settings: Settings, extra: Mapping[str, Any]) -> Iterator[Refusal]:
    """Thoughts bind more than themselves: what the dialect refuses beside them."""
    effort = None if settings.reasoning_disabled else settings.reasoning_effort
    asked = effort is not None or settings.reasoning_disabled
    for field, given in (
        ("thinking", asked),
        ("output_config", (asked and effort not in {None, "none"}) or settings.response_format is not None),
    ):
        if field in extra and given:
            yield Refusal(f"--extra-body {field}: other options set this already", "say it in one way")
    if effort in {None, "none"}:
        return
    option = f"--reasoning-effort {effort}"
    if effort not in EFFORTS:
        yield Refusal(f"{option}: expected none, {', '.join(EFFORTS)} with --api anthropic")
    if settings.temperature not in {None, 1}:
        yield Refusal(f"{option} and --temperature {settings.temperature}: who thinks has temperature 1")
    if settings.top_p is not None and settings.top_p < LOWEST_THINKING_TOP_P:
        yield Refusal(f"{option} and --top-p {settings.top_p}: who thinks has 0.95 or more")
    if settings.tool_choice is not None and settings.tool_choice not in FREE_CHOICES:
        yield Refusal(
            f"{option} and --tool-choice {settings.tool_choice}: who thinks cannot be made to call a tool",
            hint="give --tool-choice auto, or --reasoning-disabled",
        )
