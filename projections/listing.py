"""Events as scripts read them: one JSON-ready object each."""

from collections import OrderedDict
from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec

from eventlog.events import (
    EVENT_TYPES,
    BlobStored,
    BudgetReleased,
    BudgetReserved,
    BudgetSpent,
    Event,
    FileEntry,
    ModelAnswered,
    ModelCallFailed,
    PlannedRow,
    PromptStarted,
    Recorded,
    SpendCorrected,
    SpendInDoubt,
    StepStarted,
    ToolStarted,
    TrajectoryJudged,
    event_kind,
)

from .times import rfc3339

# Facts of one moment come in any order, so a settled call is remembered for a while.
_REMEMBERED = 4096

# Digests are bytes that may look like text.
_DIGESTS: dict[type[msgspec.Struct], str] = {
    PlannedRow: "content",
    PromptStarted: "settings",
    ToolStarted: "arguments",
    TrajectoryJudged: "judge",
    BudgetReserved: "request",
    BlobStored: "digest",
    FileEntry: "digest",
    StepStarted: "rows",
}

_OF_A_CALL = frozenset(
    {BudgetSpent, BudgetReleased, SpendInDoubt, SpendCorrected, ModelAnswered, ModelCallFailed}
)
_SETTLING = frozenset({BudgetSpent, BudgetReleased, SpendCorrected})
_TELLING = _SETTLING | {BudgetReserved}
"""Those that change what is known about whose calls are whose."""
_INTRODUCING = _TELLING - {SpendCorrected}
"""Of these the ones that are looked at among events before those that are listed."""


class EventLister:
    """Shows events, and knows whose call a call is if it saw its reservation."""

    def __init__(self) -> None:
        self._unsettled: dict[str, str] = {}
        self._settled: OrderedDict[str, str] = OrderedDict()

    def apply(self, record: Recorded) -> dict[str, Any]:
        """An event as ``{"seq", "time", "session", "type", "unit", "data"}``; null where it has no unit.

        `data` has the event's fields by name; bytes are text where they are UTF-8, digests and others hex.
        """
        return as_listed(record, self.unit_of(record.event))

    def unit_of(self, event: Event) -> str | None:
        """The unit that an event is about; null for none. Takes note of its call: ask once for each event."""
        kind = type(event)
        if kind in _OF_A_CALL:
            call: str = event.call  # type: ignore[attr-defined]  # the set says what it is
            unit = self._unsettled.get(call) or self._settled.get(call)
            if kind in _SETTLING:
                self._settle(call)
            return unit
        if isinstance(event, BudgetReserved):
            self._unsettled[event.call] = event.unit
        return getattr(event, "unit", None)

    def _settle(self, call: str) -> None:
        unit = self._unsettled.pop(call, None)
        if unit is not None:
            self._settled[call] = unit
            if len(self._settled) > _REMEMBERED:
                self._settled.popitem(last=False)


class WantedEvents(NamedTuple):
    """Which events are asked for: those of these types, about this unit; no types and no unit: all."""

    types: frozenset[str]
    unit: str | None

    def has(self, event: Event, unit: str | None) -> bool:
        """Whether an event, which is about a unit or about none, is one of them."""
        return (not self.types or type(event).__name__ in self.types) and self.unit in (None, unit)

    def sieve(self) -> Callable[[bytes], bool]:
        """Tells by an event's bytes whether it may be one of them, or say which are; others need no decoding.

        Only the bytes of other types, and of other units' events, are let go.
        """
        needed = {kind for kind in EVENT_TYPES if not self.types or kind.__name__ in self.types}
        telling = _TELLING if self.unit is not None or needed & _OF_A_CALL else frozenset()
        if self.unit is None:
            return lambda payload: (kind := event_kind(payload)) is None or kind in needed or kind in telling
        named = {kind for kind in needed - _OF_A_CALL if "unit" in kind.__struct_fields__}
        always, name = telling | (needed & _OF_A_CALL), self.unit.encode("utf-8", "surrogatepass")
        return lambda payload: (
            (kind := event_kind(payload)) is None or kind in always or (kind in named and name in payload)
        )


def tells_of_calls(payload: bytes) -> bool:
    """Whether an event may say whose call a call is, or that it is settled, by its bytes."""
    kind = event_kind(payload)
    return kind is None or kind in _INTRODUCING


def as_listed(record: Recorded, unit: str | None) -> dict[str, Any]:
    """As `EventLister.apply`, of an event whose unit is known."""
    return {
        "seq": record.sequence,
        "time": rfc3339(record.time_ns),
        "session": record.session,
        "type": type(record.event).__name__,
        "unit": unit,
        "data": shown(record.event),
    }


def shown(value: Any) -> Any:
    """A value of an event as JSON can hold it: structs as objects, bytes as text."""
    if isinstance(value, msgspec.Struct):
        digest = _DIGESTS.get(type(value))
        fields = {name: getattr(value, name) for name in value.__struct_fields__}
        return {name: _hex(item) if name == digest else shown(item) for name, item in fields.items()}
    if isinstance(value, bytes):
        return _text(value)
    if isinstance(value, list | tuple):
        return [shown(item) for item in value]
    if isinstance(value, dict):
        return {key: shown(item) for key, item in value.items()}
    return value


def _hex(digest: bytes | list[bytes]) -> str | list[str]:
    return digest.hex() if isinstance(digest, bytes) else [one.hex() for one in digest]


def _text(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        return data.hex()
