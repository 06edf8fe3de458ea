"""JSON files that people read: indented, the same value the same bytes."""

import msgspec

from .jsontext import json_bytes
from .money import usd


def document(value: object) -> bytes:
    """The value as an indented JSON file, ending in a newline."""
    return msgspec.json.format(json_bytes(value), indent=2) + b"\n"


def usd_or_null(nano: int | None) -> str | None:
    """An amount as an exact decimal string in USD; null where it is not known."""
    return None if nano is None else usd(nano)


def seconds_of_ms(milliseconds: int) -> float:
    """A duration in seconds."""
    return milliseconds / 1000
