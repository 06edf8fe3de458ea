"""One call of a learner, whatever it is made of: let in, watched, and its end made of what came of it."""

from typing import Protocol

from ..agents import AgentCalls
from .learner_base import LearnerCall, LearnerTools, Place, Returned
from .learner_endpoint import Desk, Doors, Given
from .learner_result import failed, late, tidy_log
from .learner_watch import Watch, Watched


class Work(Protocol):
    """A learner at work, once: started with what it is given, asked to end, and ended.

    `timeout_s` is after how long it is ended from outside.
    """

    timeout_s: float

    async def run(self, given: Given) -> Returned:
        """Work to its end. May be cancelled."""

    async def cancel(self) -> None:
        """Ask it to come to its end."""

    async def end(self) -> None:
        """End it, and all that it has started."""


class Calling:
    """Makes the calls of a learner."""

    def __init__(self, place: Place, doors: Doors) -> None:
        self._place = place
        self._doors = doors

    async def call(
        self, call: LearnerCall, tools: LearnerTools, ask: AgentCalls | None, work: Work
    ) -> Returned:
        """See it through.

        Raises:
            Exception: what broke a tool or a model's call: the run has to know.
        """
        async with self._doors.admitted(tools, ask) as given:
            watch = Watch(work.timeout_s, self._place.control, given.desk, ask, work.cancel)
            watched = await self._seen_through(watch, given, work)
            self._raise_what_broke(given.desk, ask)
        tidy_log(call.workspace.output, self._place.redactor)
        return self._concluded(call, watched, given.desk, ask)

    async def _seen_through(self, watch: Watch, given: Given, work: Work) -> Watched[Returned]:
        ended = False
        try:
            watched = await watch.over(lambda: work.run(given))
            ended = watched.said is not None
            return watched
        finally:
            if not ended:
                await work.end()

    def _raise_what_broke(self, desk: Desk, ask: AgentCalls | None) -> None:
        broken = desk.broken or (None if ask is None else ask.broken)
        if broken is not None:
            raise broken

    def _concluded(
        self, call: LearnerCall, watched: Watched[Returned], desk: Desk, ask: AgentCalls | None
    ) -> Returned:
        done = watched.said or self._ended(call, watched.why, desk, ask)
        refused = desk.refused or (ask is not None and ask.refused)
        if self._place.control.stopping and (refused or not done.in_order):
            return done._replace(paused=True, diverged=False)
        return done

    def _ended(self, call: LearnerCall, why: str, desk: Desk, ask: AgentCalls | None) -> Returned:
        output, redactor = call.workspace.output, self._place.redactor
        if why == "timeout":
            return failed(late(call.call, call.timeout_s), output, redactor)
        if why == "diverged":
            stop = None if ask is None else ask.stop
            reason = desk.diverged or (
                stop.reason if stop is not None else "it asked something else than before"
            )
            return failed(reason, output, redactor)._replace(diverged=True)
        return failed("the run is ending", output, redactor)
