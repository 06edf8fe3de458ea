"""The options of `evrun run`: their spellings, their help, and how what was typed becomes `Options`."""

import json
from pathlib import Path
from typing import Annotated, Any

from typer import Argument, Option

from evrun.batch import CAP_OPTIONS, Options, parse_cap
from evrun.errors import UsageFault

# Where to work.
Dataset = Annotated[Path | None, Argument(metavar="[DATASET]", help="JSONL, CSV, parquet; - is stdin.")]
DatasetFile = Annotated[Path | None, Option(help="The dataset, as an option.")]
RunName = Annotated[str, Option(help="The run's name: letters, digits, '.', '_', '-'.")]
OutputDir = Annotated[Path, Option(help="The run lives in OUTPUT_DIR/RUN_NAME.")]
Resume = Annotated[bool, Option("--resume", help="Go on with the run of this name.")]

# What to work on.
BatchSize = Annotated[int | None, Option(help="Prompts per batch_N.jsonl.  [10]")]
MaxSamples = Annotated[int | None, Option(help="Only the first N usable rows.")]
Samples = Annotated[int | None, Option(help="Independent tries at each row.  [1]")]
SkipBadRows = Annotated[bool, Option("--skip-bad-rows", help="Leave bad lines out, on record.")]
RetryFailed = Annotated[bool, Option("--retry-failed", help="On resume: try failed prompts again.")]
RetryDiscarded = Annotated[bool, Option("--retry-discarded", help="On resume: try set-aside ones again.")]
RequireReasoning = Annotated[
    bool | None,
    Option("--require-reasoning/--keep-all", help="Set aside what shows no reasoning.  [require]"),
]

UnknownTools = Annotated[
    str | None,
    Option(help="Trajectories that call tools there are not: discard or keep.  [as reasoning]"),
]
Agent = Annotated[
    str | None, Option(metavar="chat|FILE.py:F|command:CMD", help="Who works on a prompt.  [chat]")
]
Judge = Annotated[str | None, Option(metavar="FILE.py:F|llm:RUBRIC", help="Gives each kept row a score.")]
MinScore = Annotated[float | None, Option(help="Set aside what the judge scores lower.")]

# Whom to ask.
Model = Annotated[str | None, Option(help="The model; 'local' is the embedded one.")]
BaseUrl = Annotated[str | None, Option(help="An OpenAI-compatible endpoint.  [OPENAI_BASE_URL]")]
ApiKeyEnv = Annotated[str | None, Option(help="The variable that holds the key.  [OPENAI_API_KEY]")]
Api = Annotated[str | None, Option(help="openai or anthropic: the endpoint's dialect.  [openai]")]
Header = Annotated[list[str] | None, Option(metavar="NAME=VALUE", help="Sent; $VAR is read at the start.")]
Stream = Annotated[bool | None, Option("--stream/--no-stream", help="Ask for answers piece by piece.")]
ApiKey = Annotated[str | None, Option(hidden=True)]
Price = Annotated[list[str] | None, Option(metavar="MODEL=IN,OUT[,CACHED]", help="USD per million tokens.")]
ProvidersAllowed = Annotated[str | None, Option(metavar="A,B", help="OpenRouter: only these.")]
ProvidersIgnored = Annotated[str | None, Option(metavar="A,B", help="OpenRouter: not these.")]
ProvidersOrder = Annotated[str | None, Option(metavar="A,B", help="OpenRouter: in this order.")]
ProviderSort = Annotated[str | None, Option(help="OpenRouter: price, throughput or latency.")]

# What it may cost.
UnknownPrice = Annotated[str | None, Option(help="Under a USD cap: refuse or allow.  [refuse]")]
BudgetUsd = Annotated[str | None, Option(metavar="USD|none", help="Pause before more is spent.")]
BudgetTokens = Annotated[str | None, Option(metavar="N|none", help="The same in tokens, in and out.")]
BudgetCalls = Annotated[str | None, Option(metavar="N|none", help="The same in model calls.")]
BudgetHours = Annotated[str | None, Option(metavar="H|none", help="The same in hours of work.")]
PromptBudgetUsd = Annotated[str | None, Option(metavar="USD|none", help="The most for one prompt.")]

