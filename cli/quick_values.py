"""Values of options without pydantic, which typer loads to find out that a text is a text.

Loading it and building a validator for each of sixty options takes longer than all else that stands between
a command line and its command. So what is plain is taken here; whatever is not is left to typer.
"""

import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import NoneType
from typing import Any, get_args, get_type_hints

_PLAIN_INT = re.compile(r"-?[0-9]{1,18}", re.ASCII)
_PLAIN_FLOAT = re.compile(r"-?[0-9]{1,15}(\.[0-9]{1,15})?", re.ASCII)
_NOT_PLAIN = object()


def take_plain_values(command: Any, function: Callable[..., Any]) -> None:
    """Let a command take the plain values of its parameters at once; `function` is what it was made of."""
    hints = get_type_hints(function, include_extras=True)
    for parameter in command.params:
        if not parameter.required:
            _quicken(parameter, _kind(hints.get(parameter.name)))
    command.get_help_option = partial(_help_option, command.get_help_option)


def _help_option(by_typer: Callable[[Any], Any], context: Any) -> Any:
    """The option --help, which is made when it is first asked for."""
    option = by_typer(context)
    if option is not None and "process_value" not in vars(option):
        _quicken(option, bool)
    return option


def _quicken(parameter: Any, kind: Any) -> None:
    parameter.process_value = partial(_process, parameter, kind, parameter.process_value)


def _kind(hint: Any) -> Any:
    """What a parameter holds, null set aside; null itself where that has bounds, which typer looks at."""
    if any(getattr(info, bound, None) is not None for info in get_args(hint)[1:] for bound in ("min", "max")):
        return None
    held = get_args(hint)[0] if hasattr(hint, "__metadata__") else hint
    kinds = [kind for kind in get_args(held) if kind is not NoneType]
    return kinds[0] if len(kinds) == 1 and NoneType in get_args(held) else held


def _process(parameter: Any, kind: Any, by_typer: Callable[[Any, Any], Any], context: Any, value: Any) -> Any:
    several = parameter.multiple or parameter.nargs != 1
    plain: Any = _NOT_PLAIN
    if value is None:
        plain = () if several else None
    elif not several:
        plain = plain_value(kind, value)
    if plain is _NOT_PLAIN:
        return by_typer(context, value)
    return plain if parameter.callback is None else parameter.callback(context, parameter, plain)


def plain_value(kind: Any, value: Any) -> Any:
    """The value as what its parameter holds, where that is plain to see; else something that is no value."""
    if kind in {str, bool, int, float} and type(value) is kind:
        return value
    if not isinstance(value, str):
        return value if kind is Path and isinstance(value, Path) else _NOT_PLAIN
    if kind is Path:
        return Path(value)
    if kind is int and _PLAIN_INT.fullmatch(value):
        return int(value)
    if kind is float and _PLAIN_FLOAT.fullmatch(value):
        return float(value)
    return _NOT_PLAIN
