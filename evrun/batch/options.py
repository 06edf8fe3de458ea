"""What somebody asked for: options as given, null where not given, and how they become settings.

Precedence on a new run: option, environment, default. On a resume: option, what the log recorded,
environment.
"""

import json
import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from ..effects.llm_endpoint import Endpoint
from ..errors import UsageFault
from ..otel.sending import check_collector
from ..prices import parse_price
from ..tools import check_sources
from .agent_setting import absolute_agent, check_agent, is_program
from .dialects import DIALECTS, endpoint_values
from .executor_setting import check_executor, executor_values
from .headers import brings_a_key
from .judge_setting import judge_values
from .settings import (
    APIS,
    CHAT,
    PROVIDER_SORTS,
    REASONING_EFFORTS,
    UNKNOWN_PRICE,
    UNKNOWN_TOOLS,
    Settings,
    settings_record,
)
from .templating import check_template
from .tool_sources import absolute_paths, sources_of
from .wire_options import LOCAL_MODEL, check_wire

RUN_NAME_LETTERS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-")
EVRUN_SETS = ("model", "messages", "tools", "stream", "n")
"""Fields of a request that say what is recorded, paid and read; nothing else may change them."""
OWN_AGENT_DEFAULTS = {"max_turns": 250}
"""An agent of one's own knows when it has done enough; this only ends one that does not."""
LOCAL_DEFAULTS = {"concurrency": 2, "request_timeout": 600.0, "prompt_timeout": 1800.0}
"""The embedded model shares this machine's cores: fewer at a time and more patience, unless told."""


class Options(msgspec.Struct, kw_only=True):
    """The options of `evrun run`; null means: not given. `given` has the names and units of `Settings`.

    `caps` are those to set, by their names in `evrun.caps`, null for one to lift. `dataset_name` is how the
    dataset is recorded, where that is not its path ("-" for standard input).
    """

    run_name: str
    output_dir: Path = Path("data")
    resume: bool = False
    retry_failed: bool = False
    retry_discarded: bool = False
    skip_bad_rows: bool = False
    dataset: Path | None = None
    dataset_name: str | None = None
    prefill_messages_file: Path | None = None
    given: dict[str, Any] = {}
    caps: dict[str, int | None] = {}

    @property
    def directory(self) -> Path:
        """Where the run lives."""
        return self.output_dir / self.run_name


def check_run_name(name: str) -> None:
    """Refuse a run name that could not be a plain directory name.

    Raises:
        UsageFault: with what was found and what is expected.
    """
    if not name or name.startswith(".") or not RUN_NAME_LETTERS.issuperset(name):
        raise UsageFault(
            f"--run-name {name!r}: expected letters, digits, '.', '_' and '-', not beginning with '.'",
            hint="for example --run-name my_first_run",
        )


def resolve(options: Options, recorded: Settings | None, environment: Mapping[str, str]) -> Settings:
    """The settings in force. `model` may still be empty: `endpoint.choose_model` asks for one then.

    Raises:
        UsageFault: a value that cannot be honoured, with what is expected.
    """
    given = {name: value for name, value in options.given.items() if value is not None}
    if options.prefill_messages_file is not None:
        given["prefill"] = read_prefill(options.prefill_messages_file)
    if options.skip_bad_rows:
        given["skip_bad_rows"] = True
    given |= absolute_paths(given)
    if "agent" in given:
        given["agent"] = absolute_agent(given["agent"])
    if options.dataset is not None:
        given["dataset"] = options.dataset_name or str(options.dataset)
    base = msgspec.to_builtins(recorded) if recorded is not None else _from_environment(environment)
    if recorded is None and given.get("model", base.get("model")) == LOCAL_MODEL:
        base = {**LOCAL_DEFAULTS, **base}
    if recorded is None and given.get("agent", CHAT) != CHAT:
        base = {**OWN_AGENT_DEFAULTS, **({"toolsets": []} if is_program(given["agent"]) else {}), **base}
    values = {"dataset": "", "model": "", **base, **_instead(given), **given}
    if values["model"] == LOCAL_MODEL:
        values["base_url"] = None
    else:
        values |= endpoint_values(values, given, recorded.api if recorded else None, environment)
    values |= executor_values(values, given)
    values |= judge_values(values, given="judge" in given, new=recorded is None)
    settings = msgspec.convert(values, Settings)
    _check(settings)
    return settings


def _instead(given: dict[str, Any]) -> dict[str, Any]:
    """What a given option takes the place of: two ways to say one thing, of which the newer counts.

    Raises:
        UsageFault: both were given now.
    """
    pairs = {("distribution", "toolsets"): None, ("reasoning_effort", "reasoning_disabled"): False}
    for one, other in pairs:
        if one in given and given.get(other) not in (None, False):
            first, second = (f"--{name.replace('_', '-')}" for name in (one, other))
            raise UsageFault(f"{first} and {second} contradict each other", hint="give one of them")
    instead = {other: nothing for (one, other), nothing in pairs.items() if one in given}
    return {**instead, **({"reasoning_effort": None} if given.get("reasoning_disabled") else {})}


