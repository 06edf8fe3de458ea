"""Sending the requests of one attempt: admitted one by one, and what a refusal means for the next try."""

from collections.abc import Callable, Sized
from enum import Enum, auto
from typing import NamedTuple

from eventlog.events import BudgetReserved, Event

from ..bounds import Bound
from ..budget import Budget
from ..effects.backoff import backoff_s
from ..effects.clock import monotonic
from ..effects.limiter import Limiter
from ..effects.limiter_rates import Permit
from ..journal import Journal
from ..ledger import Order
from ..loop import Caller, Done, Told
from ..prices import Price
from ..providers import Verdict
from .control import Control, Ending
from .function_judge import Judging
from .settings import Settings
from .tool_calls import ToolRunner

TRIES_BEFORE_FIRST_SUCCESS = 2
"""An endpoint that never answered and twice refuses the connection is not there: the run stops."""
SHORTEST_WAIT_S = 0.1
"""Told to wait for a millisecond, again and again, one would fill the log with refusals."""

Conclude = Callable[[BudgetReserved, tuple[Event, ...]], tuple[Event, ...]]


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

    def sender(self, unit: str, settings: Settings, role: str = "rollout") -> "Sender":
        """Who sends the requests of one attempt."""
        return Sender(self, unit, settings, role)


class Prepared(NamedTuple):
    """What goes with a request: events for the commit of its reservation, and what is different about it."""

    first: tuple[Event, ...]
    told: Told | None = None


class Unsendable(NamedTuple):
    """Why a request is not sent, as the end of its prompt."""

    error_class: str
    message: str
    retryable: bool


class Next(Enum):
    """What follows a try."""

    GO_ON = auto()
    """Answered; or it may be tried again, now."""
    FAIL = auto()
    """No more tries: the verdict is the end of it."""
    STOP = auto()
    """The run is ending, or has just been told to."""


