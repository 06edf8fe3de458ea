"""A point in a log, as people type it: a sequence number, or a moment."""

import re
from datetime import UTC, datetime, timedelta

from eventlog.storage import LogReader
from evrun.errors import UsageFault
from projections import sequence_at

NS_PER_MS = 1_000_000
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MOMENT = re.compile(r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d(:\d\d(\.\d+)?)?([Zz]|[+-]\d\d:\d\d)")


def sequence_of(text: str, reader: LogReader, option: str) -> int:
    """The sequence that a point stands for: itself, or the last event shown with that moment or before.

    Raises:
        UsageFault: it is neither, or the log does not reach that far.
    """
    end = reader.end.sequence
    if not text.isascii() or not text.isdigit():
        return sequence_at(reader, moment_ns(text, option))
    if int(text) > end:
        raise UsageFault(f"{option} {text}: the log ends at event {end}")
    return int(text)


def moment_ns(text: str, option: str) -> int:
    """The last nanosecond of the millisecond that an RFC 3339 moment names, because times are shown so.

    Raises:
        UsageFault: it is no such moment; a moment without a zone is none, since nobody could say when it was.
    """
    since = _since_epoch(text) if MOMENT.fullmatch(text) else None
    if since is None:
        raise UsageFault(
            f"{option} {text}: expected a sequence number, or a moment such as 2026-11-29T17:05:00Z"
        )
    return since // timedelta(milliseconds=1) * NS_PER_MS + NS_PER_MS - 1


def _since_epoch(text: str) -> timedelta | None:
    try:
        return datetime.fromisoformat(text.upper()) - EPOCH
    except (ValueError, OverflowError):
        return None  # the 31st of a short month, for instance
