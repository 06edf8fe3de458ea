"""Record, wait until durable, act, record: the one place where that order is written.

A request leaves only after its reservation is durable; its answer is used only after answer and settlement
are durable, in one commit. Whatever happens between, the log says that the call may have cost something.
"""

from collections.abc import Callable
from typing import NamedTuple

import anyio
import msgspec

from eventlog.errors import LogClosed, NotWritten
from eventlog.events import BudgetReserved, BudgetSpent, Event, ModelAnswered, ModelCallFailed, Usage
from eventlog.storage import Ticket
from projections import idempotency_key, normalise_usage, read_answer

from .bounds import Bound
from .budget import Budget
from .effects.clock import CallIds, now_ns
from .effects.llm import Answered, LlmClient, Lost, NotSent
from .effects.secrets import Redactor
from .journal import Journal
from .ledger import (
    Order,
    close_unsettled,
    in_doubt,
    over_bound,
    release,
    request_digest,
    reserve,
    settle,
)
from .prices import Price
from .providers import Verdict, classify


class Done(NamedTuple):
    """A call that was made: its verdict, and the commit that still has to become durable, if one has.

    `over_bound` says how the answer took more than was set aside for it; null where it did not. `usage` is
    what an answer reports in full; null for all else. `call` is its name.
    """

    verdict: Verdict
    behind: Ticket | None
    over_bound: str | None = None
    usage: Usage | None = None
    call: str = ""

    @property
    def took(self) -> tuple[int | None, int | None]:
        """Tokens in and out, for whoever counts them by the minute; null where nobody knows."""
        if self.usage is not None:
            return self.usage.input_tokens, self.usage.output_tokens
        return (0, 0) if self.verdict.billed == "no" else (None, None)


class Told(NamedTuple):
    """What is different about a call that an own agent asked for.

    `call` is its name, which the request's event has already; `digest` stands for the request, whatever the
    bytes that are sent; `path` is another than the dialect's where given; `price` is that of its own model.
    """

    call: str
    digest: bytes
    path: str | None
    price: Price | None


class Caller:
    """Sends requests to one endpoint, each with its reservation before and its settlement after.

    `any_success` says whether this endpoint has answered this run before. `ids`, where given, are shared with
    the callers of other endpoints.
    """

    def __init__(
        self,
        journal: Journal,
        client: LlmClient,
        price: Price | None,
        redactor: Redactor,
        budget: Budget,
        *,
        any_success: bool = False,
        ids: CallIds | None = None,
    ) -> None:
        self._journal = journal
        self._client = client
        self._price = price
        self._redactor = redactor
        self._budget = budget
        self._ids = ids or CallIds(journal.session)
        self.any_success = any_success

    def new_call(self) -> str:
        """A name for a call, unique in the run."""
        return self._ids.next()

    async def complete(
        self,
        order: Order,
        body: bytes,
        bound: Bound,
        *,
        timeout_s: float,
        first: tuple[Event, ...],
        conclude: Callable[[BudgetReserved, tuple[Event, ...]], tuple[Event, ...]],
        told: Told | None = None,
    ) -> Done:
        """Send one request once, and record what came of it.

        Whoever calls has just got room for it from the budget, with no await in between. `first` is
        recorded in one commit with the reservation. `conclude` is asked what follows at once from
        an answer and its settlement; that is recorded in one commit with them. When
        this returns, the outcome is durable and folded, so that an answer is found in the attempt's state;
        but where it concluded the attempt nobody needs it, and it is only queued: whoever called awaits
        `behind`.
        """
        told = told or Told(self.new_call(), request_digest(body), None, self._price)
        digest = told.digest
        reserved = reserve(told.call, order, digest, bound)
        await self._reserve(reserved, first)
        key = idempotency_key(order.unit, order.attempt, digest)
        try:
            sent = await self._client.complete(body, idempotency_key=key, timeout_s=timeout_s, path=told.path)
        except anyio.get_cancelled_exc_class():
            with anyio.CancelScope(shield=True):
                await self._journal.record(*self._abandoned(reserved))
            raise
        verdict = classify(sent, any_success=self.any_success, now_ns=now_ns())
        # What a provider says may hold the key; nobody gets to see it as it came.
        if verdict.message:
            verdict = msgspec.structs.replace(verdict, message=self._redactor.clean_text(verdict.message))
        outcome = self._outcome(reserved, sent, verdict, told.price)
        over = over_bound(reserved, outcome[0], media=bound.media)
        usage = outcome[0].usage if isinstance(outcome[0], BudgetSpent) else None
        if verdict.kind == "answer":
            self.any_success = True
            try:
                last = conclude(reserved, outcome)
            except Exception:
                # Whatever is wrong with deciding, the answer was paid for.
                await self._journal.record(*outcome)
                raise
            if last:
                return Done(verdict, self._journal.record(*outcome, *last), over, usage, told.call)
        await self._journal.record(*outcome)
        return Done(verdict, None, over, usage, told.call)

    async def _reserve(self, reserved: BudgetReserved, first: tuple[Event, ...]) -> None:
        """Return once the reservation is durable. If that wait is cancelled, the call is released: unsent."""
        ticket = self._journal.record(*first, reserved)
        self._budget.queue(reserved)
        try:
            try:
                await ticket
            except anyio.get_cancelled_exc_class():
                await self._take_back(ticket, reserved)
                raise
        except (NotWritten, LogClosed):
            self._budget.withdraw(reserved.call)
            raise

    async def _take_back(self, ticket: Ticket, reserved: BudgetReserved) -> None:
        with anyio.CancelScope(shield=True):
            await ticket
            await self._journal.record(release(reserved, "the run was stopped before it was sent"))

    def _outcome(
        self,
        reserved: BudgetReserved,
        sent: Answered | NotSent | Lost,
        verdict: Verdict,
        price: Price | None,
    ) -> tuple[Event, ...]:
        request_id = sent.request_id if isinstance(sent, Answered) else None
        if verdict.kind == "answer" and isinstance(sent, Answered):
            usage = normalise_usage(read_answer(sent.body).usage_raw)
            body = self._redactor.clean(sent.body)
            return (
                settle(reserved, usage, price),
                ModelAnswered(reserved.call, body, sent.elapsed_ms, request_id),
            )
        return (
            close_unsettled(verdict.billed, reserved, verdict.error_class),
            ModelCallFailed(
                reserved.call,
                verdict.error_class,
                verdict.message,
                verdict.status,
                verdict.retryable,
                verdict.wait_ms,
                request_id,
            ),
        )

    def _abandoned(self, reserved: BudgetReserved) -> list[Event]:
        reason = "abandoned: the run was stopped before the answer came"
        failed = ModelCallFailed(reserved.call, "abandoned", reason, None, True, None, None)  # noqa: FBT003 (an event's fields)
        return [in_doubt(reserved, reason), failed]
