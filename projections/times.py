"""Moments as people and scripts read them."""

from datetime import UTC, datetime
from functools import lru_cache

_SECOND = 1_000_000_000


def rfc3339(time_ns: int) -> str:
    """A moment as ``2031-05-04T09:08:07.000123Z``: microseconds, UTC; `time_ns` counts from 1970."""
    seconds, part = divmod(time_ns, _SECOND)
    return f"{_to_the_second(seconds)}.{part // 1000:06d}Z"


@lru_cache(maxsize=64)
def _to_the_second(seconds: int) -> str:
    # Many rows end in one second, and the calendar costs as much as a third of a row.
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S")


def rfc3339_or_null(time_ns: int | None) -> str | None:
    """As `rfc3339`, and null for a moment that has not come."""
    return None if time_ns is None else rfc3339(time_ns)


def in_seconds(duration_ns: int) -> float:
    """A duration in seconds, to the millisecond."""
    return (duration_ns // 1_000_000) / 1000
