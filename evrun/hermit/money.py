"""What Hermit booked, as reservations that are settled at once: the account adds up to the last digit.

Its amounts are binary floating point: each is taken as it was written, not as it is stored.
"""

from collections.abc import Iterable
from decimal import ROUND_HALF_EVEN, Decimal
from typing import NamedTuple

from eventlog.events import BudgetReserved, BudgetSpent, Event, LearnerUsage, Usage

from ..budget import OWN
from ..effects.clock import CallIds
from ..training.own_spending import nano_usd
from .lines import SpentPart, UsagePart

HERMIT = "hermit"
IMPORTED = "imported"
ROLES = {"rollout": "rollout", "evolver": "learner"}
"""Hermit's parts of an account, and our roles."""
_NANO = Decimal(10**9)
_MOST_USD = 10**6


class Payer(NamedTuple):
    """Whose money it was: a unit, its attempt, and its role."""

    unit: str
    attempt: int
    role: str

    @property
    def is_one(self) -> bool:
        """Whether this is one task's or one call's, and not a sum of what is known no further."""
        return self.unit.endswith("/learner") or "/task:" in self.unit


class Books:
    """Books what was spent; each booking is a call with an id of its own."""

    def __init__(self, session: int) -> None:
        self._ids = CallIds(session)
        self._spent: dict[Payer, int] = {}

    def book(
        self, payer: Payer, cost_nano_usd: int | None, usage: Usage, model: str = OWN
    ) -> tuple[Event, Event]:
        """One amount; null where nobody knows it."""
        self._spent[payer] = self._spent.get(payer, 0) + (cost_nano_usd or 0)
        reserved = BudgetReserved(
            self._ids.next(), payer.unit, payer.attempt, payer.role, model or OWN, HERMIT, b"", cost_nano_usd,
            usage.input_tokens or 0, usage.output_tokens, IMPORTED,
        )  # fmt: skip
        price = None if cost_nano_usd is None else IMPORTED
        return reserved, BudgetSpent(reserved.call, usage, cost_nano_usd, price)

    def dearest(self, role: str) -> int:
        """The most that one rollout, or one call of the learner, took, in nano-USD."""
        ones = [spent for payer, spent in self._spent.items() if payer.role == role and payer.is_one]
        return max(ones, default=0)

    def usages(self, payer: Payer, said: Iterable[UsagePart]) -> list[Event]:
        """What a learner said of its models."""
        booked: list[Event] = []
        for one in said:
            usage = Usage(one.input_tokens, one.cached_input_tokens, one.output_tokens, None)
            booked += self.book(payer, known_nano(one.cost_usd), usage, one.model)
        return booked

    def rest(self, payer: Payer, left: "Amounts") -> list[Event]:
        """What an account says beyond what is known one by one."""
        if left.nano_usd <= 0 and left.tokens <= 0:
            return []
        tokens = left.tokens if left.tokens > 0 else None
        return list(self.book(payer, max(left.nano_usd, 0), Usage(tokens, None, None, None)))


class Amounts(NamedTuple):
    """Money and tokens."""

    nano_usd: int = 0
    tokens: int = 0

    def without(self, others: "Amounts") -> "Amounts":
        """What is left when others are taken away."""
        return Amounts(self.nano_usd - others.nano_usd, self.tokens - others.tokens)


def booked_in(events: Iterable[Event]) -> Amounts:
    """What the bookings among these events come to."""
    spent = [event for event in events if isinstance(event, BudgetSpent)]
    tokens = sum((one.usage.input_tokens or 0) + (one.usage.output_tokens or 0) for one in spent)
    return Amounts(sum(one.cost_nano_usd or 0 for one in spent), tokens)


def between(before: SpentPart, now: SpentPart, part: str) -> Amounts:
    """What a part of an account grew by; what is less than a nano-USD is floating point's."""
    usd = _amount(now.usd.get(part, 0.0)) - _amount(before.usd.get(part, 0.0))
    nano = int((usd * _NANO).to_integral_value(ROUND_HALF_EVEN))
    return Amounts(nano, now.tokens.get(part, 0) - before.tokens.get(part, 0))


def known_nano(usd: float | None) -> int | None:
    """An amount in nano-USD; null for what is none that anybody can have paid."""
    return None if usd is None or not abs(usd) < _MOST_USD else nano_usd(usd)


def _amount(usd: float) -> Decimal:
    return Decimal(repr(usd)) if abs(usd) < _MOST_USD else Decimal(0)


def learner_usage(one: UsagePart) -> LearnerUsage:
    """What a learner said of a model, as its event has it."""
    return LearnerUsage(
        one.model, one.input_tokens, one.cached_input_tokens, one.output_tokens, one.calls,
        known_nano(one.cost_usd),
    )  # fmt: skip
