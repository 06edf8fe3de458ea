"""Runs to archive: a told one in two sessions, and one that is large and says nothing."""

import random
from pathlib import Path

from eventlog.storage import LogWriter
from tests.cli.story import crashed, finished, tell

SEEN = len(crashed())


def first_half(run: Path) -> Path:
    """A session that crashed: one segment."""
    return tell(run, finished()[:SEEN])


def second_half(run: Path) -> Path:
    """What another session did then: a second segment."""
    return tell(run, finished()[SEEN:])


def large(run: Path, sizes: list[int], seed: int = 7) -> Path:
    """A log of events of these sizes that no compression makes smaller; each session has a segment."""
    chance = random.Random(seed)
    for size in sizes:
        log = LogWriter.open(
            run / "log",
            clock_ns=lambda: 1_795_953_600_000_000_000,
            random_bytes=lambda n: bytes(range(n)),
            first_segment_bytes=size + (1 << 20),
        )
        with log:
            for at in range(0, size, 1 << 20):
                log.append([chance.randbytes(min(1 << 20, size - at))])
    return run


def segments(run: Path) -> list[Path]:
    """The files of the segments, in order."""
    return sorted((run / "log").glob("*.ev?"))


def damage(path: Path, offset: int) -> None:
    """Turn one bit of a file."""
    data = bytearray(path.read_bytes())
    data[offset] ^= 1
    path.write_bytes(data)
