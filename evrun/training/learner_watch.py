"""A learner at work, and all that can end it before it ends by itself."""

from collections.abc import Awaitable, Callable
from typing import Generic, NamedTuple, TypeVar

import anyio

from ..agents import AgentCalls
from ..batch.control import Control
from .learner_endpoint import Desk

T = TypeVar("T")

LAST_WORDS_S = 5.0
"""So long a learner may take to end by itself once the run is ending and nothing of it is in flight."""
LOOK_S = 0.1
WARNED_AT = 0.9
"""`ctx.cancel` is set when this part of a call's time is over (or all but `WARNED_S` of a longer one)."""
WARNED_S = 10.0


class Watched(NamedTuple, Generic[T]):
    """What came of it: `said` where it ended by itself, else `why` not: timeout, ending, diverged, broken."""

    said: T | None
    why: str


class Watch:
    """Waits for a learner and for what ends it; `cancel` is called once when it should come to its end."""

    def __init__(
        self,
        timeout_s: float,
        control: Control,
        desk: Desk,
        ask: AgentCalls | None,
        cancel: Callable[[], Awaitable[None]],
    ) -> None:
        self._timeout_s = timeout_s
        self._control = control
        self._desk = desk
        self._ask = ask
        self._cancel = cancel
        self._why = ""

    async def over(self, work: Callable[[], Awaitable[T]]) -> Watched[T]:
        """Let it work until it is done, or until it has to be ended (which is left to the caller)."""
        said: list[T] = []
        async with anyio.create_task_group() as group:
            for watcher in (self._deadline, self._ending, self._stopped_tools, self._stopped_calls):
                group.start_soon(self._end, watcher, group.cancel_scope)
            said.append(await work())
            group.cancel_scope.cancel()
        return Watched(said[0] if said else None, self._why)

    async def _end(self, watcher: Callable[[], Awaitable[str]], scope: anyio.CancelScope) -> None:
        why = await watcher()
        self._why = self._why or why
        scope.cancel()

    async def _deadline(self) -> str:
        warned_s = max(self._timeout_s * WARNED_AT, self._timeout_s - WARNED_S)
        await anyio.sleep(warned_s)
        await self._cancel()
        await anyio.sleep(max(self._timeout_s - warned_s, 0.0))
        return "timeout"

    async def _ending(self) -> str:
        await self._control.stopped()
        await self._cancel()
        patience = LAST_WORDS_S
        while patience > 0:
            await anyio.sleep(LOOK_S)
            if not self._desk.in_flight and (self._ask is None or not self._ask.in_flight):
                patience -= LOOK_S
        return "ending"

    async def _stopped_tools(self) -> str:
        await self._desk.stopped.wait()
        return "broken" if self._desk.broken is not None else "diverged"

    async def _stopped_calls(self) -> str:
        """A limit that is met (``stop`` that is no divergence) is an error for the learner, and no end."""
        ask = self._ask
        if ask is None:
            await anyio.sleep_forever()
            raise AssertionError
        await ask.stopped.wait()
        if ask.broken is not None:
            return "broken"
        if ask.stop is not None and ask.stop.diverged:
            return "diverged"
        await anyio.sleep_forever()
        raise AssertionError