# How to ask.
MaxTokens = Annotated[int | None, Option(help="The most tokens of one answer.")]
Temperature = Annotated[float | None, Option(help="Sent as it is.")]
TopP = Annotated[float | None, Option(help="Sent as it is.")]
Seed = Annotated[int | None, Option(help="Sent with each request; also draws the toolsets.")]
ReasoningEffort = Annotated[str | None, Option(help="none, minimal, low, medium, high, xhigh, max or ultra.")]
ReasoningDisabled = Annotated[bool | None, Option("--reasoning-disabled", help="Ask for no reasoning.")]
ResponseFormat = Annotated[
    str | None, Option(metavar="text|json_object|FILE", help="FILE: a JSON schema that answers must fit.")
]
ToolChoice = Annotated[str | None, Option(help="auto, none, required or a tool's name.")]
ExtraBody = Annotated[str | None, Option(metavar="JSON", help="Merged into each request.")]
Template = Annotated[str | None, Option(help="Builds the prompt from a row's fields.  [{prompt}]")]
SystemPrompt = Annotated[str | None, Option(help="Sent, and kept in trajectories.")]
EphemeralSystemPrompt = Annotated[str | None, Option(help="Sent, never in trajectories.")]
PrefillMessagesFile = Annotated[Path | None, Option(help="JSON messages: sent, never in trajectories.")]
Distribution = Annotated[str | None, Option(help="Toolsets are drawn from it.  [default]")]
Toolsets = Annotated[str | None, Option(metavar="A,B|none", help="These toolsets, nothing drawn.")]
Tools = Annotated[list[str] | None, Option(metavar="FILE.py", help="Tools of your own: a toolset each.")]
McpConfig = Annotated[Path | None, Option(help="JSON that names MCP servers: a toolset each.")]
WebAllow = Annotated[str | None, Option(metavar="HOST,…", help="The hosts that web_fetch may ask.")]
ListDistributions = Annotated[bool, Option("--list-distributions", help="Show them and exit.")]

# How hard to try.
Concurrency = Annotated[int | None, Option("--concurrency", "--num-workers", help="Prompts in flight.  [8]")]
MaxTurns = Annotated[int | None, Option(help="Model calls per prompt.  [10]")]
Retries = Annotated[int | None, Option(help="Repeats of a call that failed.  [4]")]
PromptTimeout = Annotated[float | None, Option(help="Seconds for one prompt.  [600]")]
RequestTimeout = Annotated[float | None, Option(help="Seconds for one request.  [120]")]
Rpm = Annotated[int | None, Option(help="At most so many requests a minute.")]
Tpm = Annotated[int | None, Option(help="At most so many tokens a minute.")]

Executor = Annotated[str | None, Option(metavar="local|ray", help="Where prompts are worked on.  [local]")]
RayAddress = Annotated[str | None, Option(metavar="HOST:PORT|auto", help="The Ray cluster's head.")]

# What to show.
Otel = Annotated[str | None, Option(metavar="URL", help="Spans go to this OpenTelemetry collector.")]
DryRun = Annotated[bool, Option("--dry-run", help="Check and estimate; spend and write nothing.")]
Verbose = Annotated[bool, Option("--verbose", help="A line for each event.")]
LogPrefixChars = Annotated[int, Option(help="Length of the previews of --verbose.")]
Quiet = Annotated[bool, Option("--quiet", help="No progress.")]

_AS_GIVEN = (
    "batch_size", "samples", "template", "agent", "judge", "min_score", "unknown_tools", "api", "stream",
    "tool_choice", "tools", "rpm", "tpm", "otel", "model", "base_url", "api_key_env", "concurrency",
    "max_turns", "max_tokens", "temperature", "top_p", "seed", "reasoning_effort", "reasoning_disabled",
    "system_prompt", "ephemeral_system_prompt", "distribution", "require_reasoning", "retries",
    "prompt_timeout", "request_timeout", "provider_sort", "unknown_price", "executor", "ray_address",
)  # fmt: skip


