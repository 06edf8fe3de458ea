"""Telling those who wait what became of their commits, without holding up their event loops."""

import asyncio
from collections import deque
from contextlib import suppress
from weakref import WeakKeyDictionary

from .tickets import Ticket

TICKETS_A_TURN = 128  # a thousand tasks that wake in one turn hold up the loop's timers for several ms


class Waker:
    """Settles the tickets of one loop, in sequence order, some in each turn of it.

    The writer's thread adds; the loop takes. Either of them, finding that nobody is at work, starts a turn:
    two turns at once do no harm, none would.
    """

    def __init__(self) -> None:
        self._tickets: deque[Ticket] = deque()
        self._at_work = False

    @property
    def busy(self) -> bool:
        """Whether there are more to tell in the turns to come."""
        return bool(self._tickets)

    def add(self, loop: asyncio.AbstractEventLoop, group: list[Ticket]) -> None:
        """Settle these too, soon. For the writer's thread."""
        self._tickets.extend(group)
        if not self._at_work:
            self._at_work = True
            # A closed loop raises: nobody waits there any more, and the log goes on.
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(self._turn, loop)

    def _turn(self, loop: asyncio.AbstractEventLoop) -> None:
        try:
            for _ in range(min(TICKETS_A_TURN, len(self._tickets))):
                _settle(loop, self._tickets.popleft())
        finally:
            self._at_work = False  # before the look at what is left: what is added later starts a turn itself
            if self._tickets:
                self._at_work = True
                loop.call_soon(self._turn, loop)


def _settle(loop: asyncio.AbstractEventLoop, ticket: Ticket) -> None:
    """Settle a ticket. A callback that raises takes nothing from the others."""
    try:
        ticket.settle()
    except Exception as error:  # noqa: BLE001 - a caller's callback; its error goes to the loop's handler
        loop.call_exception_handler({"message": "on_durable of a durable commit raised", "exception": error})


class Wakers:
    """One waker for each loop that has ever waited."""

    def __init__(self) -> None:
        self._wakers: WeakKeyDictionary[asyncio.AbstractEventLoop, Waker] = WeakKeyDictionary()

    def busy(self, loop: asyncio.AbstractEventLoop) -> bool:
        """Whether the loop has not yet told everybody."""
        waker = self._wakers.get(loop)
        return waker is not None and waker.busy

    def decide(self, tickets: list[Ticket]) -> None:
        """Make the outcome of a group known: to threads at once, to each loop in sequence order."""
        for ticket in tickets:
            ticket.decide()
        loops = dict.fromkeys([ticket.loop for ticket in tickets])
        for loop in loops:
            if loop is not None:
                group = tickets if len(loops) == 1 else [one for one in tickets if one.loop is loop]
                self._waker_of(loop).add(loop, group)

    def _waker_of(self, loop: asyncio.AbstractEventLoop) -> Waker:
        waker = self._wakers.get(loop)
        if waker is None:
            waker = self._wakers[loop] = Waker()
        return waker
