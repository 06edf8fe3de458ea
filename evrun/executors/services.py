"""The services of a session on a worker: as anywhere, with the driver's journal, gate and account."""

from collections.abc import Callable, Sequence

import anyio
from anyio import lowlevel

from eventlog.events import BudgetReserved, Event
from eventlog.storage import Ticket
from projections import Ledger, RunState

from ..batch.function_judge import Judging
from ..batch.sending import Conclude, Prepared, Sender, Services, Unsendable
from ..batch.settings import Settings
from ..batch.tool_calls import ToolRunner
from ..bounds import Bound
from ..budget import Budget
from ..effects.llm import LlmClient
from ..effects.secrets import Redactor
from ..journal import Journal
from ..ledger import Order, release, request_digest
from ..loop import Caller, Done, Told
from ..prices import Price
from .link import Asking, Link, NotAdmitted, WorkerLimiter
from .wire import Over


def services_over(
    link: Link,
    client: LlmClient,
    price: Price | None,
    *,
    redactor: Redactor,
    tools: Callable[[Journal], ToolRunner],
    judge: Judging | None = None,
) -> Services:
    """What a session acts through where all that it records goes over a link."""
    journal = WorkerJournal(link)
    caller = WorkerCaller(link, journal, client, price, redactor=redactor)
    limiter, control = WorkerLimiter(link.common.say), link.common.control
    return WorkerServices(journal, caller, limiter, control, tools(journal), price, caller.budget, judge)


class WorkerJournal(Journal):
    """The journal of a session on a worker: what it records is durable when the driver says so."""

    def __init__(self, link: Link) -> None:  # no writer: the driver has it
        self._link = link
        self.has_written = False

    @property
    def state(self) -> RunState:
        """The attempts that this worker works on."""
        return self._link.common.state

    @property
    def session(self) -> int:
        """The number of the run's session."""
        return self._link.common.epoch

    def record(self, *events: Event) -> Ticket:
        """As `Journal.record`, by the driver."""
        self.has_written = True
        return self._link.record(events)


class WorkerServices(Services):
    """Services whose requests are admitted by the driver."""

    def sender(self, unit: str, settings: Settings, role: str = "rollout") -> Sender:
        """Who sends the requests of one attempt."""
        return WorkerSender(self, unit, settings, role)


class WorkerSender(Sender):
    """Sends requests that the driver admits and reserves for, both in one question."""

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
        """As `Sender.ask`; what is prepared is recorded unless nothing more of this attempt is sent."""
        caller = self._s.caller
        assert isinstance(caller, WorkerCaller)
        first, told = prepare()
        told = told or Told(caller.new_call(), request_digest(body), None, price)
        caller.asking[told.call] = Asking(len(body), bound, price is not None, self.held_back)
        # The time left is the same before and after the request was held back.
        timeout_s = min(self._settings.request_timeout, self.left_s)
        try:
            done = await caller.complete(
                order, body, bound, timeout_s=timeout_s, first=first, conclude=conclude, told=told
            )
        except NotAdmitted as refusal:
            self.held_back(refusal.waited_s)
            return refusal.unsendable
        finally:
            caller.asking.pop(told.call, None)
        if done.over_bound is not None:
            self.over_bound(done.over_bound)
        return done

    def over_bound(self, how: str) -> None:
        """The driver knows whether there is a cap."""
        caller = self._s.caller
        assert isinstance(caller, WorkerCaller)
        caller.link.common.say(Over(caller.link.session, how))


class WorkerCaller(Caller):
    """Sends requests from a worker; `asking` holds what the driver is asked, by the call."""

    def __init__(
        self, link: Link, journal: Journal, client: LlmClient, price: Price | None, *, redactor: Redactor
    ) -> None:
        # Nothing is capped here: what may be spent is the driver's to say.
        budget = Budget(Ledger(), _no_time, _unheard)
        ids, known = link.common.ids, link.any_success
        super().__init__(journal, client, price, redactor, budget, any_success=known, ids=ids)
        self.budget = budget
        self.link = link
        self.asking: dict[str, Asking] = {}

    async def _reserve(self, reserved: BudgetReserved, first: Sequence[Event]) -> None:
        await self.link.reserve(reserved, first, self.asking.pop(reserved.call))
        self.any_success = self.any_success or self.link.any_success
        try:
            await lowlevel.checkpoint_if_cancelled()
        except anyio.get_cancelled_exc_class():
            with anyio.CancelScope(shield=True):
                await self._journal.record(release(reserved, "the run was stopped before it was sent"))
            raise


def _no_time() -> int:
    return 0


def _unheard(_: str) -> None:
    """What a budget without caps has to say."""