def options_of(asked: dict[str, Any]) -> Options:
    """What was typed, by the names of the command's parameters, as `Options`.

    Raises:
        UsageFault: something that cannot be taken as it was typed.
    """
    _refuse_api_key(asked["api_key"])
    given = {name: asked[name] for name in _AS_GIVEN}
    for name in ("providers_allowed", "providers_ignored", "providers_order"):
        given[name] = _names(asked[name])
    # In Hermes 0 means all of them.
    given["max_samples"] = asked["max_samples"] or None
    given["headers"] = _headers(asked["header"])
    given["web_allow"] = _names(asked["web_allow"])
    given["mcp_config"] = None if asked["mcp_config"] is None else str(asked["mcp_config"])
    given["response_format"] = _response_format(asked["response_format"])
    given["extra_body"] = _json_object("extra-body", asked["extra_body"])
    given["toolsets"] = [] if asked["toolsets"] == "none" else _names(asked["toolsets"])
    given["prices"] = asked["price"] or None
    return Options(
        run_name=asked["run_name"],
        output_dir=asked["output_dir"],
        resume=asked["resume"],
        retry_failed=asked["retry_failed"],
        retry_discarded=asked["retry_discarded"],
        skip_bad_rows=asked["skip_bad_rows"],
        dataset=_one_dataset(asked["dataset"], asked["dataset_file"]),
        prefill_messages_file=asked["prefill_messages_file"],
        given=given,
        caps=_caps(asked),
    )


def _caps(asked: dict[str, Any]) -> dict[str, int | None]:
    """The caps that were typed; an option is named as its cap is in `CAP_OPTIONS`."""
    typed = {cap: asked[option.removeprefix("--").replace("-", "_")] for cap, option in CAP_OPTIONS.items()}
    return {cap: parse_cap(cap, text) for cap, text in typed.items() if text is not None}


def _one_dataset(dataset: Path | None, dataset_file: Path | None) -> Path | None:
    if dataset is not None and dataset_file is not None and dataset != dataset_file:
        raise UsageFault(f"two datasets: {dataset} and --dataset-file {dataset_file}", hint="give one")
    return dataset or dataset_file


def _refuse_api_key(value: str | None) -> None:
    if value is not None:
        raise UsageFault(
            "--api-key is refused: a key on a command line can be read in the process list",
            hint="put it into an environment variable and name that with --api-key-env NAME",
        )


def _names(text: str | None) -> list[str] | None:
    if text is None:
        return None
    return list(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))


def _headers(given: list[str] | None) -> dict[str, str] | None:
    if given is None:
        return None
    pairs = [text.partition("=") for text in given]
    for (name, equals, _), text in zip(pairs, given, strict=True):
        if not equals or not name.strip():
            raise UsageFault(f"--header {text.partition('=')[0]!r}: expected NAME=VALUE")
    return {name.strip(): value for name, _, value in pairs}


def _response_format(text: str | None) -> dict[str, Any] | None:
    """As OpenAI's API takes it; a JSON schema is read now, because a run must not depend on its file."""
    if text is None:
        return None
    if text in {"text", "json_object"}:
        return {"type": text}
    try:
        schema = text if text.lstrip().startswith("{") else Path(text).read_text("utf-8")
    except (OSError, ValueError) as error:
        raise UsageFault(
            f"--response-format {text}: {error}", hint="give text, json_object, or the path of a JSON schema"
        ) from error
    value = _json_object("response-format", schema)
    assert value is not None
    if value.get("type") in {"text", "json_object", "json_schema"}:
        return value
    return {"type": "json_schema", "json_schema": {"name": "answer", "schema": value, "strict": True}}


def _json_object(option: str, text: str | None) -> dict[str, Any] | None:
    if text is None:
        return None
    try:
        value = json.loads(text)
    except ValueError as error:
        raise UsageFault(f"--{option}: bad JSON: {error}", hint="for example '{\"top_k\": 20}'") from error
    if not isinstance(value, dict):
        raise UsageFault(f"--{option}: expected a JSON object, found {text[:60]}")
    return value
