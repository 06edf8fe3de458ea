"""One attempt at one prompt, from where it stands to its boundary: step, act, record, step again."""

from functools import partial
from typing import NamedTuple

from eventlog.events import BudgetReserved, Event, PromptFailed, PromptStarted
from eventlog.storage import Ticket
from projections import Attempt

from ..bounds import Bound, request_bound
from ..budget import Budget
from ..effects.backoff import backoff_s
from ..effects.clock import monotonic
from ..effects.limiter import Limiter
from ..journal import Journal
from ..ledger import Order
from ..loop import Caller
from ..prices import Price
from ..providers import Verdict
from .brief import Brief
from .control import Control, Ending
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
from .function_judge import JudgeFailed, Judging
from .request import endpoint_host
from .tool_calls import ToolRunner

TRIES_BEFORE_FIRST_SUCCESS = 2
"""An endpoint that never answered and twice refuses the connection is not there: the run stops."""


SHORTEST_WAIT_S = 0.1
"""Told to wait for a millisecond, again and again, one would fill the log with refusals."""


class Services(NamedTuple):
    """What an attempt acts through; shared by all attempts of a run."""

    journal: Journal
    caller: Caller
    limiter: Limiter
    control: Control
    tools: ToolRunner
    price: Price | None
    budget: Budget
    judge: Judging | None = None


class AttemptRunner:
    """Works on one attempt until its boundary, or until the run is told to end.

    `started`, where given, is not yet recorded: it goes into the log with the attempt's first event.
    """

    def __init__(self, services: Services, unit: str, brief: Brief, started: PromptStarted | None) -> None:
        self._s = services
        self._unit = unit
        self._brief = brief
        self._started = started
        self._deadline = monotonic() + brief.settings.prompt_timeout
        self._tries = 0
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
        elif self._left() <= 0:
            await self._end(self._timed_out(attempt))
        elif isinstance(step, RunTools):
            await self._s.tools.run(attempt, step, self._brief, self._left())
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
            finish = await self._s.judge.finish(attempt, self._brief, step.ended, self._left())
        except JudgeFailed as error:
            await self._end(judge_failed(attempt, str(error)))
        else:
            await self._end(*finish.events)

    async def _send(self, attempt: Attempt, body: bytes, role: str) -> bool:
        """Send one request once; true if the attempt goes on."""
        settings = self._brief.settings
        self._role = role
        order = Order(self._unit, attempt.attempt, role, settings.model, endpoint_host(settings))
        # What the body says, and nothing else: --extra-body may have taken the output cap out again.
        bound = request_bound(body, self._s.price)
        while True:
            tokens = self._s.limiter.asked(body, bound.output_tokens)
            await self._pass_gate(tokens)
            if self._s.control.stopping or not await self._get_room(attempt, bound):
                return False
            if (permit := self._s.limiter.take(tokens)) is not None:
                break
        # No await from here until the reservation is queued: what was found free must still be.
        first, timeout = self._take_started(), min(settings.request_timeout, self._left())
        done = await self._s.caller.complete(
            order, body, bound, timeout_s=timeout, first=first, conclude=partial(self._conclude, attempt)
        )
        self._behind = done.behind
        self._s.limiter.settle(permit, *done.took)
        if done.over_bound is not None and self._s.budget.capped:
            self._pause_for(f"an answer took more than its bound, so that no cap can hold: {done.over_bound}")
        return await self._after(done.verdict)

    async def _get_room(self, attempt: Attempt, bound: Bound) -> bool:
        """Wait until the call fits under the caps; false if it is not to be sent."""
        unbounded = self._s.budget.refusal(bound, self._s.price)
        if unbounded is not None:
            await self._end(failed(attempt, "no_bound", unbounded, None, retryable=False))
            return False
        before, control = monotonic(), self._s.control
        short = await self._s.budget.room(self._unit, bound, control.stopped, lambda: control.stopping)
        self._deadline += monotonic() - before
        if short is None:
            return not control.stopping
        if short.cap == "prompt_usd":
            await self._end(failed(attempt, "prompt_budget", str(short), None, retryable=True))
        else:
            self._pause_for(f"a cap is reached: {short}")
            await self._s.journal.record(short.event)
        return False

    def _pause_for(self, reason: str) -> None:
        self._s.control.stop(Ending("paused", 4, reason))

    def _conclude(
        self, attempt: Attempt, reserved: BudgetReserved, answered: tuple[Event, ...]
    ) -> tuple[Event, ...]:
        events = conclusion(attempt, self._brief, reserved, answered)
        self._ended = bool(events)
        return events

    async def _after(self, verdict: Verdict) -> bool:
        """What a verdict on a call means for the attempt; true if the attempt goes on."""
        match verdict.kind:
            case "answer":
                self._tries = 0
            case "pause":
                return await self._pause(verdict)
            case "retry":
                return await self._retry(verdict)
            case "fail_prompt":
                await self._fail(verdict)
                return False
            case "quota":
                self._s.control.stop(
                    Ending("paused", 4, f"the provider's quota is used up: {verdict.message}")
                )
                return False
            case "stop_run":
                self._s.control.stop(Ending("failed", 1, self._stop_reason(verdict)))
                return False
        return True

    async def _pause(self, verdict: Verdict) -> bool:
        """Hold the whole run back. Waiting as told does not use up the retries; waiting untold does."""
        if verdict.wait_ms is not None:
            self._s.limiter.pause_until(max(verdict.wait_ms / 1000, SHORTEST_WAIT_S))
            return True
        self._tries += 1
        if self._tries > self._brief.settings.retries:
            await self._fail(verdict)
            return False
        self._s.limiter.pause_until(backoff_s(self._tries - 1))
        return True

    async def _retry(self, verdict: Verdict) -> bool:
        self._tries += 1
        nobody_there = verdict.error_class == "connection" and verdict.billed == "no"
        allowed = self._brief.settings.retries
        if nobody_there and not self._s.caller.any_success:
            allowed = min(allowed, TRIES_BEFORE_FIRST_SUCCESS - 1)
        if self._tries > allowed:
            if nobody_there:
                self._s.control.stop(Ending("failed", 1, self._stop_reason(verdict)))
            else:
                await self._fail(verdict)
            return False
        await self._s.control.sleep(min(backoff_s(self._tries - 1), max(self._left(), 0.0)))
        return True

    async def _pass_gate(self, tokens: int) -> None:
        """Wait while the run is paused or sends too much; that does not count against the prompt's time."""
        before, control = monotonic(), self._s.control
        await self._s.limiter.pass_gate(control.sleep, lambda: control.stopping, tokens)
        self._deadline += monotonic() - before

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
        first = self._take_started()
        await self._s.journal.record(*([first] if first is not None else []), *events)
        self._ended = True

    def _attempt(self) -> Attempt:
        if self._started is not None:
            return Attempt.start(self._started, 0, self._s.journal.session)
        return self._s.journal.state.batch.open[self._unit]

    def _take_started(self) -> PromptStarted | None:
        started, self._started = self._started, None
        return started

    def _left(self) -> float:
        return self._deadline - monotonic()

    def _timed_out(self, attempt: Attempt) -> PromptFailed:
        limit = self._brief.settings.prompt_timeout
        return failed(
            attempt, "prompt_timeout", f"not done within {limit:g} s (--prompt-timeout)", None, retryable=True
        )

    def _stop_reason(self, verdict: Verdict) -> str:
        settings = self._brief.settings
        where = settings.base_url or "the embedded model"
        if verdict.error_class == "auth":
            return f"{where} refused the key (--api-key-env {settings.api_key_env}): {verdict.message}"
        return f"{where}: {verdict.message}"
