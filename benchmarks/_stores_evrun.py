"""evrun in the fault table: with HEAD as it was left, and without."""

import os
import time
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path

from benchmarks._stores import Append, Extent, Sizes, Store, find_once
from eventlog.storage import LogWriter, verify

FRAME_HEADER_BYTES = 104
SECTOR_BYTES = 512


class Evrun(Store):
    """The writer was killed after the last acknowledgement; HEAD is what it wrote by then."""

    name = "evrun"
    family = "evrun"
    beside = ("HEAD", "LOCK")

    def version(self) -> str:
        """The installed version."""
        return f"evrun {version('evrun')}"

    def appender(self, directory: Path) -> Append:
        """One commit with one event each."""
        writer = _open(directory)

        def append(number: int, payload: bytes) -> None:
            if writer.append([payload]) != number:
                raise RuntimeError(f"event {number} has another number")

        return append

    def extents(self, directory: Path, payloads: Sequence[bytes], sizes: Sizes) -> list[Extent]:
        """A frame each: header, body, zeros up to the next sector."""
        del sizes
        [segment] = directory.glob("*.evl")
        data = segment.read_bytes()
        found = []
        for number, payload in enumerate(payloads, 1):
            start = find_once(data, payload, f"event {number}") - FRAME_HEADER_BYTES
            end = -(-(start + FRAME_HEADER_BYTES + len(payload)) // SECTOR_BYTES) * SECTOR_BYTES
            found.append(Extent(segment.name, start, end, end))
        return found

    def read(self, directory: Path) -> list[tuple[int, bytes]]:
        """A writer opens the log, and its reader reads it."""
        with _open(directory) as writer:
            return [(record.sequence, record.payload) for record in writer.reader().read()]

    def check(self, directory: Path) -> str:
        """`evrun verify` by its function; clean and torn are both whole logs."""
        verdict = verify(directory)
        return "ok" if verdict.opens else verdict.kind


class EvrunWithoutHead(Evrun):
    """The same files, and HEAD is gone: only the segment itself can promise anything."""

    name = "evrun, HEAD lost"

    def prepare(self, directory: Path) -> None:
        """Lose HEAD."""
        (directory / "HEAD").unlink()


def _open(directory: Path) -> LogWriter:
    return LogWriter.open(directory, clock_ns=time.time_ns, random_bytes=os.urandom)
