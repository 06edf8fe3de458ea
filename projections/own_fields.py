"""The fields that dataset rows bring along, and what they have in common. Pure.

Readers such as `datasets.load_dataset` take the type of each field from the first megabytes of a file, and
refuse what does not fit later. So a run knows which fields its rows have and of which kinds, and every row of
a view has all of them. One whose values are of several kinds, or that shows what it is only after the first
`HEAD` rows, stands as JSON text in every row. See docs/decisions/0058.
"""

import re
from collections.abc import Mapping
from typing import Any, Final, Self

import msgspec

from .batch_lines import asking_fields
from .jsontext import json_text, loads_lenient
from .templates import PLAIN

HEAD = 100
"""What so many planned rows show of a field, all readers see in time."""
MOST = 200
"""So many fields have a place of their own; those of further names share one."""
OTHERS = "other_fields"

Kind = str | tuple[Any, ...] | None
"""What a value is: null where it says nothing, a name, or one with what is inside."""
MIXED: Final = "mixed"
_DEEPEST = 8
_EXACT = 1 << 53
_LONGEST = 1 << 63
_LIKE_A_DATE = re.compile(r"\d{4}-\d{2}-\d{2}(?:[ T]\d{2}(?::\d{2}(?::\d{2})?)?)?Z?")
_WIDER: dict[frozenset[Any], str] = {
    frozenset({"int", "float"}): "float",
    frozenset({"int", "long"}): "long",
    frozenset({"date", "text"}): "text",
}
_TAKEN = frozenset({"batch_num", "timestamp", "model"})
_LOOK_CLOSELY = _TAKEN | {"messages", "conversations", "custom_id"}
_QUOTE = ord('"')
_SHORTEST_DATE, _LONGEST_DATE = len('"2024-01-01"'), len('"2024-01-01 10:00:00Z"')
_raw = msgspec.json.Decoder(dict[str, msgspec.Raw])
_any = msgspec.json.Decoder()


class OwnFields:
    """Which fields the rows of a plan bring along, and of which kind the values of each are."""

    def __init__(self) -> None:
        self._rows = 0
        self._kinds: dict[str, Kind] = {}
        self._head: dict[str, Kind] = {}
        self._others = False

    def add(self, row: bytes, template: str) -> None:
        """A row was planned."""
        self._rows += 1
        quick = _quick_kinds(row) if template == PLAIN else None
        if quick is None:
            fields = own_fields(row_object(row), template)
            quick = {name: kind_of(value) for name, value in fields.items()}
        for name, kind in quick.items():
            known = self._kinds.get(name)
            if known is None and name not in self._kinds and len(self._kinds) >= MOST:
                self._others = True
                continue
            if known is None or known != kind:
                self._kinds[name] = merged(known, kind)
            if self._rows <= HEAD:
                self._head[name] = self._kinds[name]

    def forms(self) -> dict[str, Kind]:
        """The fields that every row has, each with the kind of its values; `MIXED` for JSON text."""
        forms: dict[str, Kind] = {
            name: kind if _shows(self._head.get(name), kind) else MIXED for name, kind in self._kinds.items()
        }
        return {**forms, OTHERS: MIXED} if self._others else forms

    def record(self) -> list[Any]:
        """All of it, of nothing but numbers, bytes and lists."""
        return [self._rows, _pairs(self._kinds), _pairs(self._head), self._others]

    @classmethod
    def of_record(cls, record: list[Any]) -> Self:
        """What a `record` was made of."""
        made = cls()
        made._rows, kinds, head, made._others = record
        made._kinds, made._head = _kinds(kinds), _kinds(head)
        return made


def _packed(kind: Kind) -> Any:
    """A kind without texts that have no UTF-8, and without tuples."""
    if isinstance(kind, str):
        return kind.encode(errors="surrogatepass")
    return None if kind is None else [_packed(part) for part in kind]


def _unpacked(packed: Any) -> Any:
    if isinstance(packed, bytes):
        return packed.decode(errors="surrogatepass")
    return None if packed is None else tuple(_unpacked(part) for part in packed)


def _pairs(kinds: dict[str, Kind]) -> list[Any]:
    return [[_packed(name), _packed(kind)] for name, kind in kinds.items()]


def _kinds(pairs: list[Any]) -> dict[str, Kind]:
    return {_unpacked(name): _unpacked(kind) for name, kind in pairs}


def row_object(row: bytes) -> dict[str, Any]:
    """A planned row's object; an empty one where it is none."""
    try:
        value = loads_lenient(row)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def own_fields(row: dict[str, Any], template: str) -> dict[str, Any]:
    """The fields that are carried along: those of the row, then those in its `metadata`.

    A name that is taken gets ``row_`` in front.
    """
    fields = dict.fromkeys(("batch_num", "timestamp", "model"))
    ours = len(fields)
    asking = asking_fields(row, template) | {"metadata"}
    _add(fields, {name: value for name, value in row.items() if name not in asking})
    own = row.get("metadata")
    if own is not None:
        _add(fields, own if isinstance(own, dict) else {"metadata": own})
    return dict(list(fields.items())[ours:])