class Sender:
    """Sends the requests of one attempt. `deadline` moves on while the run is held back.

    One request at a time counts its tries with `again`; whoever sends several at once makes a sender for
    each of them by `another`: where one of these is held back, the first one's deadline moves on too. `role`
    is what its calls are for.
    """

    def __init__(self, services: Services, unit: str, settings: Settings, role: str = "rollout") -> None:
        self._s = services
        self._unit = unit
        self._settings = settings
        self._role = role
        self._tries = 0
        self._beside: Sender | None = None
        self.deadline = monotonic() + settings.prompt_timeout

    @property
    def left_s(self) -> float:
        """Seconds that the prompt has left."""
        return self.deadline - monotonic()

    def another(self) -> "Sender":
        """A sender for a request beside others: the same deadline, tries of its own."""
        sender = self._s.sender(self._unit, self._settings, self._role)
        sender.deadline = self.deadline
        sender._beside = self  # noqa: SLF001 (one of its own kind)
        return sender

    def held_back(self, seconds: float) -> None:
        """So long the run was held back: that does not count against the prompt's time."""
        self.deadline += seconds
        if self._beside is not None:
            self._beside.deadline = max(self._beside.deadline, self.deadline)

    async def ask(
        self,
        order: Order,
        body: bytes,
        bound: Bound,
        price: Price | None,
        *,
        prepare: Callable[[], Prepared],
        conclude: Conclude,
    ) -> Done | Unsendable | None:
        """Wait until a request may be sent, send it once, record what came of it; null: the run is ending.

        `prepare` is asked when it is certain that the request will be recorded, or, where another process
        records it, that it will be unless nothing more of this attempt is sent. Else as `Caller.complete`.
        """
        permit = await self.admit(body, bound, price)
        if permit is None or isinstance(permit, Unsendable):
            return permit
        # No await before the reservation is queued.
        first, told = prepare()
        return await self.send(order, body, bound, permit, first=first, conclude=conclude, told=told)

    async def admit(self, body: Sized, bound: Bound, price: Price | None) -> Permit | Unsendable | None:
        """Wait until a request may be sent; null: it is not to be, because the run is ending.

        Whoever gets a permit must queue the reservation without any await in between: what was found free
        must still be. Of `body` only its size counts.
        """
        while True:
            tokens = self._s.limiter.asked(body, bound.output_tokens)
            if not self._s.limiter.open:
                await self._pass_gate(tokens)
            if self._s.control.stopping:
                return None
            unpriced = self._settings.unknown_price == "allow"
            refusal = self._s.budget.refusal(bound, price, role=self._role, unpriced=unpriced)
            if refusal is not None:
                return Unsendable("no_bound", refusal, retryable=False)
            short = await self._no_room(bound) if self._s.budget.capped else None
            if short is not None or self._s.control.stopping:
                return short
            if (permit := self._s.limiter.take(tokens)) is not None:
                return permit

    async def send(
        self,
        order: Order,
        body: bytes,
        bound: Bound,
        permit: Permit,
        *,
        first: tuple[Event, ...],
        conclude: Conclude,
        told: Told | None = None,
    ) -> Done:
        """Send a request that was admitted, once, and record what came of it: as `Caller.complete`."""
        timeout_s = min(self._settings.request_timeout, self.left_s)
        done = await self._s.caller.complete(
            order, body, bound, timeout_s=timeout_s, first=first, conclude=conclude, told=told
        )
        self._s.limiter.settle(permit, *done.took)
        if done.over_bound is not None:
            self.over_bound(done.over_bound)
        return done

    def over_bound(self, how: str) -> None:
        """An answer took more than was set aside for it: under a cap nothing more may be sent."""
        if self._s.budget.capped:
            self._pause_for(f"an answer took more than its bound, so that no cap can hold: {how}")

    async def again(self, verdict: Verdict) -> Next:
        """What a verdict means for the request; where it may be tried again, the wait before that is over."""
        match verdict.kind:
            case "answer":
                self._tries = 0
            case "pause":
                return self._hold_back(verdict)
            case "retry":
                return await self._retry(verdict)
            case "fail_prompt":
                return Next.FAIL
            case "quota":
                reason = f"the provider's quota is used up: {verdict.message}"
                self._s.control.stop(Ending("paused", 4, reason))
                return Next.STOP
            case "stop_run":
                self._s.control.stop(Ending("failed", 1, self._stop_reason(verdict)))
                return Next.STOP
        return Next.GO_ON

    async def _no_room(self, bound: Bound) -> Unsendable | None:
        """Wait until the call fits under the caps; where it never will, say so or pause the run."""
        before, control = monotonic(), self._s.control
        short = await self._s.budget.room(
            self._unit, bound, control.stopped, lambda: control.stopping, role=self._role
        )
        self.held_back(monotonic() - before)
        if short is None:
            return None
        if short.cap == "prompt_usd":
            return Unsendable("prompt_budget", self._s.budget.words(short), retryable=True)
        self._pause_for(f"a cap is reached: {self._s.budget.words(short)}")
        await self._s.journal.record(short.event)
        return None

    async def _pass_gate(self, tokens: int) -> None:
        """Wait while the run is paused or sends too much; that does not count against the prompt's time."""
        before, control = monotonic(), self._s.control
        await self._s.limiter.pass_gate(control.sleep, lambda: control.stopping, tokens)
        self.held_back(monotonic() - before)

    def _pause_for(self, reason: str) -> None:
        self._s.control.stop(Ending("paused", 4, reason))

    def _hold_back(self, verdict: Verdict) -> Next:
        """Hold the whole run back. Waiting as told does not use up the retries; waiting untold does."""
        if verdict.wait_ms is not None:
            self._s.limiter.pause_until(max(verdict.wait_ms / 1000, SHORTEST_WAIT_S))
            return Next.GO_ON
        self._tries += 1
        if self._tries > self._settings.retries:
            return Next.FAIL
        self._s.limiter.pause_until(backoff_s(self._tries - 1))
        return Next.GO_ON

    async def _retry(self, verdict: Verdict) -> Next:
        self._tries += 1
        nobody_there = verdict.error_class == "connection" and verdict.billed == "no"
        allowed = self._settings.retries
        if nobody_there and not self._s.caller.any_success:
            allowed = min(allowed, TRIES_BEFORE_FIRST_SUCCESS - 1)
        if self._tries > allowed:
            if not nobody_there:
                return Next.FAIL
            self._s.control.stop(Ending("failed", 1, self._stop_reason(verdict)))
            return Next.STOP
        await self._s.control.sleep(min(backoff_s(self._tries - 1), max(self.left_s, 0.0)))
        return Next.GO_ON

    def _stop_reason(self, verdict: Verdict) -> str:
        where = self._settings.base_url or "the embedded model"
        if verdict.error_class == "auth":
            return f"{where} refused the key (--api-key-env {self._settings.api_key_env}): {verdict.message}"
        return f"{where}: {verdict.message}"
