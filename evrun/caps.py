"""Caps: what somebody wants to spend at most, as it is typed, kept, and shown. Pure.

In the log and in the folds a cap is an integer: ``usd`` and ``prompt_usd`` in nano-USD, ``tokens``, ``calls``
(of a model), and ``hours`` in nanoseconds of active time.
"""

from collections.abc import Collection, Mapping
from decimal import Decimal

from projections import cap_amount

from .bounds import UNBOUNDED_FIELDS
from .errors import UsageFault
from .prices import parse_usd, plain_number
from .rates import Price

CAP_OPTIONS = {
    "usd": "--budget-usd",
    "tokens": "--budget-tokens",
    "calls": "--budget-calls",
    "hours": "--budget-hours",
    "prompt_usd": "--prompt-budget-usd",
}
"""Each cap with its option."""

MONEY = ("usd", "prompt_usd")
NO_CAP = "none"
amount = cap_amount
"""An amount of a cap, for people: ``0.25 USD``, ``1200 tokens``, ``1.5 hours``."""

NANO_PER_USD = 10**9
NS_PER_HOUR = 3600 * 10**9
_MOST = 10**15


def parse_cap(cap: str, text: str) -> int | None:
    """A cap as it was typed; null for ``none``, which lifts it.

    Raises:
        UsageFault: it is no amount above 0, or finer than can be kept.
    """
    option, found = CAP_OPTIONS[cap], text.strip()
    if found == NO_CAP:
        return None
    if cap in MONEY:
        amount = parse_nano_usd(found, option)
    elif cap == "hours":
        amount = _whole(_number(option, found) * NS_PER_HOUR, option, found, "a nanosecond")
    else:
        amount = _whole(_number(option, found), option, found, "1")
    if not 0 < amount <= _MOST * NANO_PER_USD:
        raise UsageFault(f"{option} {found}: expected an amount above 0", f"for example {_example(cap)}")
    return amount


def parse_nano_usd(text: str, where: str) -> int:
    """An amount in USD as whole nano-USD, from 0; `where` names the option for the message.

    Raises:
        UsageFault: it is no such amount, or finer than can be kept.
    """
    return _whole(parse_usd(text, where) * NANO_PER_USD, where, text, "10^-9 USD")


def _number(option: str, found: str) -> Decimal:
    number = plain_number(found)
    if number is None:
        raise UsageFault(f"{option}: {found!r} is not a number", "write a plain number, or none")
    if not number.is_finite() or abs(number) > _MOST:
        raise UsageFault(f"{option}: {found!r} is not a number that can be kept", "write a plain number")
    return number


def _whole(amount: Decimal, option: str, found: str, unit: str) -> int:
    if amount != amount.to_integral_value():
        raise UsageFault(f"{option}: {found!r} is finer than {unit}, the smallest that is counted")
    return int(amount)


def _example(cap: str) -> str:
    return f"{CAP_OPTIONS[cap]} {'5' if cap in MONEY else '2' if cap == 'hours' else '1000000'}"


def caps_now(before: Mapping[str, int], asked: Mapping[str, int | None]) -> dict[str, int]:
    """The caps in force: those of before, changed as asked; null lifts one."""
    merged: dict[str, int | None] = {**before, **asked}
    return {name: cap for name, cap in merged.items() if cap is not None}


def check_caps(
    caps: Mapping[str, int],
    price: Price | None,
    *,
    model: str,
    max_tokens: int | None,
    unknown_price: str,
    extra_body: Collection[str] = (),
) -> None:
    """Refuse what a cap could not hold, before anything is spent. `extra_body`: fields that a user adds.

    Raises:
        UsageFault: a price or an output cap is missing; the option that gives it is named.
    """
    money = [CAP_OPTIONS[cap] for cap in MONEY if cap in caps]
    if money and price is None and unknown_price != "allow":
        raise UsageFault(
            f"{money[0]} needs a price, and that of {model} at this endpoint is not known",
            f"give it: --price {model}=INPUT,OUTPUT in USD per million tokens; or --unknown-price allow, and "
            "its calls count as unpriced",
        )
    _check_fields([*money, *(["--budget-tokens"] if "tokens" in caps else [])], extra_body)
    free = price is None or price.dearest_output == 0
    needing = [*(money if not free else []), *(["--budget-tokens"] if "tokens" in caps else [])]
    if needing and max_tokens is None:
        raise UsageFault(
            f"{needing[0]} needs to know how long an answer can be, and there is no output cap",
            "give one: --max-tokens N, reasoning included",
        )


def _check_fields(options: list[str], extra_body: Collection[str]) -> None:
    found = [name for name in UNBOUNDED_FIELDS if name in extra_body]
    if options and found:
        raise UsageFault(
            f"{options[0]} cannot hold with --extra-body {', '.join(found)}: what that may cost is not known",
            "leave it out, or do without the cap",
        )
