"""Reading a file through the seam, so that an error or a short read is never taken for the end of the log."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

from ..errors import LogUnreadable, Problem
from .filesystem import FileSystem
from .format import FIRST_READ_BYTES, LARGEST_READ_BYTES


class Source:
    """An open file, read forward through one window that grows from 64 KiB to 1 MiB.

    `size_bytes` is what the file measured when it was opened; bytes behind it are not there for this source.
    """

    def __init__(
        self, filesystem: FileSystem, fd: int, name: str, *, read_bytes: int = FIRST_READ_BYTES
    ) -> None:
        self.name = name
        self._filesystem = filesystem
        self._fd = fd
        self._window = b""
        self._window_at = 0
        self._read_bytes = read_bytes
        try:
            self.size_bytes = filesystem.size(fd)
        except OSError as error:
            raise unreadable(name, 0, error) from error

    def window(self, offset: int, length: int) -> tuple[bytes, int]:
        """A buffer, and the index in it of the `length` bytes at `offset` (fewer at the end of the file)."""
        at = offset - self._window_at
        if at < 0 or at + length > len(self._window):
            wanted = max(length, self._read_bytes)
            self._window = self._fetch(offset, min(wanted, max(0, self.size_bytes - offset)))
            self._window_at = offset
            self._read_bytes = min(2 * self._read_bytes, LARGEST_READ_BYTES)
            at = 0
        return self._window, at

    def read(self, offset: int, length: int) -> bytes:
        """The bytes at `offset`; fewer only at the end of the file."""
        buffer, at = self.window(offset, length)
        return buffer[at : at + length]

    def pieces(self, offset: int, stop: int) -> Iterator[tuple[int, bytes]]:
        """The file from `offset` to `stop` or its end, in pieces of at most 1 MiB, each with its place."""
        stop = min(stop, self.size_bytes)
        while offset < stop:
            piece = self._fetch(offset, min(LARGEST_READ_BYTES, stop - offset))
            yield offset, piece
            offset += len(piece)

    def _fetch(self, offset: int, length: int) -> bytes:
        parts: list[bytes] = []
        have = 0
        try:
            while have < length:
                part = self._filesystem.pread(self._fd, length - have, offset + have)
                if not part:
                    break
                parts.append(part)
                have += len(part)
        except OSError as error:
            raise unreadable(self.name, offset + have, error) from error
        if have < length:
            raise unreadable(self.name, offset + have, None)
        return parts[0] if len(parts) == 1 else b"".join(parts)


@contextmanager
def open_source(filesystem: FileSystem, directory: str, name: str) -> Iterator[Source]:
    """Open a file of the log for reading, and close it at the end.

    Raises:
        FileNotFoundError: the name has gone.
        LogUnreadable: any other error.
    """
    try:
        fd = filesystem.open(f"{directory}/{name}", os.O_RDONLY)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise unreadable(name, 0, error) from error
    try:
        yield Source(filesystem, fd, name)
    finally:
        filesystem.close(fd)


def unreadable(name: str, offset: int, error: OSError | None) -> LogUnreadable:
    """The refusal after a failed read."""
    why = f"{error.strerror or error} (errno {error.errno})" if error else "the file ended before its size"
    what = f"reading {name} at byte {offset} failed: {why}"
    return LogUnreadable(
        f"{what[0].upper()}{what[1:]}. Nothing can be said about the log and nothing was changed. "
        "Check the disk and the permissions, then try again; work on a copy if the error stays.",
        Problem(name, offset, 0, 0, what),
    )
