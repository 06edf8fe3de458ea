"""Where options come from besides the command line: a config file, `EVRUN_…` variables, and `.env`.

What was typed counts most, then the config file, then the environment, then a file `.env` in the current
directory. All of them go through the same conversion and the same checks as what was typed.
"""

import difflib
import json
import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from evrun.errors import UsageFault

PREFIX = "EVRUN_"
_FROM_CONFIG = "evrun.config"
"""Under this name a command's context keeps which of its parameters a config file gave."""
_NOT_FROM_CONFIG = frozenset({"config", "api_key", "help"})
_PAIRS = (
    ("dataset", "dataset_file"),
    ("distribution", "toolsets"),
    ("reasoning_effort", "reasoning_disabled"),
)
"""Two options of which one says what the other does not: where one counts more, the other is not heard."""
_SWITCHES = frozenset({"true", "True", "TRUE", "false", "False", "FALSE"})
_LISTS_WITH_COMMAS = frozenset(
    {"providers_allowed", "providers_ignored", "providers_order", "toolsets", "web_allow"}
)


def environment() -> dict[str, str]:
    """The variables of the environment, and those of `.env` that it does not set.

    They are not put into this process's own environment, because the programs that tools start inherit that.
    """
    path = Path(".env")
    if not path.is_file():
        return dict(os.environ)
    from dotenv import dotenv_values  # noqa: PLC0415  (only where there is such a file)

    return {name: value for name, value in dotenv_values(path).items() if value is not None} | dict(
        os.environ
    )


def environment_defaults(parameters: list[Any], variables: Mapping[str, str]) -> dict[str, Any]:
    """What the environment says of a command's options, as the command's defaults.

    The option `--batch-size` is the variable EVRUN_BATCH_SIZE; one that may be given several times is split
    at white space. Names and values that fit nothing are refused by the parser, by the option's name.
    """
    found: dict[str, Any] = {}
    for parameter in parameters:
        value = variables.get(PREFIX + parameter.name.upper())
        if value is None or parameter.param_type_name != "option" or parameter.name in _NOT_FROM_CONFIG:
            continue
        found[parameter.name] = value.split() if parameter.multiple else value
    return found


def misspelt(parameters: list[Any], variables: Mapping[str, str]) -> list[str]:
    """A line for each variable that is nearly the name of an option, and none."""
    known = {PREFIX + parameter.name.upper() for parameter in parameters}
    lines = []
    for name in sorted(variables):
        if name.startswith(PREFIX) and name not in known:
            near = difflib.get_close_matches(name, known, n=1, cutoff=0.85)
            lines += [f"the variable {name} is no option; did you mean {near[0]}?"] if near else []
    return lines


def _take_config(context: typer.Context, path: Path | None) -> Path | None:
    """Make a config file's values the defaults of the command that is being read."""
    if path is not None:
        values = _as_defaults(read_config(path), context.command.params, path)
        context.meta[_FROM_CONFIG] = frozenset(values)
        context.default_map = {**(context.default_map or {}), **values}
    return path


ConfigFile = Annotated[
    Path | None,
    typer.Option(
        "--config", help="YAML, TOML or JSON: options by name.", callback=_take_config, is_eager=True
    ),
]


def read_config(path: Path) -> dict[str, Any]:
    """A config file: options by name.

    Raises:
        UsageFault: no such file, or it holds no mapping.
    """
    try:
        text = path.read_text("utf-8")
        value, words = (tomllib.loads(text), {}) if path.suffix == ".toml" else _yaml(text)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise UsageFault(f"--config {path}: {reason}", hint="give a YAML, TOML or JSON file") from error
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise UsageFault(
            f"--config {path}: expected options by name, found {str(value)[:60]!r}",
            hint="for example a line 'batch_size: 20'",
        )
    return {name: _as_written(item, words.get(str(name))) for name, item in value.items()}


def _as_written(value: Any, word: Any) -> Any:
    """A plain value as it was typed: to YAML 2026_01_15 is a number, and 1.10 is 1.1."""
    if isinstance(word, str) and value is not None and not isinstance(value, bool):
        return word
    if isinstance(value, list) and isinstance(word, list):
        return [_as_written(*pair) for pair in zip(value, word, strict=True)]
    return word if isinstance(value, bool) and word not in _SWITCHES else value


def _yaml(text: str) -> tuple[Any, dict[str, Any]]:
    """What YAML takes a text for, and the same with every plain value as it was written."""
    import yaml  # noqa: PLC0415  (only where a config file is given)

    try:
        words = yaml.load(text, Loader=yaml.BaseLoader)  # noqa: S506  (it makes nothing but texts)
        return yaml.safe_load(text), words if isinstance(words, dict) else {}
    except yaml.YAMLError as error:
        raise ValueError(" ".join(str(error).split())) from error


