"""JSON read and written with nothing lost: numbers keep their spelling, surrogates their escapes. Pure.

A request is known by its bytes, and a stream is made of the bytes of a reply, so neither may change a value
on the way: ``1e400``, a number of five thousand digits and half a surrogate pair come out as they went in.
"""

import json
from typing import Any

import msgspec


class NotJson(ValueError):
    """These bytes are no JSON; the message says what was found and where."""


class Number(msgspec.Struct, frozen=True):
    """A number as it was spelled."""

    text: str


def read_json(raw: bytes) -> Any:
    """The value, with a `Number` for each number.

    Raises:
        NotJson: what the bytes are instead.
    """
    try:
        return _decoder.decode(raw.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise NotJson(f"not UTF-8 at byte {error.start}") from error
    except json.JSONDecodeError as error:
        raise NotJson(f"{error.msg} at line {error.lineno}, column {error.colno}") from error
    except RecursionError as error:
        raise NotJson("nested too deeply") from error


def write_json(value: Any, *, ordered: bool = False) -> bytes:
    """The bytes of a value, with no space in them; `ordered` sorts the keys of every object.

    Raises:
        NotJson: it is nested too deeply.
    """
    parts: list[str] = []
    try:
        _write(value, parts, ordered=ordered)
    except RecursionError as error:
        raise NotJson("nested too deeply") from error
    # Surrogates stand only in strings, where Python's escape for them is JSON's.
    return "".join(parts).encode("utf-8", "backslashreplace")


def _write(value: Any, parts: list[str], *, ordered: bool) -> None:
    match value:
        case str():
            parts.append(_string(value))
        case Number():
            parts.append(value.text)
        case None | bool() | int():
            parts.append(json.dumps(value))
        case list():
            _write_list(value, parts, ordered=ordered)
        case dict():
            _write_object(value, parts, ordered=ordered)
        case _:
            raise TypeError(f"{type(value).__name__} is not of JSON")


def _write_list(value: list[Any], parts: list[str], *, ordered: bool) -> None:
    separator = "["
    for item in value:
        parts.append(separator)
        _write(item, parts, ordered=ordered)
        separator = ","
    parts.append("]" if value else "[]")


def _write_object(value: dict[str, Any], parts: list[str], *, ordered: bool) -> None:
    separator = "{"
    for key in sorted(value) if ordered else value:
        parts.append(separator + _string(key) + ":")
        _write(value[key], parts, ordered=ordered)
        separator = ","
    parts.append("}" if value else "{}")


def _constant(name: str) -> Any:
    raise NotJson(f"{name} is not a JSON number")


_string = json.JSONEncoder(ensure_ascii=False).encode
_decoder = json.JSONDecoder(parse_float=Number, parse_int=Number, parse_constant=_constant)
