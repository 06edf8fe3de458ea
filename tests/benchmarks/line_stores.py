"""Stores that are wrong on purpose, to show that the fault table says so: JSON lines with fsync."""

import json
import os
import signal
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from zlib import crc32

from benchmarks._stores import Append, Extent, Sizes, Store

FILE = "log.jsonl"


class StopsAtFirstBadLine(Store):
    """Reads up to the first bad line and says nothing: right after a crash, silent after damage."""

    name = "stops"
    family = "lines"

    def version(self) -> str:
        """There is one."""
        return "lines 1"

    def appender(self, directory: Path) -> Append:
        """A line each."""
        directory.mkdir()
        file = (directory / FILE).open("ab", buffering=0)

        def append(number: int, payload: bytes) -> None:
            file.write(json.dumps([number, payload.decode(), crc32(payload)]).encode() + b"\n")
            os.fsync(file.fileno())

        return append

    def extents(self, directory: Path, payloads: Sequence[bytes], sizes: Sizes) -> list[Extent]:
        """A line each."""
        ends = [size[FILE] for size in sizes]
        return [
            Extent(FILE, ends[number - 1], ends[number], ends[number])
            for number in range(1, len(payloads) + 1)
        ]

    def read(self, directory: Path) -> list[tuple[int, bytes]]:
        """The lines up to the first bad one."""
        found = []
        for line in (directory / FILE).read_bytes().splitlines(keepends=True):
            record = parse(line)
            if record is None:
                self.meet_bad_line()
                break
            found.append(record)
        return found

    def meet_bad_line(self) -> None:
        """Nothing: that is what is wrong."""


class RefusesAnyBadLine(StopsAtFirstBadLine):
    """Refuses whatever is not whole, so also what a crash may leave."""

    name = "refuses"

    def meet_bad_line(self) -> None:
        """Say so."""
        raise ValueError("a bad line")


class DiesOfABadLine(StopsAtFirstBadLine):
    """The process dies."""

    name = "dies"

    def meet_bad_line(self) -> None:
        """As a store that reads through a map of the file may."""
        os.kill(os.getpid(), signal.SIGSEGV)


class BelievesEverything(StopsAtFirstBadLine):
    """Gives altered records back as if they were right."""

    name = "believes"

    def read(self, directory: Path) -> list[tuple[int, bytes]]:
        """Every line that is JSON."""
        found = []
        for line in (directory / FILE).read_bytes().splitlines():
            with suppress(ValueError):
                number, text, _ = json.loads(line)
                found.append((number, text.encode()))
        return found


def parse(line: bytes) -> tuple[int, bytes] | None:
    """The record of a whole line."""
    try:
        number, text, checksum = json.loads(line)
        payload = text.encode()
    except (ValueError, TypeError, AttributeError):
        return None
    return (number, payload) if line.endswith(b"\n") and crc32(payload) == checksum else None
