"""A line of a row file as the values of an export, where it is one of evrun's own making: in one reading.

Any other line is for `export_rows`, which asks of each value whether it fits.
"""

from collections.abc import Callable
from operator import attrgetter
from typing import Annotated, Any, Final

import msgspec

from .export_schema import COLUMNS, OF_METADATA, USAGE_FIELDS, Kind

_LIMIT: Final = 1 << 63
_JSON_NULL: Final = b"null"
_Int = Annotated[int, msgspec.Meta(ge=-_LIMIT, le=_LIMIT - 1)]


class _Turn(msgspec.Struct, forbid_unknown_fields=True, rename={"by": "from"}, gc=False):
    by: str
    value: str


class _Usage(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    input_tokens: _Int | None
    cached_input_tokens: _Int | None
    output_tokens: _Int | None
    reasoning_tokens: _Int | None


class _Error(msgspec.Struct, forbid_unknown_fields=True, rename={"kind": "class"}, gc=False):
    kind: str | None
    message: str | None
    status: _Int | None
    retryable: bool | None


_TYPES: Final[dict[Kind, Any]] = {
    "text": str | None,
    "int": _Int | None,
    "float": int | float | None,
    "bool": bool | None,
    "json": msgspec.Raw,
    "texts": list[str] | None,
    "turns": list[_Turn] | None,
    "usage": _Usage | None,
    "error": _Error | None,
}


def _json(raw: msgspec.Raw) -> str | None:
    text = bytes(raw)
    return None if text == _JSON_NULL else text.decode()


def _turns(turns: list[_Turn]) -> list[dict[str, str]]:
    return [{"from": turn.by, "value": turn.value} for turn in turns]


def _usage(usage: _Usage) -> dict[str, int | None]:
    return {name: getattr(usage, name) for name in USAGE_FIELDS}


def _error(error: _Error) -> dict[str, Any]:
    return {
        "class": error.kind,
        "message": error.message,
        "status": error.status,
        "retryable": error.retryable,
    }


_MAKERS: Final[dict[Kind, Callable[[Any], Any]]] = {
    "json": _json,
    "float": float,
    "turns": _turns,
    "usage": _usage,
    "error": _error,
}

_PLACES: Final = {column.name: place for place, column in enumerate(COLUMNS)}
_OWN: Final = [column for column in COLUMNS if column.name != "outcome" and column.name not in OF_METADATA]
_KNOWN: Final = [column for column in COLUMNS if column.name in OF_METADATA]
_MADE: Final = [
    (place, _MAKERS[column.kind]) for place, column in enumerate(COLUMNS) if column.kind in _MAKERS
]
_Line: Final = msgspec.defstruct(
    "_Line", [(column.name, _TYPES[column.kind], None) for column in _OWN], gc=False
)
_Metadata: Final = msgspec.defstruct(
    "_Metadata", [(column.name, _TYPES[column.kind], None) for column in _KNOWN], gc=False
)
_line: Final = msgspec.json.Decoder(_Line)
_metadata: Final = msgspec.json.Decoder(_Metadata)
_OWN_PLACES: Final = [_PLACES[column.name] for column in _OWN]
_KNOWN_PLACES: Final = [_PLACES[column.name] for column in _KNOWN]
_own_of: Final = attrgetter(*(column.name for column in _OWN))
_known_of: Final = attrgetter(*(column.name for column in _KNOWN))


def quick_values(line: bytes, outcome: str) -> list[Any] | None:
    """The values of a line, in the order of `COLUMNS`; null if any has to change to fit its column."""
    try:
        own = _line.decode(line)
        # Where there is no metadata it is null, which is no text.
        known = _metadata.decode(own.metadata)  # type: ignore[attr-defined]  # a column of that name
    except (msgspec.DecodeError, UnicodeDecodeError, TypeError):
        return None
    values: list[Any] = [outcome] * len(COLUMNS)
    for place, value in zip(_OWN_PLACES, _own_of(own), strict=True):
        values[place] = value
    for place, value in zip(_KNOWN_PLACES, _known_of(known), strict=True):
        values[place] = value
    for place, make in _MADE:
        if values[place] is not None:
            values[place] = make(values[place])
    return values
