"""The driver's side of one session that is worked on elsewhere: what it may record, and what it has open.

Whoever works on it may be confused, or gone. Events are taken only where they are about its own attempt, and
fit what it has open; so nothing that comes from a worker can spoil what the log says of others.
"""

from collections.abc import Sequence
from contextlib import suppress
from decimal import Decimal

import anyio

from eventlog.errors import AppendError, EventLogError, LogClosed, NotWritten
from eventlog.events import (
    AttemptSuperseded,
    BudgetReleased,
    BudgetReserved,
    BudgetSpent,
    Event,
    ModelAnswered,
    ModelAsked,
    ModelCallFailed,
    PromptFailed,
    PromptStarted,
    SpendInDoubt,
    ToolFinished,
    ToolStarted,
    TrajectoryCompleted,
    TrajectoryDiscarded,
    TrajectoryJudged,
    decode_event,
)
from eventlog.storage import Ticket
from projections import Attempt

from ..batch.sending import Services, Unsendable
from ..batch.settings import Settings
from ..effects.clock import CallIds
from ..effects.limiter_rates import Permit
from ..ledger import in_doubt
from ..rates import Price, Rate
from .wire import Kept, Record, Recorded, Refused, Reserve

OF_CALLS = BudgetSpent | SpendInDoubt | BudgetReleased | ModelAnswered | ModelCallFailed
"""Events about a call that is open."""
OUTPUT = "output.txt"
"""Where an attempt's directory has what its program has said."""
LONGEST_OUTPUT = 131_072
"""More than a program's output is bounded to where it runs."""
_SETTLED = BudgetSpent | SpendInDoubt | BudgetReleased
OF_ATTEMPTS = ToolStarted | ToolFinished
"""Events about an attempt, whatever it is at."""
OF_PROMPTS = (
    AttemptSuperseded | TrajectoryJudged | TrajectoryCompleted | TrajectoryDiscarded | PromptFailed
)  # fmt: skip
"""The same where the attempt is at a prompt, whose end is said where it is worked on."""
_PRICED = Price("known to the worker", Rate(Decimal(0)), Rate(Decimal(0)))
"""That there is a price is all that counts where a request is admitted: its bound has it already."""


class Confused(Exception):
    """A worker said what it cannot know or may not say."""


