"""Reading a file that may be damaged: what the disk does not give reads as zeros, and is remembered.

Zeros are never taken for data on trust: a frame that holds them counts only if its checksums, or its chain
value, say that zeros are what was written there.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from ..errors import LogUnreadable
from .filesystem import FileSystem
from .format import BLOCK_BYTES, SECTOR_BYTES
from .source import Source


class Unread(NamedTuple):
    """Bytes that could not be had, and why."""

    offset_bytes: int
    why: str


class TolerantSource(Source):
    """An open file whose unreadable sectors read as zeros. `unread` tells where the first of them lies."""

    def __init__(self, filesystem: FileSystem, fd: int, name: str) -> None:
        self._first: Unread | None = None
        self._last: Unread | None = None
        super().__init__(filesystem, fd, name)

    def unread(self, offset: int) -> Unread | None:
        """The first unreadable sector if it lies behind `offset`, else the last if that does."""
        for found in (self._first, self._last):
            if found is not None and found.offset_bytes >= offset:
                return found
        return None

    def _fetch(self, offset: int, length: int) -> bytes:
        """All at once if the disk gives it; else around what it does not give, down to single sectors."""
        try:
            return super()._fetch(offset, length)
        except LogUnreadable as error:
            if length <= SECTOR_BYTES:
                self._note(offset, error)
                return bytes(length)
        step = BLOCK_BYTES if length > BLOCK_BYTES else SECTOR_BYTES
        ends = [*range(offset - offset % step + step, offset + length, step), offset + length]
        starts = [offset, *ends[:-1]]
        return b"".join(self._fetch(low, high - low) for low, high in zip(starts, ends, strict=True))

    def _note(self, offset: int, error: LogUnreadable) -> None:
        assert error.problem is not None
        found = Unread(offset, error.problem.what)
        self._first = self._first or found
        if self._last is None or offset > self._last.offset_bytes:
            self._last = found


@contextmanager
def open_tolerant(filesystem: FileSystem, directory: str, name: str) -> Iterator[TolerantSource]:
    """Open a file of a damaged log for reading, and close it at the end.

    Raises:
        OSError, LogUnreadable: it cannot even be opened.
    """
    fd = filesystem.open(f"{directory}/{name}", os.O_RDONLY)
    try:
        yield TolerantSource(filesystem, fd, name)
    finally:
        filesystem.close(fd)