def _from_environment(environment: Mapping[str, str]) -> dict[str, Any]:
    model = environment.get("EVRUN_MODEL")
    return {"model": model} if model else {}


def read_prefill(path: Path) -> list[dict[str, Any]]:
    """The messages of a prefill file: a JSON array of objects with role and content.

    Raises:
        UsageFault: the file cannot be read or is something else.
    """
    try:
        value = json.loads(path.read_bytes())
    except (OSError, ValueError) as error:
        raise UsageFault(
            f"--prefill-messages-file {path}: {error}", hint="give a JSON array of messages"
        ) from error
    if not isinstance(value, list) or not all(
        isinstance(m, dict) and "role" in m and "content" in m for m in value
    ):
        raise UsageFault(
            f"--prefill-messages-file {path}: expected a JSON array of objects with role and content",
            hint='for example [{"role": "user", "content": "…"}, {"role": "assistant", "content": "…"}]',
        )
    return value


def _check(settings: Settings) -> None:
    _check_recordable(settings)
    _check_numbers(settings)
    _check_choices(settings)
    check_template(settings)
    _check_endpoint(settings)
    check_wire(settings)
    check_agent(settings)
    check_executor(settings)
    check_collector(settings.otel)


def _check_recordable(settings: Settings) -> None:
    """What the log or a request cannot hold: text that is no Unicode, NaN, numbers of more than 64 bits."""
    for name, value in settings_record(settings).items():
        try:
            json.dumps(value, allow_nan=False)
            msgspec.msgpack.encode(value)
        except (ValueError, OverflowError, RecursionError) as error:
            raise UsageFault(f"--{name.replace('_', '-')} holds what cannot be recorded: {error}") from error


def _check_numbers(settings: Settings) -> None:
    whole = {name: getattr(settings, name) for name in ("batch_size", "samples", "concurrency", "max_turns")}
    whole |= {name: getattr(settings, name) for name in ("max_tokens", "max_samples", "rpm", "tpm")}
    for name, value in whole.items():
        if value is not None and value < 1:
            raise UsageFault(f"--{name.replace('_', '-')} {value}: expected a whole number of at least 1")
    if settings.retries < 0:
        raise UsageFault(f"--retries {settings.retries}: expected 0 or more")
    for name in ("prompt_timeout", "request_timeout"):
        value = getattr(settings, name)
        if not (math.isfinite(value) and value > 0):
            raise UsageFault(f"--{name.replace('_', '-')} {value}: expected seconds, more than 0")
    _check_range("temperature", settings.temperature, 0, math.inf)
    _check_range("top-p", settings.top_p, 0, 1)
    _check_range("min-score", settings.min_score, -math.inf, math.inf)


def _check_range(name: str, value: float | None, low: float, high: float) -> None:
    if value is not None and not (low <= value <= high and math.isfinite(value)):
        raise UsageFault(f"--{name} {value}: expected a number from {low:g} to {high:g}")


def _check_choices(settings: Settings) -> None:
    _check_choice("reasoning-effort", settings.reasoning_effort, REASONING_EFFORTS)
    _check_choice("provider-sort", settings.provider_sort, PROVIDER_SORTS)
    _check_choice("unknown-price", settings.unknown_price, UNKNOWN_PRICE)
    _check_choice("api", settings.api, APIS)
    _check_choice("unknown-tools", settings.unknown_tools, UNKNOWN_TOOLS)
    for name in EVRUN_SETS:
        if name in (settings.extra_body or {}):
            raise UsageFault(f"--extra-body {name}: evrun sets this itself", hint="leave it out")
    check_sources(sources_of(settings))
    for price in settings.prices:
        parse_price(price)


def _check_choice(name: str, value: str | None, known: tuple[str, ...]) -> None:
    if value is not None and value not in known:
        raise UsageFault(f"--{name} {value}: expected one of {', '.join(known)}")


def _check_endpoint(settings: Settings) -> None:
    if settings.model == LOCAL_MODEL:
        if settings.reasoning_effort not in {None, "none"}:
            raise UsageFault(
                f"--reasoning-effort {settings.reasoning_effort}: the embedded model cannot reason",
                hint="leave the option out, or use another model",
            )
        return
    if settings.base_url is None:
        raise UsageFault(
            f"no endpoint: expected --base-url or {DIALECTS[settings.api].base_url}, found neither",
            hint="name one, or use --model local for the embedded model",
        )
    Endpoint(settings.base_url, api=settings.api).url("")


def api_key(settings: Settings, environment: Mapping[str, str] = os.environ) -> str | None:
    """The API key of the endpoint, from the environment only; none where no variable is named.

    Raises:
        UsageFault: an endpoint that is not on this machine, and no key.
    """
    if settings.model == LOCAL_MODEL or settings.base_url is None:
        return None
    if not settings.api_key_env:
        return None
    key = environment.get(settings.api_key_env) or None
    if key is None and not Endpoint(settings.base_url).is_loopback and not brings_a_key(settings):
        raise UsageFault(
            f"no API key: the environment variable {settings.api_key_env} is not set",
            hint=f"export {settings.api_key_env}=…, or name another variable with --api-key-env",
        )
    return key
