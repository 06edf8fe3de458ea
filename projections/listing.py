"""Events as scripts read them: one JSON-ready object each."""

from collections import OrderedDict
from typing import Any

import msgspec

from eventlog.events import (
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

_OfACall = BudgetSpent | BudgetReleased | SpendInDoubt | SpendCorrected | ModelAnswered | ModelCallFailed


class EventLister:
    """Shows events, and knows whose call a call is if it saw its reservation."""

    def __init__(self) -> None:
        self._unsettled: dict[str, str] = {}
        self._settled: OrderedDict[str, str] = OrderedDict()

    def apply(self, record: Recorded) -> dict[str, Any]:
        """An event as ``{"seq", "time", "session", "type", "unit", "data"}``; null where it has no unit.

        `data` has the event's fields by name; bytes are text where they are UTF-8, digests and others hex.
        """
        event = record.event
        return {
            "seq": record.sequence,
            "time": rfc3339(record.time_ns),
            "session": record.session,
            "type": type(event).__name__,
            "unit": self._unit_of(event),
            "data": shown(event),
        }

    def _unit_of(self, event: Event) -> str | None:
        if isinstance(event, BudgetReserved):
            self._unsettled[event.call] = event.unit
            return event.unit
        if not isinstance(event, _OfACall):
            return getattr(event, "unit", None)
        unit = self._unsettled.get(event.call) or self._settled.get(event.call)
        if isinstance(event, BudgetSpent | BudgetReleased | SpendCorrected):
            self._settle(event.call)
        return unit

    def _settle(self, call: str) -> None:
        unit = self._unsettled.pop(call, None)
        if unit is not None:
            self._settled[call] = unit
            if len(self._settled) > _REMEMBERED:
                self._settled.popitem(last=False)


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