def _as_defaults(values: dict[Any, Any], parameters: list[Any], path: Path) -> dict[str, Any]:
    spelled = _spellings(parameters)
    defaults: dict[str, Any] = {}
    for given, value in values.items():
        spelling = str(given).replace("-", "_")
        if spelling not in spelled:
            raise _no_option(str(given), spelled, path)
        parameter, negated = spelled[spelling]
        if parameter.name in defaults:
            raise UsageFault(f"--config {path}: {parameter.name} is given twice, in two spellings")
        if value is not None:
            value = not value if negated and isinstance(value, bool) else value  # noqa: PLW2901 (the opposite)
            defaults[parameter.name] = _as_typed(parameter.name, value, parameter.multiple)
    return defaults


def _spellings(parameters: list[Any]) -> dict[str, tuple[Any, bool]]:
    """Each name under which an option may be given, with its parameter, and whether it says the opposite."""
    spelled: dict[str, tuple[Any, bool]] = {}
    for parameter in parameters:
        if parameter.name not in _NOT_FROM_CONFIG:
            spelled[parameter.name] = (parameter, False)
            for names, negated in ((parameter.opts, False), (parameter.secondary_opts, True)):
                spelled |= {name.lstrip("-").replace("-", "_"): (parameter, negated) for name in names}
    return spelled


def _no_option(given: str, spelled: Mapping[str, object], path: Path) -> UsageFault:
    if given.replace("-", "_") == "api_key":
        return UsageFault(
            f"--config {path}: {given}: a key does not belong into a file of options",
            hint="put it into an environment variable, or into .env",
        )
    near = difflib.get_close_matches(given.replace("-", "_"), spelled, n=1)
    hint = f"did you mean {near[0]}?" if near else "evrun run --help lists the options"
    return UsageFault(f"--config {path}: {given}: no option of that name", hint=hint)


def _as_typed(name: str, value: Any, multiple: bool) -> Any:  # noqa: FBT001 (what the parser says of it)
    """A value as somebody would have typed it."""
    if multiple:
        if isinstance(value, dict):
            return [f"{key}={_word(item)}" for key, item in value.items()]
        return [_word(item) for item in value] if isinstance(value, list) else [_word(value)]
    if name in _LISTS_WITH_COMMAS and isinstance(value, list):
        return ",".join(_word(item) for item in value) or "none"
    if isinstance(value, dict | list):
        return json.dumps(value)
    return value if isinstance(value, bool) else _word(value)


def _word(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, default=str).strip('"')


def by_precedence(context: typer.Context, asked: dict[str, Any], *, recorded: bool) -> dict[str, Any]:
    """What counts of what was asked, by the names of the command's parameters.

    Where the run is `recorded` already, the record counts more than the environment, which is then heard
    only about what no run records.
    """
    config = context.meta.get(_FROM_CONFIG, frozenset())
    ranks = {name: _rank(context, name, config) for name in asked}
    counted = dict(asked)
    for name, rank in ranks.items():
        if recorded and rank == _ENVIRONMENT and name not in _NEVER_RECORDED:
            counted[name] = False if asked[name] is True else None
    for one, other in _PAIRS:
        if ranks[one] and ranks[other] and ranks[one] != ranks[other]:
            weaker = one if ranks[one] < ranks[other] else other
            counted[weaker] = None
    return counted


_ENVIRONMENT, _CONFIG, _TYPED = 1, 2, 3
_NEVER_RECORDED = frozenset(
    {
        "run_name", "output_dir", "resume", "retry_failed", "retry_discarded", "verbose", "quiet", "json",
        "log_prefix_chars", "dry_run", "list_distributions",
    }
)  # fmt: skip


def _rank(context: typer.Context, name: str, config: frozenset[str]) -> int:
    """How much a parameter counts; 0 where nobody gave it."""
    source = context.get_parameter_source(name)
    if source is None or source.name == "DEFAULT":
        return 0
    if source.name == "DEFAULT_MAP":
        return _CONFIG if name in config else _ENVIRONMENT
    return _TYPED


def came_from(context: Any, parameter: Any) -> str | None:
    """Where a parameter's value was found, in words; null where it was typed, or is a default."""
    rank = _rank(context, parameter.name, context.meta.get(_FROM_CONFIG, frozenset())) if parameter else 0
    if rank == _ENVIRONMENT:
        return f"the variable {PREFIX}{parameter.name.upper()}"
    return "the file of --config" if rank == _CONFIG else None
