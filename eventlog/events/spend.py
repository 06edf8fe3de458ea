"""Facts about money. Amounts are integers in nano-USD (10^-9 USD); token counts are integers.

The life of a call: `BudgetReserved`, then exactly one of `BudgetSpent`, `BudgetReleased`, `SpendInDoubt`; a
call in doubt may later be ended by a `SpendCorrected`.
"""

from typing import Any

import msgspec

from .base import Event


class Usage(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Tokens as the provider reported them; null where it did not report (never 0 instead)."""

    input_tokens: int | None
    cached_input_tokens: int | None
    output_tokens: int | None
    reasoning_tokens: int | None


class BudgetReserved(Event, frozen=True, gc=False):
    """A bound was set aside for one request, before it is sent.

    `call` is unique in the run; `role` is "rollout", "judge", …; `request` is the SHA-256 of its body;
    `bound_nano_usd` is null where no price is known; `bound_by` says how the bound was made.
    """

    call: str
    unit: str
    attempt: int
    role: str
    model: str
    endpoint: str
    request: bytes
    bound_nano_usd: int | None
    bound_input_tokens: int
    bound_output_tokens: int | None
    bound_by: str


class BudgetSpent(Event, frozen=True, gc=False):
    """A call was settled: what it cost, and by which price (source and version); null where unpriced."""

    call: str
    usage: Usage
    cost_nano_usd: int | None
    price: str | None


class BudgetReleased(Event, frozen=True, gc=False):
    """A call certainly cost nothing."""

    call: str
    reason: str


class SpendInDoubt(Event, frozen=True, gc=False):
    """Whether a call cost something cannot be known; the bounds are the most it can."""

    call: str
    reason: str
    bound_nano_usd: int | None
    bound_tokens: int | None


class SpendCorrected(Event, frozen=True, gc=False):
    """A person settled a call in doubt, from an invoice."""

    call: str
    cost_nano_usd: int
    note: str


class BudgetChanged(Event, frozen=True, gc=False):
    """Caps were set, raised or lowered; a cap that is not there is not in the map."""

    before: dict[str, Any]
    now: dict[str, Any]


class BudgetExhausted(Event, frozen=True, gc=False):
    """The next reservation does not fit under `cap` though nothing else is reserved."""

    cap: str
    asked: int
    left: int
