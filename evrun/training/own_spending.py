"""What agents and learners pay by themselves, outside evrun: reserved before, where bounded; settled after.

With a bound, the most that one rollout (or one call of the learner) may take is reserved before it begins, so
that caps hold; what it reports settles that. Without one, what it reports is booked when it ends.
"""

from collections.abc import Sequence
from contextlib import suppress
from decimal import ROUND_CEILING, Decimal
from functools import reduce
from typing import NamedTuple

import anyio

from eventlog.errors import AppendError, LogClosed, NotWritten
from eventlog.events import BudgetReserved, BudgetSpent, Event, SpendInDoubt, Usage
from projections import add_usage, usd

from ..batch.control import Control, Ending
from ..bounds import Bound
from ..budget import OWN, Budget
from ..effects.clock import CallIds
from ..journal import Journal
from ..ledger import Order, in_doubt, release, reserve
from .config import BoundConfig

REPORTED = "as reported"
_NANO_PER_USD = 10**9
_NO_USAGE = Usage(None, None, None, None)
_NOTHING = Bound(0, None, 0, "nothing is reserved")


class Reported(NamedTuple):
    """What somebody says to have spent by himself, at one model; null where he does not say."""

    cost_nano_usd: int | None
    usage: Usage = _NO_USAGE
    model: str = OWN

    @property
    def says_something(self) -> bool:
        """Whether anything is said at all."""
        return self.cost_nano_usd is not None or self.usage != _NO_USAGE


def nano_usd(usd: float | None) -> int | None:
    """An amount in USD as whole nano-USD, rounded up; null for what is no amount from 0."""
    if usd is None or isinstance(usd, bool):
        return None
    try:
        amount = Decimal(repr(usd))
    except ArithmeticError:
        return None
    if not amount.is_finite() or amount < 0:
        return None
    return int((amount * _NANO_PER_USD).to_integral_value(ROUND_CEILING))


def own_bound(bound: BoundConfig | None) -> Bound | None:
    """What is to be set aside; null where no bound was given, or it says that nothing is paid."""
    if bound is None or not (bound.usd or bound.tokens):
        return None
    return Bound(bound.tokens or 0, None, nano_usd(bound.usd), "as configured")


class Held(NamedTuple):
    """What was reserved for a rollout or a learner's call that is going on; null where nothing was."""

    unit: str
    attempt: int
    role: str
    reserved: BudgetReserved | None


class OwnSpending:
    """The money that agents, or learners, spend by themselves.

    `where` names the bound's key for messages.
    """

    def __init__(
        self,
        bound: BoundConfig | None,
        *,
        journal: Journal,
        budget: Budget,
        control: Control,
        ids: CallIds,
        where: str = "agent.bound",
    ) -> None:
        self._bound = own_bound(bound)
        self._journal = journal
        self._budget = budget
        self._control = control
        self._ids = ids
        self._where = where

    async def begin(self, unit: str, attempt: int, role: str, *first: Event) -> Held | None:
        """Record `first`, in one commit with what is to be reserved; it is durable when this returns.

        Null: nothing was recorded, because the run is ending, or is paused now since a cap is reached.
        """
        if not await self._room(unit, role):
            return None
        if self._bound is None:
            await self._journal.record(*first)
            return Held(unit, attempt, role, None)
        reserved = reserve(self._ids.next(), Order(unit, attempt, role, OWN, OWN), b"", self._bound)
        ticket = self._journal.record(*first, reserved)
        self._budget.queue(reserved)
        try:
            await ticket
        except (NotWritten, LogClosed):
            self._budget.withdraw(reserved.call)
            raise
        except anyio.get_cancelled_exc_class():
            with anyio.CancelScope(shield=True), suppress(AppendError):
                await ticket
                await self._journal.record(release(reserved, "the run was stopped before it began"))
            raise
        return Held(unit, attempt, role, reserved)

    def end(self, held: Held, reported: Sequence[Reported]) -> tuple[Event, ...]:
        """What is to be recorded in one commit with the end of what was `held`."""
        said = [one for one in reported if one.says_something]
        if held.reserved is None:
            return tuple(event for one in said for event in self._booked(held, one))
        event = settled(held.reserved, said)
        over = _over(held.reserved, event)
        if over is not None and self._budget.capped:
            self._pause(f"more was spent than {self._where} says, so that no cap can hold: {over}")
        return (event,)

    async def abandon(self, held: Held, why: str) -> None:
        """It goes on in a later session, or not at all: what it has spent so far, nobody knows."""
        if held.reserved is not None:
            with anyio.CancelScope(shield=True):
                await self._journal.record(in_doubt(held.reserved, why))

    async def _room(self, unit: str, role: str) -> bool:
        """Whether it may begin; waits for money that others have reserved, and pauses where there is none."""
        control, bound = self._control, self._bound or _NOTHING
        short = await self._budget.room(unit, bound, control.stopped, lambda: control.stopping, role=role)
        if short is None:
            return not control.stopping
        self._pause(f"a cap is reached: {self._budget.words(short)}")
        await self._journal.record(short.event)
        return False

    def _booked(self, held: Held, one: Reported) -> tuple[Event, Event]:
        order = Order(held.unit, held.attempt, held.role, one.model or OWN, OWN)
        reserved = reserve(self._ids.next(), order, b"", _NOTHING)
        price = None if one.cost_nano_usd is None else REPORTED
        return reserved, BudgetSpent(reserved.call, one.usage, one.cost_nano_usd, price)

    def _pause(self, reason: str) -> None:
        self._control.stop(Ending("paused", 4, reason))


def settled(reserved: BudgetReserved, said: Sequence[Reported]) -> Event:
    """The end of a reservation, by what was reported; what was not stays in doubt up to the bound.

    Where the cost is reported and tokens are not, the bound's tokens count as used.
    """
    costs = [one.cost_nano_usd for one in said]
    known = sum(cost or 0 for cost in costs)
    used = reduce(add_usage, [one.usage for one in said], _NO_USAGE)
    if costs and None not in costs:
        if used == _NO_USAGE and reserved.bound_input_tokens:
            used = Usage(reserved.bound_input_tokens, None, None, None)
        return BudgetSpent(reserved.call, used, known, REPORTED)
    bound, tokens = reserved.bound_nano_usd, max(reserved.bound_input_tokens, _tokens(used))
    why = "what it cost was not reported"
    return SpendInDoubt(reserved.call, why, None if bound is None else max(bound, known), tokens)


def _over(reserved: BudgetReserved, event: Event) -> str | None:
    """How more was spent than was reserved; null where it was not, or nothing was said of it."""
    if not isinstance(event, BudgetSpent):
        return None
    bound, cost = reserved.bound_nano_usd, event.cost_nano_usd or 0
    if bound is not None and cost > bound:
        return f"{usd(cost)} of {usd(bound)} USD"
    most, used = reserved.bound_input_tokens, _tokens(event.usage)
    return f"{used} of {most} tokens" if most and used > most else None


def _tokens(usage: Usage) -> int:
    return (usage.input_tokens or 0) + (usage.output_tokens or 0)
