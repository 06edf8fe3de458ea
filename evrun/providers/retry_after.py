"""How long an endpoint asks to wait, in all the ways in which endpoints say so. Pure."""

import json
import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

# 1m30s, 20ms, 1.5s, 2h
_DURATION = re.compile(r"(?:\d+(?:\.\d+)?(?:ms|us|h|m|s|d))+")
_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|us|h|m|s|d)")
_UNIT_MS = {"us": 0.001, "ms": 1.0, "s": 1000.0, "m": 60_000.0, "h": 3_600_000.0, "d": 86_400_000.0}
_WORDS = {
    "millisecond": "ms",
    "milliseconds": "ms",
    "second": "s",
    "seconds": "s",
    "secs": "s",
    "sec": "s",
    "minute": "m",
    "minutes": "m",
    "mins": "m",
    "min": "m",
    "hour": "h",
    "hours": "h",
    "day": "d",
    "days": "d",
}
# Of text in lower case: for both cases it would take as long to compile as many requests.
# "try again in 20s", "retry after 26 seconds", "Please wait 1.5 minutes", "retry in 6m0s"
_HINT = re.compile(
    r"(?:try again|retry|retrying|wait|available again|resets?)\s*(?:in|after|for|at least|about)?\s*:?\s*"
    r"((?:\d+(?:\.\d+)?\s*(?:milliseconds?|seconds?|secs?|minutes?|mins?|hours?|days?|ms|us|h|m|s|d)\b[\s,]*"
    r"(?:and\s+)?)+|(?:\d+(?:\.\d+)?(?:ms|h|m|s|d))+)",
)
_HINT_PART = re.compile(r"(\d+(?:\.\d+)?)\s*([a-z]+?)(?=[\d\s,]|$)")
_LARGEST_HINT_BODY = 64 * 1024
_EPOCH_S = 1e9
_EPOCH_MS = 1e12
_LONGEST_MS = 366 * 86_400_000.0


def parse_retry_after(headers: Mapping[str, str], body: bytes, now_ns: int) -> int | None:
    """The wait that a response asks for, in milliseconds; null where it asks for none.

    Looked at in this order, because the first ones are meant for this very request: ``retry-after-ms``,
    ``retry-after`` (seconds, a fraction, a duration, a date), fields and words in the body, and at last the
    ``x-ratelimit-reset…`` headers of limits that are used up. `headers` has its names in lower case. A moment
    that has passed is 0.
    """
    asked = explicit_wait(headers, body, now_ns)
    return asked if asked is not None else _from_limits(headers, now_ns)


def explicit_wait(headers: Mapping[str, str], body: bytes, now_ns: int) -> int | None:
    """The wait that a response asks for in so many words, without guessing from its rate limits."""
    if "retry-after-ms" in headers:
        wait = _number(headers["retry-after-ms"])
        if wait is not None:
            return _whole(wait)
    if "retry-after" in headers:
        wait = _moment_or_span(headers["retry-after"], now_ns)
        if wait is not None:
            return _whole(wait)
    return _from_body(body[:_LARGEST_HINT_BODY], now_ns)


def _from_body(body: bytes, now_ns: int) -> int | None:
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        value = None
    for name, field in _fields(value, 0):
        wait = _from_field(name, field, now_ns)
        if wait is not None:
            return _whole(wait)
    return _from_words(body.decode("utf-8", "replace"))


def _fields(value: Any, depth: int) -> Iterator[tuple[str, Any]]:
    """All fields of a JSON value, a few levels deep, as (name in lower case without marks, value)."""
    if depth > 6:  # noqa: PLR2004  # deeper than any error object
        return
    if isinstance(value, dict):
        for name, field in value.items():
            yield name.lower().replace("-", "").replace("_", ""), field
            yield from _fields(field, depth + 1)
    elif isinstance(value, list):
        for item in value:
            yield from _fields(item, depth + 1)


def _from_field(name: str, field: Any, now_ns: int) -> float | None:
    if isinstance(field, bool) or not isinstance(field, str | int | float):
        return None
    if name in {"retryafterms", "retrydelayms"}:
        return _number(str(field))
    if name in {"retryafter", "retrydelay", "retryafterseconds", "retryin"}:
        return _moment_or_span(str(field), now_ns)
    if name == "xratelimitreset":
        return _reset(str(field), now_ns)
    return None


def _from_words(text: str) -> int | None:
    found = _HINT.search(text.lower())
    if found is None:
        return None
    parts = _HINT_PART.findall(found.group(1).strip())
    units = [(float(number), _WORDS.get(unit, unit)) for number, unit in parts]
    if not units or any(unit not in _UNIT_MS for _, unit in units):
        return None
    return _whole(sum(number * _UNIT_MS[unit] for number, unit in units))


def _from_limits(headers: Mapping[str, str], now_ns: int) -> int | None:
    """The wait until all limits that are used up are renewed; where none says so, the shortest of all."""
    waits: dict[str, float] = {}
    spent: list[str] = []
    for name, value in headers.items():
        limit = _limit_of(name)
        wait = None if limit is None else _reset(value, now_ns)
        if limit is None or wait is None:
            continue
        waits[name] = wait
        if headers.get(name.replace("reset", "remaining"), "").strip() in {"0", "0.0"}:
            spent.append(name)
    if not waits:
        return None
    return _whole(max(waits[name] for name in spent) if spent else min(waits.values()))


def _limit_of(name: str) -> str | None:
    """What a header that tells a reset is about; null where it is none."""
    return name if "ratelimit" in name and "reset" in name else None


def _reset(text: str, now_ns: int) -> float | None:
    """Milliseconds to a reset given as a span, a number of seconds, a moment since the epoch, or a date."""
    number = _number(text)
    if number is None:
        return _moment_or_span(text, now_ns)
    if number >= _EPOCH_MS:
        return number - now_ns / 1e6
    if number >= _EPOCH_S:
        return number * 1000 - now_ns / 1e6
    return number * 1000


def _moment_or_span(text: str, now_ns: int) -> float | None:
    """Milliseconds of a number of seconds, of a span like 1m30s, or until an HTTP or ISO date."""
    text = text.strip()
    number = _number(text)
    if number is not None:
        return number * 1000
    if _DURATION.fullmatch(text):
        return sum(float(count) * _UNIT_MS[unit] for count, unit in _PART.findall(text))
    moment = _date(text)
    return None if moment is None else moment.timestamp() * 1000 - now_ns / 1e6


def _date(text: str) -> datetime | None:
    for read in (parsedate_to_datetime, datetime.fromisoformat):
        try:
            moment = read(text)
        except (ValueError, TypeError, IndexError, OverflowError):
            continue
        return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    return None


def _number(text: str) -> float | None:
    try:
        number = float(text.strip())
    except ValueError:
        return None
    return number if -_LONGEST_MS * 100 < number < _LONGEST_MS * 100 else None


def _whole(wait_ms: float) -> int:
    """Rounded up, so that nobody knocks too early; between now and a year from now."""
    bounded = min(max(wait_ms, 0.0), _LONGEST_MS)
    return int(bounded) + (bounded > int(bounded))
