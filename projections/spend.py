"""The ledger: every call's money, from its reservation to what it really cost.

Amounts are nano-USD. The promise that it watches: settled + in doubt + reserved stays within the cap whenever
a reservation is granted.
"""

from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple, TypeVar

from eventlog.events import (
    TRAINING_EVENTS,
    AttemptSuperseded,
    BudgetChanged,
    BudgetExhausted,
    BudgetReleased,
    BudgetReserved,
    BudgetSpent,
    Event,
    ModelAnswered,
    ModelAsked,
    ModelCallFailed,
    PromptFailed,
    PromptsPlanned,
    PromptStarted,
    PromptsWithdrawn,
    Recorded,
    RowsSkipped,
    RunFinished,
    RunStarted,
    SessionClosed,
    SessionOpened,
    SettingsChanged,
    SpendCorrected,
    SpendInDoubt,
    ToolFinished,
    ToolStarted,
    TrajectoryCompleted,
    TrajectoryDiscarded,
    TrajectoryImported,
    TrajectoryJudged,
    TrajectoryRestored,
)

from .calls import Call, Groups, OverBound, Sums
from .exhaustive import require_answers
from .money import usd

CAPS = ("usd", "tokens", "calls")
MOST_OVER_BOUND = 50
"""So many of the calls that passed their bound are kept by name, those that passed it furthest."""

_Key = TypeVar("_Key")


class Booking(NamedTuple):
    """An event moved a call's money: `settled_nano_usd` more is settled (negative: less)."""

    call: Call
    settled_nano_usd: int


class Correction(NamedTuple):
    """What a person settled a call at, and when: the newest word about it."""

    call: Call
    settled_nano_usd: int
    note: str
    time_ns: int


class CapChange(NamedTuple):
    """Caps were set, raised, lowered or lifted."""

    sequence: int
    time_ns: int
    before: dict[str, Any]
    now: dict[str, Any]


