"""The values of a config file, each key known and each value of its type."""

import difflib
import json
import math
from collections.abc import Iterator
from typing import Any, NoReturn, get_args, get_origin

import msgspec

from ..errors import UsageFault
from ..prices import plain_number
from .config import TrainingConfig
from .config_record import section_of

_WORDS = {
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    str: "a text",
    list: "a list of texts",
    dict: "a map",
}
_LARGEST = 2**63
_SHOWN = 80


def checked_values(values: dict[Any, Any], words: Any) -> dict[str, Any]:
    """The values by section, converted; what is not given is left out.

    Raises:
        UsageFault: an unknown key (the nearest is named), a value of another type, a missing key.
    """
    return _section(TrainingConfig, values, words, "")


def known_keys() -> list[str]:
    """Every key, with its sections."""
    return list(_keys(TrainingConfig, ""))


def _keys(kind: type[msgspec.Struct], prefix: str) -> Iterator[str]:
    for field in msgspec.structs.fields(kind):
        inner = section_of(field.type)
        if inner is None:
            yield f"{prefix}{field.name}"
        else:
            yield from _keys(inner, f"{prefix}{field.name}.")


def _section(kind: type[msgspec.Struct], values: Any, words: Any, prefix: str) -> dict[str, Any]:
    if not isinstance(values, dict):
        raise UsageFault(
            f"{prefix.rstrip('.')}: expected a map, found {_shown(values)}",
            f"for example {prefix.rstrip('.')}: {{{msgspec.structs.fields(kind)[0].name}: …}}",
        )
    fields = {field.name: field for field in msgspec.structs.fields(kind)}
    for name in values:
        if name not in fields:
            _refuse_unknown(f"{prefix}{name}", str(name), [f"{prefix}{known}" for known in fields])
    found: dict[str, Any] = {}
    for name, field in fields.items():
        key, inner = f"{prefix}{name}", section_of(field.type)
        word = words.get(name) if isinstance(words, dict) else None
        value = values.get(name)
        if inner is not None:
            required = field.required or any(one.required for one in msgspec.structs.fields(inner))
            if value is not None or required:
                found[name] = _section(inner, {} if value is None else value, word, f"{key}.")
        elif name in values and not (value is None and _kinds(field.type)[1] is False and not field.required):
            found[name] = _value(key, field.type, value, word)
        elif field.required:
            raise UsageFault(f"{key} is missing", "docs/training-config.md tells what it is")
    return found


def _refuse_unknown(key: str, name: str, siblings: list[str]) -> NoReturn:
    """Say which key was meant: the same name in another section, else the nearest."""
    everywhere = known_keys()
    same = [known for known in everywhere if known.rpartition(".")[2] == name]
    near = (
        same
        or difflib.get_close_matches(key, siblings, n=1)
        or difflib.get_close_matches(key, everywhere, n=1)
    )
    if name in {"api_key", "key", "token"}:
        raise UsageFault(f"{key}: a key does not belong into a file", "put it into an environment variable")
    hint = f"did you mean {near[0]}?" if near else "docs/training-config.md lists the keys"
    raise UsageFault(f"unknown key {key}", hint)


def _kinds(annotation: Any) -> tuple[list[Any], bool]:
    """The types that a field takes, and whether null is one."""
    options = (
        get_args(annotation)
        if type(annotation).__name__ in {"UnionType", "Union", "_UnionGenericAlias"}
        else ()
    )
    options = options or (annotation,)
    return [one for one in options if one is not type(None)], type(None) in options


def _value(key: str, annotation: Any, value: Any, word: Any) -> Any:
    kinds, nullable = _kinds(annotation)
    if value is None and nullable:
        return None
    for kind in kinds:
        base = get_origin(kind) or kind
        if base is dict and isinstance(value, dict):
            return _map(key, kind, value, word)
        if base is list and isinstance(value, list):
            return [_text(f"{key}[{n}]", one, _at(word, n)) for n, one in enumerate(value)]
        if base in (bool, int, float, str):
            found = _plain(base, value, word)
            if found is not None:
                return found
    expected = " or ".join(_WORDS[get_origin(kind) or kind] for kind in kinds)
    raise UsageFault(f"{key}: expected {expected}, found {_shown(value)}")


def _plain(kind: type, value: Any, word: Any) -> Any:
    """A plain value as that type; null where it is something else."""
    if kind is bool:
        return value if isinstance(value, bool) else None
    if kind is str:
        if isinstance(value, str):
            return value
        return word if isinstance(word, str) and not isinstance(value, dict | list | None) else None
    if isinstance(value, bool):
        return None
    if kind is int:
        return value if isinstance(value, int) and abs(value) < _LARGEST else None
    if isinstance(value, str):
        # To YAML 1e-3 is a text, as it has no dot.
        number = plain_number(value.strip())
        value = None if number is None else float(number)
    return float(value) if isinstance(value, int | float) and _finite(value) else None


def _finite(value: float) -> bool:
    try:
        return math.isfinite(float(value))
    except OverflowError:
        return False


def _text(key: str, value: Any, word: Any) -> str:
    found = _plain(str, value, word)
    if found is None:
        raise UsageFault(f"{key}: expected a text, found {_shown(value)}")
    return str(found)


def _map(key: str, kind: Any, value: dict[Any, Any], word: Any) -> dict[str, Any]:
    """A map with names of the user's own: what the log can hold."""
    inner = (get_args(kind) or (str, Any))[1]
    for name in value:
        if not isinstance(name, str):
            raise UsageFault(f"{key}: the name {name!r} is no text", "put it into quotes")
    if inner is Any:
        check_recordable(key, value)
        return value
    given = {name: one for name, one in value.items() if one is not None}
    return {name: _value(f"{key}.{name}", inner, one, _at(word, name)) for name, one in given.items()}


def check_recordable(key: str, value: Any) -> None:
    """Refuse what a log cannot hold: dates, NaN, numbers of more than 64 bits, texts that are no Unicode.

    Raises:
        UsageFault: naming where it stands.
    """
    if isinstance(value, dict):
        for name, one in value.items():
            if not isinstance(name, str):
                raise UsageFault(f"{key}: the name {name!r} is no text", "put it into quotes")
            check_recordable(f"{key}.{name}", one)
    elif isinstance(value, list):
        for number, one in enumerate(value):
            check_recordable(f"{key}[{number}]", one)
    else:
        try:
            json.dumps(value, allow_nan=False).encode()
            msgspec.msgpack.encode(value)
        except (TypeError, ValueError, OverflowError) as error:
            raise UsageFault(f"{key}: {_shown(value)} cannot be recorded", "put it into quotes") from error


def _at(words: Any, place: Any) -> Any:
    if isinstance(words, dict):
        return words.get(place)
    return words[place] if isinstance(words, list) and place < len(words) else None


def _shown(value: Any) -> str:
    text = "nothing" if value is None else repr(value)
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 1]}…"
