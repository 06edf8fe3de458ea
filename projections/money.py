"""Money as people and scripts read it: exact decimal strings, never through binary floating point."""

_NANO = 9


def usd(nano: int) -> str:
    """Nano-USD as a decimal string in USD: at least two decimals, no trailing zeros beyond them.

    ``usd(0) == "0.00"``, ``usd(1_850_000_000) == "1.85"``, ``usd(123) == "0.000000123"``.
    """
    sign = "-" if nano < 0 else ""
    whole, part = divmod(abs(nano), 10**_NANO)
    decimals = f"{part:09d}".rstrip("0").ljust(2, "0")
    return f"{sign}{whole}.{decimals}"