def in_form(fields: dict[str, Any], forms: Mapping[str, Kind]) -> dict[str, Any]:
    """The fields of a row, one for each form: null where it has none, JSON text where that is the form."""
    shown = {name: _shown(fields.get(name), kind) for name, kind in forms.items() if name != OTHERS}
    more = {name: value for name, value in fields.items() if name not in shown}
    if OTHERS in forms:
        return {**shown, OTHERS: json_text(more)}
    return {**shown, **more}


def kind_of(value: Any, depth: int = 0) -> Kind:
    """What a JSON value is."""
    if value is None or depth > _DEEPEST:
        return None if value is None else MIXED
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, int):
        return "int" if abs(value) <= _EXACT else "long" if abs(value) < _LONGEST else MIXED
    if isinstance(value, float):
        return "float"
    if isinstance(value, str):
        return "date" if _LIKE_A_DATE.fullmatch(value) else "text"
    if isinstance(value, list):
        inner: Kind = None
        for item in value:
            inner = merged(inner, kind_of(item, depth + 1))
        return MIXED if inner == MIXED else ("list", inner)
    parts = [(name, kind_of(value[name], depth + 1)) for name in sorted(value)]
    return MIXED if any(kind == MIXED for _, kind in parts) else ("object", *parts)


def merged(one: Kind, other: Kind) -> Kind:
    """The kind that takes values of both; `MIXED` where there is none."""
    if one is None or one == other:
        return other
    if other is None:
        return one
    if isinstance(one, str) or isinstance(other, str):
        kinds: frozenset[Any] = frozenset((one, other))
        return _WIDER.get(kinds, MIXED)
    if one[0] != other[0]:
        return MIXED
    if one[0] == "list":
        inner = merged(one[1], other[1])
        return MIXED if inner == MIXED else ("list", inner)
    if [name for name, _ in one[1:]] != [name for name, _ in other[1:]]:
        return MIXED
    parts = [
        (name, merged(kind, beside)) for (name, kind), (_, beside) in zip(one[1:], other[1:], strict=True)
    ]
    return MIXED if any(kind == MIXED for _, kind in parts) else ("object", *parts)


def _shows(early: Kind, whole: Kind) -> bool:
    """Whether a reader that has seen the early values reads all the others too."""
    if early == whole or whole is None:
        return True
    if early is None or MIXED in (early, whole):
        return False
    if isinstance(early, str) or isinstance(whole, str):
        # A number is written as the wider kind from the beginning; a text that looks like a date is taken for
        # one by some.
        return early != "date"
    if early[0] == "list":
        return _shows(early[1], whole[1])
    return all(_shows(a, b) for (_, a), (_, b) in zip(early[1:], whole[1:], strict=True))


def _shown(value: Any, kind: Kind) -> Any:
    if kind == MIXED:
        return json_text(value)
    if value is None or not _holds_float(kind):
        return value
    if kind == "float":
        return float(value)
    assert isinstance(kind, tuple)
    if kind[0] == "list":
        return [_shown(item, kind[1]) for item in value]
    inner = dict(kind[1:])
    return {name: _shown(item, inner[name]) for name, item in value.items()}


def _holds_float(kind: Kind) -> bool:
    if not isinstance(kind, tuple):
        return kind == "float"
    return any(_holds_float(part if kind[0] == "list" else part[1]) for part in kind[1:])


def _quick_kinds(row: bytes) -> dict[str, Kind] | None:
    """The kinds of the fields of a row with a prompt, without reading its texts; null: look closely."""
    try:
        parts = _raw.decode(row)
        prompt = parts.pop("prompt", None)
        if prompt is None or bytes(memoryview(prompt)[:1]) != b'"' or parts.keys() & _LOOK_CLOSELY:
            return None
        metadata = parts.pop("metadata", None)
        kinds = {name: _quick_kind(value) for name, value in parts.items()}
        if metadata is not None:
            inner = _raw.decode(metadata)
            if inner.keys() & (kinds.keys() | _TAKEN):
                return None
            kinds |= {name: _quick_kind(value) for name, value in inner.items()}
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None
    return kinds


def _quick_kind(raw: msgspec.Raw) -> Kind:
    view = memoryview(raw)
    if view[0] == _QUOTE and (len(view) < _SHORTEST_DATE or len(view) > _LONGEST_DATE):
        return "text"
    return kind_of(_any.decode(raw))


def _add(fields: dict[str, Any], more: dict[str, Any]) -> None:
    for name, value in more.items():
        free = name
        while free in fields:
            free = f"row_{free}"
        fields[free] = value
