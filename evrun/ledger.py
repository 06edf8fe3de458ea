"""Decisions about money: what to set aside before a call, and what a call turned out to cost. Pure."""

import hashlib
from typing import NamedTuple

from eventlog.events import BudgetReleased, BudgetReserved, BudgetSpent, Event, SpendInDoubt, Usage

from .bounds import Bound
from .prices import Price, cost_nano_usd
from .rates import bound_nano_usd


class Order(NamedTuple):
    """What a call is for: the unit and attempt that pay, the role, and where it goes."""

    unit: str
    attempt: int
    role: str
    model: str
    endpoint: str


def request_digest(body: bytes) -> bytes:
    """The SHA-256 of a request's body."""
    return hashlib.sha256(body).digest()


def reserve(call: str, order: Order, request: bytes, bound: Bound) -> BudgetReserved:
    """The reservation of one request, to be durable before it is sent."""
    return BudgetReserved(
        call,
        order.unit,
        order.attempt,
        order.role,
        order.model,
        order.endpoint,
        request,
        bound.nano_usd,
        bound.input_tokens,
        bound.output_tokens,
        bound.how,
    )


def settle(reserved: BudgetReserved, usage: Usage, price: Price | None) -> BudgetSpent | SpendInDoubt:
    """The settlement of an answered call; in doubt where the answer does not say all that it used."""
    if usage.input_tokens is None or usage.output_tokens is None:
        return _half_known(reserved, usage, price)
    if price is None:
        return BudgetSpent(reserved.call, usage, None, None)
    return BudgetSpent(reserved.call, usage, cost_nano_usd(price, usage), price.source)


def _half_known(reserved: BudgetReserved, usage: Usage, price: Price | None) -> SpendInDoubt:
    """The doubt about an answer that reports only one side, or none: never less than what it does report."""
    halves = {"input": usage.input_tokens, "output": usage.output_tokens}
    missing = [name for name, count in halves.items() if count is None]
    doubt = in_doubt(
        reserved, f"the answer reports no usage{'' if len(missing) > 1 else ' of ' + missing[0]}"
    )
    if len(missing) > 1 or price is None or doubt.bound_nano_usd is None or doubt.bound_tokens is None:
        return doubt
    given = reserved.bound_input_tokens if usage.input_tokens is None else usage.input_tokens
    output = (reserved.bound_output_tokens or 0) if usage.output_tokens is None else usage.output_tokens
    most, tokens = bound_nano_usd(price, given, output), max(doubt.bound_tokens, given + output)
    return SpendInDoubt(doubt.call, doubt.reason, max(doubt.bound_nano_usd, most), tokens)


def release(reserved: BudgetReserved, reason: str) -> BudgetReleased:
    """The release of a call that certainly cost nothing."""
    return BudgetReleased(reserved.call, reason)


def in_doubt(reserved: BudgetReserved, reason: str) -> SpendInDoubt:
    """The doubt about a call that may have cost up to its bound."""
    output = reserved.bound_output_tokens
    tokens = None if output is None else reserved.bound_input_tokens + output
    return SpendInDoubt(reserved.call, reason, reserved.bound_nano_usd, tokens)


def close_unsettled(billed: str, reserved: BudgetReserved, reason: str) -> Event:
    """The money side of a call without a usable answer: `billed` is "no" or "unknown"."""
    return release(reserved, reason) if billed == "no" else in_doubt(reserved, reason)


def over_bound(reserved: BudgetReserved, settled: Event, *, media: bool = False) -> str | None:
    """How an answer took more than was set aside for it; null where it did not, or nobody knows.

    With `media` in the request its input had no bound that an answer could be over.
    """
    if isinstance(settled, SpendInDoubt) and (settled.bound_nano_usd or 0) > (reserved.bound_nano_usd or 0):
        return f"perhaps {settled.bound_nano_usd} nano-USD of {reserved.bound_nano_usd}"
    if not isinstance(settled, BudgetSpent):
        return None
    usage, limit = settled.usage, reserved.bound_output_tokens
    parts = [
        ("nano-USD", settled.cost_nano_usd, reserved.bound_nano_usd),
        ("input tokens", usage.input_tokens, None if media else reserved.bound_input_tokens),
        ("output tokens", usage.output_tokens, limit),
    ]
    found = [
        f"{took} {what} of {most}" for what, took, most in parts if took and most is not None and took > most
    ]
    return ", ".join(found) or None
