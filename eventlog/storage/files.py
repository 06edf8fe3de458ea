"""How view files are written: replaced whole, or appended to.

Views can always be rebuilt from the log, so nothing here is the truth and durability is the exception.
"""

import contextlib
import os
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import Self

from .filesystem import FileSystem, RealFileSystem

_TEMPORARY_SUFFIX = ".partial"


def replace_file(
    path: Path, chunks: Iterable[bytes], *, durable: bool = False, filesystem: FileSystem | None = None
) -> None:
    """Write `chunks` to a temporary file beside `path`, mode 0600, and rename it over `path`.

    A reader, and a process that crashes at any moment, sees the old content or the new, never a mixture. On
    an error (of the disk or of the iterable) `path` is untouched, the temporary file is removed and the error
    raised.

    Accepted trade-offs:

    - A killed process may leave `<name>.<pid>.partial` behind; a later process with that pid reuses it.
    - Not durable unless asked: after a power loss `path` may be old, new or (on some filesystems) empty. A
      view lost so is rebuilt from the log. With `durable` the content is synced before the rename and the
      directory after it, which costs two syncs; an error of that last sync leaves the new content in place.
    - The file gets a new inode: hard links and open descriptors keep the old content; its mode is 0600 again.
    - `path` must not be a symbolic link that should stay one: the link itself is replaced.
    - The disk needs room for old and new at once.
    """
    disk = filesystem or RealFileSystem()
    temporary = str(path.with_name(f"{path.name}.{os.getpid()}{_TEMPORARY_SUFFIX}"))
    try:
        _write_new(disk, temporary, chunks, durable=durable)
        disk.rename(temporary, str(path))
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            disk.unlink(temporary)
        raise
    if durable:
        disk.sync_directory(str(path.parent))


def _write_new(disk: FileSystem, name: str, chunks: Iterable[bytes], *, durable: bool) -> None:
    fd = disk.open(name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        offset = 0
        for chunk in chunks:
            offset = _write_all(disk, fd, chunk, offset)
        if durable:
            disk.fsync(fd)
    finally:
        disk.close(fd)


def _write_all(disk: FileSystem, fd: int, data: bytes, offset: int) -> int:
    rest = memoryview(data)
    while rest:
        taken = disk.pwrite(fd, rest, offset)
        rest = rest[taken:]
        offset += taken
    return offset


class AppendFile:
    """A view file that only grows: bytes go to its end. Mode 0600 when it makes the file.

    It knows its path and its size and nothing of the content; opening an existing file continues at its end.
    There is one writer at a time. Nothing is synced: after a power loss the end may be missing or garbage,
    and whoever owns the view compares it with the log (`truncate` cuts it back to what is right). A write
    that fails is cut off again where that is possible, so that the file keeps whole appends only.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._disk = RealFileSystem()
        self._fd = self._disk.open(str(path), os.O_RDWR | os.O_CREAT, 0o600)
        self.size_bytes = self._disk.size(self._fd)

    def append(self, data: bytes) -> None:
        """Add `data` to the end; on return it is the kernel's, so that a crash of this process keeps it."""
        try:
            self.size_bytes = _write_all(self._disk, self._fd, data, self.size_bytes)
        except OSError:
            with contextlib.suppress(OSError):
                self._disk.truncate(self._fd, self.size_bytes)
            raise

    def truncate(self, size_bytes: int) -> None:
        """Cut the file to its first `size_bytes` bytes."""
        self._disk.truncate(self._fd, size_bytes)
        self.size_bytes = size_bytes

    def close(self) -> None:
        """Close the file; idempotent."""
        if self._fd >= 0:
            self._disk.close(self._fd)
            self._fd = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
