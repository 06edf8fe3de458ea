"""One unit with an own agent: run it, feed it what is recorded, and make of its end the attempt's end."""

import shutil
from collections.abc import Callable
from typing import Protocol

import msgspec

from eventlog.events import Event, PromptFailed, PromptStarted
from eventlog.storage import Ticket
from projections import Attempt, last_answer

from ..batch.attempt import AttemptRunner
from ..batch.brief import Brief, Over
from ..batch.decide import failed, superseded
from ..batch.sending import Services
from ..prices import Price
from .calls import AgentCalls
from .function_agent import AgentEnd
from .leading import divergence, interrupted_tool, lead


class Agent(Protocol):
    """An agent of the user's own."""

    wants_a_fresh_directory: bool

    async def run(self, calls: AgentCalls) -> AgentEnd:
        """Work on an attempt and say how it ended; may be cancelled."""


class AgentRunner:
    """Works on one unit until its boundary, or until the run is told to end.

    `started`, where given, is not yet recorded; else the attempt is one that an earlier session left open.
    """

    def __init__(
        self,
        services: Services,
        unit: str,
        brief: Brief,
        *,
        number: int,
        started: PromptStarted | None,
        agent: Agent,
        price_of: Callable[[str], Price | None],
    ) -> None:
        self._s = services
        self._unit = unit
        self._brief = brief
        self._number = number
        self._started = started
        self._agent = agent
        self._price_of = price_of

    async def run(self) -> Ticket | None:
        """Run the agent; where it asks something else than it did before, once more, as a new attempt."""
        while True:
            calls = AgentCalls(
                self._s,
                self._unit,
                self._brief,
                number=self._number,
                started=self._started,
                price_of=self._price_of,
            )
            interrupted = interrupted_tool(calls, self._s.tools)
            ended = None if interrupted else await self._led(calls)
            well = ended is not None and ended.error_class is None
            diverged = interrupted or divergence(calls, well=well)
            await self._s.tools.end(calls.attempt())
            if calls.broken is not None:
                raise calls.broken
            if diverged is None:
                return await self._conclude(calls, ended)
            await self._begin_again(calls.attempt(), diverged)

    async def _led(self, calls: AgentCalls) -> AgentEnd | None:
        """Run the agent to its end, or until it has to be ended: null."""
        self._prepare(calls)
        return await lead(calls, lambda: self._agent.run(calls))

    def _prepare(self, calls: AgentCalls) -> None:
        if self._agent.wants_a_fresh_directory:
            shutil.rmtree(calls.directory, ignore_errors=True)
        calls.directory.parent.mkdir(mode=0o700, exist_ok=True)
        calls.directory.mkdir(mode=0o700, exist_ok=True)

    async def _begin_again(self, attempt: Attempt, reason: str) -> None:
        await self._s.journal.record(superseded(attempt, reason))
        self._number += 1
        self._started = PromptStarted(self._unit, self._number, attempt.toolsets, attempt.settings)

    async def _conclude(self, calls: AgentCalls, ended: AgentEnd | None) -> Ticket | None:
        """The attempt's end; none where the run is ending: it goes on with the run."""
        well = ended is not None and ended.error_class is None
        if self._s.control.stopping and (calls.refused or not well):
            return None
        if calls.stop is not None and calls.stop.unsendable is not None:
            why = calls.stop.unsendable
            return await self._failed(calls, why.error_class, why.message, retryable=why.retryable)
        if calls.stop is not None:
            return await self._finish(calls, Over("max_turns", completed=False))
        if ended is None or (not well and calls.left_s <= 0):
            limit = self._brief.settings.prompt_timeout
            message = f"not done within {limit:g} s (--prompt-timeout)"
            return await self._failed(calls, "prompt_timeout", message, retryable=True)
        if ended.error_class is not None:
            return await self._failed(calls, ended.error_class, ended.message, retryable=True)
        answer = last_answer(calls.attempt())
        if answer is None:
            message = "the agent ended without an answer from a model"
            return await self._failed(calls, "no_answer", message, retryable=True)
        whole = answer.finish_reason != "length"
        return await self._finish(calls, Over(answer.finish_reason or "stop", completed=whole))

    async def _finish(self, calls: AgentCalls, over: Over) -> Ticket | None:
        """Let the rules and the judge see what the agent made, as with the built-in agent."""
        await self._record(calls)
        brief = msgspec.structs.replace(self._brief, over=over)
        return await AttemptRunner(self._s, self._unit, brief, None).run()

    async def _failed(
        self, calls: AgentCalls, error_class: str, message: str, *, retryable: bool
    ) -> Ticket | None:
        event: PromptFailed = failed(calls.attempt(), error_class, message[:2000], None, retryable=retryable)
        await self._record(calls, event)
        return None

    async def _record(self, calls: AgentCalls, *events: Event) -> None:
        first = calls.take_started()
        if first or events:
            await self._s.journal.record(*first, *events)
