"""When things happened: Hermit writes local time without a zone; its commits say which that was. Pure."""

import re
from datetime import UTC, datetime, timedelta, timezone

_ZONE = re.compile(rb"^author .* (-?[0-9]+) ([+-])([0-9]{2})([0-9]{2})$", re.MULTILINE)
_NS = 10**9


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
    except ValueError:
        return None
    at = found if found.tzinfo is not None else found.replace(tzinfo=zone)
    return round(at.timestamp()) * _NS


def span_ns(seconds: float | None) -> int:
    """A length of time; none is below 0."""
    return max(round((seconds or 0.0) * _NS), 0)
