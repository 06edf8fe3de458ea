"""Leading an own agent: it runs until it ends, its time is over, it must not go on, or the run ends."""

from collections.abc import Awaitable, Callable
from typing import Protocol, TypeVar

import anyio

from ..batch.tool_calls import ToolRunner
from .calls import AgentCalls, Stop

T = TypeVar("T")

LOOK_S = 0.1
LAST_WORDS_S = 5.0
"""So long an agent may take to end by itself once nothing more is answered."""


class Led(Protocol):
    """What is asked of an attempt's calls to lead its agent."""

    stop: Stop | None
    broken: Exception | None
    stopped: anyio.Event
    in_flight: int
    refused: bool

    @property
    def left_s(self) -> float:
        """Seconds that the attempt has left."""

    @property
    def stopping(self) -> bool:
        """Whether the run is ending."""

    @property
    def unclaimed(self) -> int:
        """How much of what is recorded was not asked for again."""


async def lead(calls: Led, work: Callable[[], Awaitable[T]]) -> T | None:
    """What `work` gives back, which must not raise; null where it had to be ended."""
    ended: T | None = None
    async with anyio.create_task_group() as group:
        group.start_soon(_watch, calls, group.cancel_scope)
        ended = await work()
        group.cancel_scope.cancel()
    return ended


def interrupted_tool(calls: AgentCalls, tools: ToolRunner) -> str | None:
    """Why an attempt cannot go on: a tool of it may or may not have done its work; null where it can."""
    own = calls.attempt().own
    for use in () if own is None else own.tools.values():
        if use.content is None and not tools.safe_to_repeat(use.tool):
            return f"tool {use.tool} was interrupted and is not safe to repeat"
    return None


def divergence(calls: Led, *, well: bool) -> str | None:
    """How an agent, which perhaps ended `well`, did something else than what is recorded of it; or null."""
    if calls.stop is not None and calls.stop.diverged:
        return calls.stop.reason
    if well and calls.unclaimed and not calls.refused:
        return f"the agent ended without asking for {calls.unclaimed} of what it had asked before"
    return None


async def _watch(calls: Led, scope: anyio.CancelScope) -> None:
    """End the agent when its time is over, when it must not go on, or when the run ends."""
    patience = LAST_WORDS_S
    while calls.left_s > 0:
        with anyio.move_on_after(LOOK_S):
            await calls.stopped.wait()
        if calls.broken is not None or (calls.stop is not None and calls.stop.diverged):
            break
        if (calls.stop is not None or calls.stopping) and not calls.in_flight:
            patience -= LOOK_S
            if patience <= 0:
                break
            await anyio.sleep(LOOK_S)
    scope.cancel()
