"""A worker's line to the driver: what is asked and told in one session, and what comes back."""

import asyncio
from collections.abc import Callable, Sequence
from typing import NamedTuple

import anyio

from eventlog.errors import NotWritten
from eventlog.events import BudgetReserved, Event, PromptStarted, encode_event
from eventlog.storage import Ticket

from ..batch.control import Control, Ending
from ..batch.sending import Unsendable
from ..bounds import Bound
from ..effects.clock import CallIds
from ..effects.limiter import Limiter
from .wire import Failed, Message, Pause, Record, Recorded, Refused, Reserve, Stop, Withdraw
from .worker_state import WorkerState

Answer = Recorded | Refused | Failed


class NotAdmitted(Exception):
    """A request is not to be sent: the run is ending, or `unsendable` says why it never can be."""

    def __init__(self, waited_s: float, unsendable: Unsendable | None) -> None:
        super().__init__("a request was not admitted")
        self.waited_s = waited_s
        self.unsendable = unsendable


class Asking(NamedTuple):
    """What the driver has to know of a request to admit it; `held_back` hears how long that took."""

    size_bytes: int
    bound: Bound
    priced: bool
    held_back: Callable[[float], None]


class WorkerControl(Control):
    """The run's switch, as a worker sees it: what it stops is stopped by the driver, for all."""

    def __init__(self, say: Callable[[Message], None]) -> None:
        super().__init__()
        self._say = say

    def stop(self, ending: Ending) -> None:
        """Start nothing new, here and, by the driver, elsewhere."""
        if self.ending is None:
            self._say(Stop(*ending))
        super().stop(ending)

    def heard(self, ending: Ending) -> None:
        """The driver says that the run is ending."""
        super().stop(ending)


class WorkerLimiter(Limiter):
    """The run's gate, as a worker sees it: the driver holds it."""

    def __init__(self, say: Callable[[Message], None]) -> None:
        super().__init__()
        self._say = say

    def pause_until(self, wait_s: float) -> None:
        """Let nobody pass for so long, wherever it works."""
        self._say(Pause(wait_s))


class Common(NamedTuple):
    """What all sessions of a worker have in common. `epoch` is the number of the run's session."""

    epoch: int
    ids: CallIds
    state: WorkerState
    control: WorkerControl
    say: Callable[[Message], None]


class Link:
    """The line of one session. Must be used on one running event loop."""

    def __init__(self, session: int, common: Common, *, any_success: bool) -> None:
        self.session = session
        self.common = common
        self.any_success = any_success
        self._number = 0
        self._asked: dict[int, Callable[[Answer], None]] = {}

    def record(self, events: Sequence[Event]) -> Ticket:
        """Have events recorded as one commit; await what comes back to know them durable, and folded here.

        The beginning of an attempt is left out: the driver knows what begins, and puts it first.
        """
        told = _without_beginning(events)
        encoded = [encode_event(event) for event in told]
        size = sum(len(each) for each in encoded)
        ticket = Ticket(tuple(encoded), size, asyncio.get_running_loop(), lambda _: self._fold(told))
        self.common.say(Record(self.session, self._next(lambda answer: _settle(ticket, answer)), encoded))
        return ticket

    async def reserve(self, reserved: BudgetReserved, first: Sequence[Event], asking: Asking) -> None:
        """Return when a request may be sent, and its reservation is durable.

        Cancelled, it returns at once, and as if it were not, where the reservation is on its way into the
        log: whoever asked has to look whether it is cancelled.

        Raises:
            NotAdmitted: it may not be sent.
            NotWritten: nothing can be recorded.
        """
        told = _without_beginning(first)
        answered: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        number = self._next(answered.set_result)
        encoded = [encode_event(event) for event in told]
        size, bound, priced, held_back = asking
        self.common.say(Reserve(self.session, number, encoded, encode_event(reserved), size, bound, priced))
        answer = await self._answer(number, answered)
        if isinstance(answer, Failed):
            raise NotWritten(answer.message)
        if isinstance(answer, Refused):
            why = answer.unsendable
            raise NotAdmitted(answer.waited_s, None if why is None else Unsendable(*why))
        self.any_success = self.any_success or answer.any_success
        held_back(answer.waited_s)
        self._fold([*told, reserved])

    def heard(self, answer: Answer) -> None:
        """An answer came."""
        self._asked.pop(answer.number)(answer)

    async def _answer(self, number: int, answered: "asyncio.Future[Answer]") -> Answer:
        try:
            await asyncio.shield(answered)
        except anyio.get_cancelled_exc_class():
            # The driver knows whether it is too late for that.
            self.common.say(Withdraw(self.session, number))
            with anyio.CancelScope(shield=True):
                await asyncio.wait({answered})
        return answered.result()

    def _next(self, heard: Callable[[Answer], None]) -> int:
        self._number += 1
        self._asked[self._number] = heard
        return self._number

    def _fold(self, events: Sequence[Event]) -> None:
        for event in events:
            self.common.state.fold(event)


def _without_beginning(events: Sequence[Event]) -> list[Event]:
    return [event for event in events if not isinstance(event, PromptStarted)]


def _settle(ticket: Ticket, answer: Answer) -> None:
    if isinstance(answer, Recorded):
        ticket.time_ns = answer.time_ns
    else:
        why = answer.message if isinstance(answer, Failed) else "the driver refused it"
        ticket.error = NotWritten(why)
    ticket.decide()
    ticket.settle()