class Post:
    """Records for one session.

    `started`, where given, is not yet recorded: it goes before whatever is recorded first. `roles` are those
    that its calls may have. `ends` says whether the end of the attempt is for the worker to record; it has
    `ended` once that was done.
    """

    def __init__(
        self,
        services: Services,
        settings: Settings,
        attempt: Attempt,
        *,
        started: PromptStarted | None,
        roles: Sequence[str] = ("rollout", "judge"),
        ends: bool = True,
    ) -> None:
        self.attempt = attempt
        self._calls = ""
        self._s = services
        self._settings = settings
        self._unit, self._number = attempt.unit, attempt.attempt
        self._started = started
        self._roles = roles
        self._ends = ends
        self._open: dict[str, BudgetReserved] = {}
        self._permits: dict[str, Permit] = {}
        self._used: set[str] = set()
        self._told = set() if attempt.own is None else {one.call for one in attempt.own.made}
        self._turn = anyio.Lock()
        self._last: Ticket | None = None
        self._over = False
        self.ended = False

    @property
    def any_success(self) -> bool:
        """Whether the endpoint has answered this run."""
        return self._s.caller.any_success

    def worked_on_by(self, worker: int) -> None:
        """It is handed to this worker, whose calls have names of their own."""
        self._calls = CallIds(self._s.journal.session, worker).prefix

    # What a worker asks.

    async def reserve(self, asked: Reserve, waiting: anyio.CancelScope) -> Recorded | Refused:
        """Admit a request and record its reservation, with nothing in between.

        Until it is admitted, cancelling `waiting` ends it: it is refused.

        Raises:
            Confused: it is not about this session.
            AppendError: the log does not take it.
        """
        reserved, first = self._reservation(asked)
        sender = self._s.sender(self._unit, self._settings, reserved.role)
        began, permit = sender.deadline, None
        price = _PRICED if asked.priced else None
        with waiting:
            # One after the other: what is told relative to an earlier request must come after it.
            async with self._turn:
                permit = await sender.admit(range(asked.size_bytes), asked.bound, price)
                if isinstance(permit, Permit) and self._follows(first):
                    self._queue(reserved, first, permit)
        waited_s = sender.deadline - began
        if reserved.call not in self._open:
            return _refused(asked, permit, waited_s)
        ticket = self._last
        assert ticket is not None, "it was just queued"
        # Whoever asked may be gone meanwhile; what was queued is then still to be decided.
        with anyio.CancelScope(shield=True):
            await self._durable(ticket, reserved)
        return Recorded(asked.session, asked.number, ticket.time_ns, waited_s, self.any_success)

    def _queue(self, reserved: BudgetReserved, first: list[ModelAsked], permit: Permit) -> None:
        self._last = self._s.journal.record(*self._take_started(), *first, reserved)
        self._s.budget.queue(reserved)
        self._open[reserved.call], self._permits[reserved.call] = reserved, permit
        self._used.add(reserved.call)
        self._told |= {event.call for event in first}

    async def record(self, asked: Record) -> Recorded:
        """Record what came of something.

        Raises:
            Confused: it is not about this session, or does not fit what it has open.
            AppendError: the log does not take it.
        """
        events = self._outcome(asked.events)
        events = (*self._take_started(), *events)
        if not events:
            return Recorded(asked.session, asked.number, 0, 0.0, self.any_success)
        ticket = self._last = self._s.journal.record(*events)
        for event in events:
            self._queued(event)
        with anyio.CancelScope(shield=True):
            await ticket
        return Recorded(asked.session, asked.number, ticket.time_ns, 0.0, self.any_success)

    def over_bound(self, how: str) -> None:
        """An answer took more than was set aside for it."""
        self._s.sender(self._unit, self._settings).over_bound(how)

    def keep(self, kept: Kept) -> None:
        """Put what a program has said where it is with a program of this process.

        Raises:
            OSError: it cannot be written.
        """
        if not self.ended or not self.attempt.attempt <= kept.attempt <= self._number:
            return
        directory = self._s.tools.directory(self._unit, kept.attempt)
        for made in (directory.parent, directory):
            made.mkdir(mode=0o700, exist_ok=True)
        file = directory / OUTPUT
        # Whatever an earlier program may have put there in its place.
        file.unlink(missing_ok=True)
        file.write_bytes(kept.output[-LONGEST_OUTPUT:])

    # What the driver does when nobody works on it any more.

    async def abandon(self, reason: str) -> None:
        """Nothing more comes: what is open may have cost something."""
        self._over = True
        if self._last is not None:
            with suppress(AppendError):
                await self._last
        events: list[Event] = []
        for reserved in self._open.values():
            events += [
                in_doubt(reserved, reason),
                ModelCallFailed(reserved.call, "abandoned", reason, None, True, None, None),  # noqa: FBT003 (an event's fields)
            ]
        self._open.clear()
        if events:
            await self._s.journal.record(*events)

    def fail(self, error_class: str, message: str) -> Ticket:
        """The attempt ends here, since nobody can work on it."""
        failed = PromptFailed(self._unit, self._number, error_class, message, None, retryable=True)
        return self._s.journal.record(*self._take_started(), failed)

    # Whether it fits.

    def _reservation(self, asked: Reserve) -> tuple[BudgetReserved, list[ModelAsked]]:
        reserved, *first = self._decoded([asked.reserved, *asked.first])
        if not isinstance(reserved, BudgetReserved) or not self._is_own(reserved):
            raise Confused(f"a reservation for {self._unit} expected, {reserved!r:.200} found")
        if reserved.role not in self._roles or not self._is_new(reserved.call):
            raise Confused(f"a new call for {', '.join(self._roles)} expected, {reserved!r:.200} found")
        asks = [event for event in first if isinstance(event, ModelAsked)]
        if len(asks) < len(first) or any(not self._is_own(e) or e.call != reserved.call for e in asks):
            raise Confused(f"with a reservation nothing but its request is recorded, {first!r:.200} found")
        return reserved, asks

    def _outcome(self, events: list[bytes]) -> tuple[Event, ...]:
        found = self._decoded(events)
        settled = [event.call for event in found if isinstance(event, _SETTLED)]
        for event in found:
            if isinstance(event, OF_CALLS):
                fits = event.call in self._open and event.call in settled
            elif isinstance(event, OF_ATTEMPTS):
                fits = self._is_own(event)
            else:
                fits = self._ends and isinstance(event, OF_PROMPTS) and self._is_own(event)
            if not fits:
                raise Confused(f"{event!r:.200} does not belong to attempt {self._number} at {self._unit}")
        if len(settled) > len(set(settled)):
            raise Confused(f"calls of {self._unit} are settled twice: {settled}")
        return found

    def _decoded(self, events: list[bytes]) -> tuple[Event, ...]:
        if self._over:
            raise Confused(f"attempt {self._number} at {self._unit} is over")
        try:
            return tuple(decode_event(event) for event in events)
        except EventLogError as error:
            raise Confused(f"an event cannot be read: {error}") from error

    def _is_own(self, event: BudgetReserved | ModelAsked | OF_ATTEMPTS | OF_PROMPTS) -> bool:
        return event.unit == self._unit and event.attempt == self._number

    def _is_new(self, call: str) -> bool:
        known = call in self._used or call in self._s.journal.state.ledger.reserved
        return not known and bool(self._calls) and call.startswith(self._calls)

    def _follows(self, asks: list[ModelAsked]) -> bool:
        """Whether the request that one is told relative to is in the log: it may have been refused."""
        return all(not event.base or event.base in self._told for event in asks)

    # What was queued.

    def _take_started(self) -> tuple[PromptStarted, ...]:
        started, self._started = self._started, None
        return () if started is None else (started,)

    def _queued(self, event: Event) -> None:
        if isinstance(event, _SETTLED):
            del self._open[event.call]
            self._s.limiter.settle(self._permits.pop(event.call), *_took(event))
        elif isinstance(event, ModelAnswered):
            self._s.caller.any_success = True
        elif isinstance(event, AttemptSuperseded):
            # Whoever works on it begins again.
            self._number += 1
            self._told = set()
            self._started = PromptStarted(
                self._unit, self._number, self.attempt.toolsets, self.attempt.settings
            )
        elif isinstance(event, TrajectoryCompleted | TrajectoryDiscarded | PromptFailed):
            self._over = self.ended = True

    async def _durable(self, ticket: Ticket, reserved: BudgetReserved) -> None:
        try:
            await ticket
        except (NotWritten, LogClosed):
            self._s.budget.withdraw(reserved.call)
            self._open.pop(reserved.call, None)
            raise


def _refused(asked: Reserve, why: Permit | Unsendable | None, waited_s: float) -> Refused:
    unsendable = (why.error_class, why.message, why.retryable) if isinstance(why, Unsendable) else None
    return Refused(asked.session, asked.number, waited_s, unsendable)


def _took(settled: Event) -> tuple[int | None, int | None]:
    """Tokens in and out of a call; null where nobody knows."""
    if isinstance(settled, BudgetSpent):
        return settled.usage.input_tokens, settled.usage.output_tokens
    return (0, 0) if isinstance(settled, BudgetReleased) else (None, None)
