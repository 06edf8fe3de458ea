"""One prompt from beginning to end: the events that concern it, folded into attempts that can be read."""

from typing import Any, Final

import msgspec

from eventlog.events import (
    AttemptSuperseded,
    BudgetReleased,
    BudgetReserved,
    BudgetSpent,
    Event,
    ModelAnswered,
    ModelCallFailed,
    PromptFailed,
    PromptsPlanned,
    PromptStarted,
    Recorded,
    SpendCorrected,
    SpendInDoubt,
    TrajectoryCompleted,
    TrajectoryDiscarded,
    Usage,
    event_type,
)

from .batch import BatchState
from .calls import Call
from .conversation import NO_USAGE, Attempt, add_usage
from .spend import Booking, Ledger
from .unit_rows import Unit
from .units import OPEN, WITHDRAWN

SUPERSEDED: Final = "superseded"

_Settled = BudgetSpent | BudgetReleased | SpendInDoubt
_Heard = ModelAnswered | ModelCallFailed
_OfACall = _Settled | _Heard | SpendCorrected
# The few events that say nothing of a unit and are needed all the same.
_ALWAYS = frozenset({"RunStarted", "SettingsChanged", "SpendCorrected"})
_ALWAYS_NAMED = tuple(name.encode() for name in _ALWAYS)
# An event's bytes begin with its type, and those of a call's event go on with the call.
_HEAD_BYTES = 128


class Try(msgspec.Struct):
    """One attempt: how it stands, what was in force when it began, its conversation and its money.

    `conversation` is null where the attempt never began, or was not asked for. `outcome` is that of the unit
    while the attempt stands for it; what was open and was given up is ``superseded``. `failed_calls` gave no
    usable answer. Judges' calls are in the money, and in no conversation.
    """

    attempt: int
    settings: dict[str, Any]
    toolsets: dict[str, list[dict[str, Any]]]
    conversation: Attempt | None
    outcome: str = OPEN
    reason: str | None = None
    ending: Event | None = None
    started_ns: int | None = None
    ended_ns: int | None = None
    session: int | None = None
    failed_calls: list[ModelCallFailed] = []
    settled_nano_usd: int = 0
    settled_calls: int = 0
    unpriced: int = 0
    usage: Usage = NO_USAGE


