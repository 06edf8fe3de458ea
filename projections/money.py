"""Money as people and scripts read it: exact decimal strings, never through binary floating point."""

from decimal import Decimal

_NANO = 9
_NS_PER_HOUR = 3600 * 10**9


def usd(nano: int) -> str:
    """Nano-USD as a decimal string in USD: at least two decimals, no trailing zeros beyond them.

    ``usd(0) == "0.00"``, ``usd(1_850_000_000) == "1.85"``, ``usd(123) == "0.000000123"``.
    """
    sign = "-" if nano < 0 else ""
    whole, part = divmod(abs(nano), 10**_NANO)
    decimals = f"{part:09d}".rstrip("0").ljust(2, "0")
    return f"{sign}{whole}.{decimals}"


def cap_amount(cap: str, value: int) -> str:
    """An amount of a cap, for people: ``0.25 USD``, ``1200 tokens``, ``1.5 hours``."""
    if is_money(cap):
        return f"{usd(value)} USD"
    if cap == "hours":
        return f"{Decimal(value) / _NS_PER_HOUR:.6f}".rstrip("0").rstrip(".") + " hours"
    return f"{value} {cap[:-1] if value == 1 else cap}"


def is_money(cap: str) -> bool:
    """Whether a cap is one on money: its name says so (``usd``, ``prompt_usd``, ``role_usd.judge``)."""
    return "usd" in cap