class Ledger:
    """All calls' money.

    `reserved` and `in_doubt` are the calls that stand so, by call id; `total` sums up all calls, and
    `by_session`, `by_model` and `by_role` the same by what they are named for (a call belongs to the session
    that sent it). `caps` are those in force: ``usd`` in nano-USD, ``tokens``, ``calls``, and others that are
    not watched here; `cap_changes` is how they came to be. `corrected` is what a person settled, by call id.
    `unreserved` counts settlements, releases and doubts of calls that were not reserved (or had ended
    before). `over_bound` counts calls that took more than their bound; of these `furthest_over` holds the
    `MOST_OVER_BOUND` that passed it furthest. `past_cap` counts reservations that were granted past a cap;
    `past_cap_example` is one.
    """

    def __init__(self) -> None:
        self.reserved: dict[str, Call] = {}
        self.in_doubt: dict[str, Call] = {}
        self.corrected: dict[str, Correction] = {}
        self.total = Sums()
        self.by_session: dict[int, Sums] = {}
        self.by_model: dict[str, Sums] = {}
        self.by_role: dict[str, Sums] = {}
        self.caps: dict[str, Any] = {}
        self.cap_changes: list[CapChange] = []
        self.released_calls = 0
        self.unreserved = 0
        self.over_bound = 0
        self.furthest_over: list[OverBound] = []
        self.granted = 0
        self.past_cap = 0
        self.past_cap_example: str | None = None

    def apply(self, record: Recorded) -> Booking | None:
        """Fold one record. The booking says whose money moved; null where none did."""
        handler = self._HANDLERS.get(type(record.event))
        return None if handler is None else handler(self, record, record.event)

    @property
    def committed_nano_usd(self) -> int:
        """The most that can have been spent: settled + in doubt + reserved."""
        return self.total.settled_nano_usd + self.total.in_doubt_nano_usd + self.total.reserved_nano_usd

    @property
    def committed_tokens(self) -> int:
        """The most tokens that can have been used, as far as bounds are known."""
        return self._spent_tokens + self.total.reserved_tokens

    @property
    def _spent_tokens(self) -> int:
        """Settled and in doubt. Whoever settles a call by its invoice says nothing about its tokens."""
        total = self.total
        return total.settled_tokens + total.corrected_tokens + total.in_doubt_tokens

    @property
    def committed_calls(self) -> int:
        """Calls that cost something or may have: settled, in doubt and reserved ones."""
        return self.total.calls

    def committed(self, cap: str) -> int:
        """What of one of `CAPS` is spent, may have been, or is reserved."""
        return {
            "usd": self.committed_nano_usd,
            "tokens": self.committed_tokens,
            "calls": self.committed_calls,
        }[cap]

    def used(self, cap: str) -> int:
        """What of one of `CAPS` is spent or may have been: settled and in doubt, without what is reserved."""
        total = self.total
        return {
            "usd": total.settled_nano_usd + total.in_doubt_nano_usd,
            "tokens": self._spent_tokens,
            "calls": total.settled_calls + len(self.in_doubt),
        }[cap]

    def left(self, cap: str) -> int | None:
        """What is left under one of `CAPS`; null where there is no such cap, negative where it was passed."""
        limit = self.caps.get(cap)
        if limit is None:
            return None
        return int(limit) - self.committed(cap)

    def _reserve(self, record: Recorded, event: BudgetReserved) -> None:
        call = Call(
            event.call, event.unit, event.attempt, event.role, event.model, record.session, record.time_ns,
            event.request, event.bound_nano_usd, event.bound_input_tokens + (event.bound_output_tokens or 0),
            self.groups(record.session, event.model, event.role), event.bound_output_tokens,
        )  # fmt: skip
        if call.name in self.reserved or call.name in self.in_doubt:
            self.unreserved += 1
            return
        self.reserved[call.name] = call
        for sums in call.groups:
            sums.reserve(call)
        self.granted += 1
        if self.caps:
            self._check_caps(record, call)

    def groups(self, session: int, model: str, role: str) -> Groups:
        """The sums that a call of this session, model and role counts in."""
        return (
            self.total,
            _group(self.by_session, session),
            _group(self.by_model, model),
            _group(self.by_role, role),
        )

    def _check_caps(self, record: Recorded, call: Call) -> None:
        for cap in CAPS:
            left = self.left(cap)
            if left is None or left >= 0:
                continue
            self.past_cap += 1
            if self.past_cap_example is None:
                over = usd(-left) + " USD" if cap == "usd" else f"{-left} {cap}"
                self.past_cap_example = f"sequence {record.sequence}: call {call.name} went {over} past it"

    def _spent(self, record: Recorded, event: BudgetSpent) -> Booking:
        call = self._end(record, event.call)
        cost = event.cost_nano_usd
        if call.bound_tokens:
            self._compare(OverBound(call, record.sequence, event.usage, cost))
        for sums in call.groups:
            sums.settle(cost)
        total, _, of_model, _ = call.groups
        total.use(event.usage)
        of_model.use(event.usage)
        return Booking(call, cost or 0)

    def _compare(self, settled: OverBound) -> None:
        """Note a call that took more than was set aside for it."""
        if not settled.is_over:
            return
        self.over_bound += 1
        self.furthest_over.append(settled)
        self.furthest_over.sort(key=_furthest_first)
        del self.furthest_over[MOST_OVER_BOUND:]

    def _released(self, record: Recorded, event: BudgetReleased) -> Booking:
        call = self._end(record, event.call)
        for sums in call.groups:
            sums.calls -= 1
        self.released_calls += 1
        return Booking(call, 0)

    def _doubted(self, record: Recorded, event: SpendInDoubt) -> Booking:
        call = self._end(record, event.call)
        if event.bound_nano_usd is not None:
            call.bound_nano_usd = event.bound_nano_usd
        if event.bound_tokens is not None:
            call.bound_tokens = event.bound_tokens
        call.doubt = event.reason
        self.in_doubt[call.name] = call
        for sums in call.groups:
            sums.doubt(call)
        return Booking(call, 0)

    def _correct(self, record: Recorded, event: SpendCorrected) -> Booking:
        before = self.corrected.get(event.call)
        if before is None:
            call, change = self._end(record, event.call), event.cost_nano_usd
            for sums in call.groups:
                sums.settle(change)
                sums.corrected_tokens += call.bound_tokens
        else:
            call, change = before.call, event.cost_nano_usd - before.settled_nano_usd
            for sums in call.groups:
                sums.settled_nano_usd += change
        self.corrected[event.call] = Correction(call, event.cost_nano_usd, event.note, record.time_ns)
        return Booking(call, change)

    def _end(self, record: Recorded, name: str) -> Call:
        """The call, taken out of where it was. One that nobody reserved is counted, and made up."""
        call = self.reserved.pop(name, None)
        if call is not None:
            for sums in call.groups:
                sums.unreserve(call)
            return call
        call = self.in_doubt.pop(name, None)
        if call is not None:
            for sums in call.groups:
                sums.undoubt(call)
            return call
        self.unreserved += 1
        groups = self.groups(record.session, "", "")
        for sums in groups:
            sums.calls += 1
        return Call(name, "", 0, "", "", record.session, record.time_ns, b"", None, 0, groups)

    def _heard_of(self, _: Recorded, event: ModelAnswered | ModelCallFailed) -> None:
        """The provider's own name for a call helps a person to find it on an invoice."""
        if event.request_id is not None:
            call = self.reserved.get(event.call) or self.in_doubt.get(event.call)
            if call is not None:
                call.request_id = event.request_id

    def _budget_changed(self, record: Recorded, event: BudgetChanged) -> None:
        before, self.caps = self.caps, {name: cap for name, cap in event.now.items() if cap is not None}
        self.cap_changes.append(CapChange(record.sequence, record.time_ns, before, self.caps))

    _HANDLERS: ClassVar[dict[type[Event], Callable[[Any, Recorded, Any], Booking | None]]] = {
        BudgetReserved: _reserve,
        BudgetSpent: _spent,
        BudgetReleased: _released,
        SpendInDoubt: _doubted,
        SpendCorrected: _correct,
        BudgetChanged: _budget_changed,
        ModelAnswered: _heard_of,
        ModelCallFailed: _heard_of,
    }

    _IGNORED: ClassVar = require_answers(
        "Ledger",
        _HANDLERS,
        [
            AttemptSuperseded, BudgetExhausted, ModelAsked, PromptFailed, PromptStarted,
            PromptsPlanned, PromptsWithdrawn, RowsSkipped, RunFinished, RunStarted, SessionClosed,
            SessionOpened, SettingsChanged, ToolFinished, ToolStarted, TrajectoryCompleted,
            TrajectoryDiscarded, TrajectoryImported, TrajectoryJudged, TrajectoryRestored, *TRAINING_EVENTS,
        ],
    )  # fmt: skip


def _furthest_first(over: OverBound) -> tuple[int, int, str]:
    return -over.excess_nano_usd, -over.excess_tokens, over.call.name


def _group(groups: dict[_Key, Sums], key: _Key) -> Sums:
    sums = groups.get(key)
    if sums is None:
        sums = groups[key] = Sums()
    return sums
