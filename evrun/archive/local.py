"""The files of a log as they are sent: what is durable of them, piece by piece, with their digests."""

import hashlib
import os
from collections.abc import Iterator
from pathlib import Path

from eventlog.errors import LogUnreadable, Problem
from eventlog.storage import DurableFile, DurableLog, RealFileSystem

from .manifest import Entry
from .stores import PIECE_BYTES, naming

HEAD = "HEAD"


class LocalFile:
    """One file of the log; HEAD is made anew, so that it promises what is sent and no more.

    Raises (everywhere):
        FileNotFoundError: the file has gone: a writer has compressed it.
        LogUnreadable: it is shorter than it was.
    """

    def __init__(self, directory: Path, file: DurableFile, content: bytes | None = None) -> None:
        self._path = directory / file.name
        self._file = file
        self._content = content

    def entry(self) -> Entry:
        """What the manifest says of it."""
        digest = hashlib.sha256()
        for piece in self.pieces():
            digest.update(piece)
        return Entry(
            name=self._file.name,
            bytes=self._file.used_bytes,
            file_bytes=self._file.file_bytes,
            sha256=digest.hexdigest(),
        )

    def pieces(self) -> Iterator[bytes]:
        """Its bytes."""
        if self._content is not None:
            yield self._content
            return
        disk = RealFileSystem()
        fd = disk.open(str(self._path), os.O_RDONLY)
        try:
            offset = 0
            while offset < self._file.used_bytes:
                with naming(self._path):
                    piece = disk.pread(fd, min(PIECE_BYTES, self._file.used_bytes - offset), offset)
                if not piece:
                    raise _cut(self._file.name, offset)
                yield piece
                offset += len(piece)
        finally:
            disk.close(fd)


def local_files(directory: Path, log: DurableLog) -> list[LocalFile]:
    """All files of a log, HEAD last."""
    head = DurableFile(HEAD, len(log.head), len(log.head))
    return [*(LocalFile(directory, file) for file in log.files), LocalFile(directory, head, log.head)]


def digest_of(pieces: Iterator[bytes]) -> tuple[str, int]:
    """The SHA-256 of bytes, and how many they are."""
    digest, size = hashlib.sha256(), 0
    for piece in pieces:
        digest.update(piece)
        size += len(piece)
    return digest.hexdigest(), size


def _cut(name: str, offset: int) -> LogUnreadable:
    what = f"{name} ends at byte {offset}, before what was durable in it a moment ago"
    return LogUnreadable(f"{what}. Nothing was changed; verify the log.", Problem(name, offset, 0, 0, what))
