"""A ledger in memory and the budget over it, for tests that say what becomes durable, and when."""

import anyio

from eventlog.events import BudgetChanged, BudgetSpent, SessionOpened, Usage
from evrun.bounds import Bound
from evrun.budget import Budget, prompt_parts
from evrun.ledger import Order, reserve
from projections import RunState
from tests.projections.histories import begun, name_of, planned, records, started

A, B = name_of(0), name_of(1)


def bound_of(usd, tokens=2):
    """A bound of so many nano-USD."""
    return Bound(tokens - 1, 1, usd, "a test")


class Bank:
    """A ledger in memory and its budget; `durable` is the moment at which the log has something."""

    def __init__(self, **caps):
        self.state, self.said, self.active_ns, self.calls = RunState(), [], 0, 0
        self.stop = None
        self.commits = []
        begin = [
            SessionOpened(1, 1, "h", "0"),
            started(),
            BudgetChanged({}, caps),
            planned(4),
            begun(A),
            begun(B),
        ]
        self.budget = None
        self.durable(*begin)
        self.reopen()

    def reopen(self):
        """A new session on the same ledger."""
        ledger, batch = self.state.ledger, self.state.batch
        self.budget = Budget(
            ledger, lambda: self.active_ns, self.said.append, parts=prompt_parts(ledger, batch)
        )

    def durable(self, *events):
        """These are in the log now."""
        self.commits.append(list(events))
        for record in records(self.commits)[-len(events) :]:
            self.state.apply(record)
            if self.budget is not None:
                self.budget.see(record)

    def order(self, bound, unit=A):
        """A reservation, not yet queued."""
        self.calls += 1
        return reserve(f"c{self.calls}", Order(unit, 1, "rollout", "m", "h"), b"digest", bound)

    async def room(self, bound, unit=A):
        """Ask for room."""
        return await self.budget.room(unit, bound, self._stopped, lambda: self.stopping)

    @property
    def stopping(self):
        """Whether the run was told to end."""
        return self.stop is not None and self.stop.is_set()

    async def _stopped(self):
        self.stop = self.stop or anyio.Event()
        await self.stop.wait()

    async def take(self, usd, unit=A, tokens=2):
        """Room for a call, and its reservation, durable."""
        assert await self.room(bound_of(usd, tokens), unit) is None
        reserved = self.order(bound_of(usd, tokens), unit)
        self.budget.queue(reserved)
        self.durable(reserved)
        return reserved

    def settle(self, reserved, usd, usage=(1, 1)):
        """What a call cost."""
        self.durable(BudgetSpent(reserved.call, Usage(usage[0], None, usage[1], None), usd, "a test"))

    @property
    def committed(self):
        """Settled, in doubt, reserved, and on the way into the log."""
        queued = sum(one.bound_nano_usd or 0 for one in self.budget._queued.values())
        return self.state.ledger.committed_nano_usd + queued
