"""How far a run's spans have been sent. Losing this file costs nothing but sending the same spans again."""

from pathlib import Path

import msgspec

from eventlog.storage import replace_file

NAME = "otel.json"


class Cursor(msgspec.Struct, frozen=True):
    """`collector` has all spans that ended up to event `sequence`."""

    collector: str
    sequence: int


def read_cursor(directory: Path, collector: str) -> int:
    """The sequence up to which this collector has a run's spans; 0 where it has none, or nobody knows."""
    try:
        cursor = msgspec.json.decode((directory / NAME).read_bytes(), type=Cursor)
    except (OSError, msgspec.DecodeError):
        return 0
    return cursor.sequence if cursor.collector == collector else 0


def write_cursor(directory: Path, collector: str, sequence: int) -> None:
    """Note how far it is. Errors as `replace_file`."""
    replace_file(directory / NAME, [msgspec.json.encode(Cursor(collector, sequence)) + b"\n"])
