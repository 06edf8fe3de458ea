"""When things happened: Hermit writes local time without a zone; its commits say which that was. Pure."""

import re
from datetime import UTC, datetime, timedelta, timezone

_ZONE = re.compile(rb"^author .* (-?[0-9]+) ([+-])([0-9]{2})([0-9]{2})$", re.MULTILINE)
_NS = 10**9
_LONGEST_S = 10**9


def zone_of(commit: bytes) -> timezone:
    """The zone in which a commit was made."""
    match = _ZONE.search(commit.partition(b"\n\n")[0])
    if match is None:
        return UTC
    offset = timedelta(hours=int(match[3]), minutes=int(match[4]))
    return timezone(-offset if match[2] == b"-" else offset)


def moment_ns(text: str, zone: timezone) -> int | None:
    """A local time as nanoseconds since the epoch; null where it is none."""
    try:
        found = datetime.fromisoformat(text)
        at = found if found.tzinfo is not None else found.replace(tzinfo=zone)
        return max(round(at.timestamp()), 0) * _NS
    except (ValueError, OverflowError):
        return None


def span_ns(seconds: float | None) -> int:
    """A length of time; none is below 0, and what is no time is none."""
    known = seconds is not None and 0 <= seconds < _LONGEST_S
    return round(seconds * _NS) if known and seconds is not None else 0
