"""One attempt at one prompt, from where it stands to its boundary: step, act, record, step again."""

from functools import partial

from eventlog.events import BudgetReserved, Event, PromptFailed, PromptStarted
from eventlog.storage import Ticket
from projections import Attempt

from ..bounds import request_bound
from ..ledger import Order
from ..providers import Verdict
from .brief import Brief
from .decide import (
    Finish,
    Judge,
    RunTools,
    Score,
    conclusion,
    failed,
    judge_failed,
    next_step,
)
from .function_judge import JudgeFailed
from .request import endpoint_host
from .sending import Next, Prepared, Services, Unsendable


class AttemptRunner:
    """Works on one attempt until its boundary, or until the run is told to end.

    `started`, where given, is not yet recorded: it goes into the log with the attempt's first event.
    """

    def __init__(self, services: Services, unit: str, brief: Brief, started: PromptStarted | None) -> None:
        self._s = services
        self._unit = unit
        self._brief = brief
        self._started = started
        self._sender = services.sender(unit, brief.settings)
        self._ended = False
        self._behind: Ticket | None = None
        self._role = "rollout"

    async def run(self) -> Ticket | None:
        """Step until the attempt has ended; once the run is told to end, only if no more acting is needed.

        Returns the commit of its end where that is not durable yet: to be awaited, but nothing depends on
        it.
        """
        attempt = self._attempt()
        while await self._step(attempt):
            attempt = self._attempt()
        if self._ended:
            await self._s.tools.end(attempt)
        return self._behind

    async def _step(self, attempt: Attempt) -> bool:
        """One step; true if the attempt goes on."""
        step = next_step(attempt, self._brief)
        if isinstance(step, Finish):
            await self._end(*step.events)
        elif self._s.control.stopping:
            return False
        elif self._sender.left_s <= 0:
            await self._end(self._timed_out(attempt))
        elif isinstance(step, RunTools):
            await self._s.tools.run(attempt, step, self._brief, self._sender.left_s)
        elif isinstance(step, Score):
            await self._score(attempt, step)
        else:
            role = "judge" if isinstance(step, Judge) else "rollout"
            return await self._send(attempt, step.body, role) and not self._ended
        return not self._ended

    async def _score(self, attempt: Attempt, step: Score) -> None:
        """Let the user's function judge."""
        assert self._s.judge is not None
        try:
            finish = await self._s.judge.finish(attempt, self._brief, step.ended, self._sender.left_s)
        except JudgeFailed as error:
            await self._end(judge_failed(attempt, str(error)))
        else:
            await self._end(*finish.events)

    async def _send(self, attempt: Attempt, body: bytes, role: str) -> bool:
        """Send one request once; true if the attempt goes on."""
        settings, price = self._brief.settings, self._s.price
        self._role = role
        order = Order(self._unit, attempt.attempt, role, settings.model, endpoint_host(settings))
        # What the body says, and nothing else: --extra-body may have taken the output cap out again.
        bound = request_bound(body, price)
        done = await self._sender.ask(
            order,
            body,
            bound,
            price,
            prepare=lambda: Prepared(self._take_started()),
            conclude=partial(self._conclude, attempt),
        )
        if done is None:
            return False
        if isinstance(done, Unsendable):
            await self._end(failed(attempt, done.error_class, done.message, None, retryable=done.retryable))
            return False
        self._behind = done.behind
        following = await self._sender.again(done.verdict)
        if following is Next.FAIL:
            await self._fail(done.verdict)
        return following is Next.GO_ON

    def _conclude(
        self, attempt: Attempt, reserved: BudgetReserved, answered: tuple[Event, ...]
    ) -> tuple[Event, ...]:
        events = conclusion(attempt, self._brief, reserved, answered)
        self._ended = bool(events)
        return events

    async def _fail(self, verdict: Verdict) -> None:
        attempt = self._attempt()
        if self._role == "judge":
            message = f"the judge's call: {verdict.error_class}: {verdict.message}"
            await self._end(judge_failed(attempt, message, verdict.status))
            return
        retryable = verdict.retryable
        await self._end(
            failed(attempt, verdict.error_class, verdict.message, verdict.status, retryable=retryable)
        )

    async def _end(self, *events: Event) -> None:
        await self._s.journal.record(*self._take_started(), *events)
        self._ended = True

    def _attempt(self) -> Attempt:
        if self._started is not None:
            return Attempt.start(self._started, 0, self._s.journal.session)
        return self._s.journal.state.open_attempt(self._unit)

    def _take_started(self) -> tuple[PromptStarted, ...]:
        started, self._started = self._started, None
        return () if started is None else (started,)

    def _timed_out(self, attempt: Attempt) -> PromptFailed:
        limit = self._brief.settings.prompt_timeout
        return failed(
            attempt, "prompt_timeout", f"not done within {limit:g} s (--prompt-timeout)", None, retryable=True
        )