class Telling:
    """Folds the events that concern one unit. `wanted` is the attempt to keep whole; null: the newest one.

    `may_concern` says by the bytes of a whole commit whether any of its events may be one of them, `concerns`
    by those of one event; only such events need to be decoded.
    """

    def __init__(self, name: str, wanted: int | None = None) -> None:
        self.name = name
        self.batch = BatchState()
        self.ledger = Ledger()
        self.tries: dict[int, Try] = {}
        self._wanted = wanted
        content, _, rest = name.removeprefix("prompt:").partition("#")
        self._content, self._occurrence = bytes.fromhex(content), int(rest.partition(".")[0])
        self._named = (name.encode(), self._content)
        # The unit's calls, with how many of their two ends are still to come: an answer, a settlement.
        self._calls: dict[str, int] = {}
        self._awaited: dict[str, bytes] = {}

    @property
    def unit(self) -> Unit | None:
        """The unit as it stands; null before it is planned."""
        return self.batch.units.get(self.name)

    @property
    def told(self) -> Try | None:
        """The attempt that was asked for; null where there is none such."""
        newest = max(self.tries, default=0)
        return self.tries.get(newest if self._wanted is None else self._wanted)

    def open_calls(self, attempt: int) -> tuple[list[Call], list[Call]]:
        """An attempt's calls in doubt, and those that are reserved."""
        stand = (self.ledger.in_doubt, self.ledger.reserved)
        doubt, reserved = ([call for call in calls.values() if call.attempt == attempt] for calls in stand)
        return doubt, reserved

    def may_concern(self, commit: bytes) -> bool:
        """Whether `concerns` may be true of an event of a commit, or becomes so within it."""
        return (
            any(mark in commit for mark in self._named)
            or any(call in commit for call in self._awaited.values())
            or any(name in commit for name in _ALWAYS_NAMED)
        )

    def concerns(self, payload: bytes) -> bool:
        """Whether an event may concern the unit; an event about all runs, or a coincidence, may too."""
        if any(mark in payload for mark in self._named):
            return True
        head = payload[:_HEAD_BYTES]
        return any(call in head for call in self._awaited.values()) or event_type(payload) in _ALWAYS

    def apply(self, record: Recorded) -> None:
        """Fold one record, in the order of the log."""
        event = record.event
        if isinstance(event, PromptsPlanned):
            record = record._replace(event=self._ours(event))
        elif not self._is_ours(event):
            return
        self._follow(event)
        booking = self.ledger.apply(record)
        self.batch.apply(record)
        if booking is not None:
            self._book(booking, event)
        self._see(record)

    def _is_ours(self, event: Event) -> bool:
        if isinstance(event, _OfACall):
            return event.call in self._calls
        return getattr(event, "unit", self.name) == self.name

    def _ours(self, event: PromptsPlanned) -> PromptsPlanned:
        """The plan without the rows of others."""
        mine = (self._content, self._occurrence)
        return PromptsPlanned(
            [row for row in event.rows if (row.content, row.occurrence) == mine], event.complete
        )

    def _follow(self, event: Event) -> None:
        if isinstance(event, BudgetReserved):
            self._calls[event.call] = 2
            self._awaited[event.call] = event.call.encode()
        elif isinstance(event, _Settled | _Heard):
            self._calls[event.call] -= 1
            if self._calls[event.call] <= 0:
                self._awaited.pop(event.call, None)

    def _book(self, booking: Booking, event: Event) -> None:
        call = booking.call
        self.batch.book(call.unit, call.attempt, booking.settled_nano_usd, event)
        one = self.tries.get(call.attempt)
        if one is None:
            return
        one.settled_nano_usd += booking.settled_nano_usd
        if isinstance(event, BudgetSpent):
            one.settled_calls += 1
            one.unpriced += event.cost_nano_usd is None
            one.usage = add_usage(one.usage, event.usage)

    def _see(self, record: Recorded) -> None:
        event, unit = record.event, self.unit
        if unit is None:
            return
        if isinstance(event, PromptStarted):
            self._start(record, event.attempt)
        elif isinstance(event, AttemptSuperseded):
            self._give_up(event.attempt, SUPERSEDED, event.reason)
        elif isinstance(event, ModelCallFailed):
            if self.tries:
                self.tries[max(self.tries)].failed_calls.append(event)
        elif unit.outcome == WITHDRAWN:
            self._give_up(unit.attempt, WITHDRAWN, "its row is gone from the dataset")
        elif unit.attempt:
            self._move(record, unit)

    def _start(self, record: Recorded, attempt: int) -> None:
        for one in self.tries.values():
            self._give_up(one.attempt, SUPERSEDED, f"attempt {attempt} began")
            if one.attempt != self._wanted:
                one.conversation = None
        begun = self._new(attempt)
        begun.started_ns, begun.session = record.time_ns, record.session

    def _new(self, attempt: int) -> Try:
        batch = self.batch
        one = Try(attempt, dict(batch.settings), dict(batch.toolsets), batch.open.get(self.name))
        self.tries[attempt] = one
        return one

    def _give_up(self, attempt: int, outcome: str, reason: str) -> None:
        one = self.tries.get(attempt)
        if one is not None and one.outcome == OPEN:
            one.outcome, one.reason = outcome, reason

    def _move(self, record: Recorded, unit: Unit) -> None:
        """The attempt that stands for the unit has the unit's outcome: it ended, or a rule judged it anew."""
        one = self.tries.get(unit.attempt) or self._new(unit.attempt)
        if unit.boundary == record.sequence:
            one.ended_ns, one.ending = record.time_ns, record.event
        if unit.outcome == OPEN and one.outcome != OPEN:
            return
        one.outcome, one.reason = unit.outcome, unit.reason


def finish_reason(ending: Event | None) -> str | None:
    """The finish reason of a trajectory; null for any other end."""
    return ending.finish_reason if isinstance(ending, TrajectoryCompleted | TrajectoryDiscarded) else None


def failure(ending: Event | None) -> PromptFailed | None:
    """The end of an attempt that failed; null for any other end."""
    return ending if isinstance(ending, PromptFailed) else None
