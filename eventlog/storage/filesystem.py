"""The seam to the disk: the few calls the log makes, and the only place that makes them durable.

No other module of the project calls fsync, fdatasync or rename. Behind the seam stands either
`RealFileSystem` or, in tests, a twin in memory that forgets what was not synced.
"""

import errno
import fcntl
import os
import time
from typing import Protocol

# What allocate() treats as "this filesystem cannot, or has no room", not as an error of the disk.
# EBADF is glibc's answer when it would emulate the call on a descriptor that it cannot read back.
_CANNOT_ALLOCATE = frozenset(
    {errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.ENOSYS, errno.EBADF}
)
_STAT_BLOCK_BYTES = 512  # the unit of st_blocks, whatever the filesystem's own block is
_LOCK_TRIES = 3  # a probe by lock_is_held() holds the lock for some microseconds
_LOCK_RETRY_S = 0.001


class FileSystem(Protocol):
    """What the log needs from a disk.

    Paths are str, descriptors are small ints, and every error is an OSError with its errno. Offsets, lengths
    and sizes are bytes. Nothing here retries, buffers or remembers: one call is one act on the disk.
    """

    def open(self, path: str, flags: int, mode: int = 0o600) -> int:
        """Open with the flags of os.open and return a descriptor that child programs do not inherit."""

    def close(self, fd: int) -> None:
        """Give the descriptor up, and with it the lock it may hold."""

    def pread(self, fd: int, length: int, offset: int) -> bytes:
        """Read at most `length` bytes; fewer is legal anywhere, none means the end of the file."""

    def pwrite(self, fd: int, data: bytes | memoryview, offset: int) -> int:
        """Write at `offset` and return how many bytes were taken, which may be fewer than given."""

    def fdatasync(self, fd: int) -> None:
        """Return once the content, and the size needed to read it, survive a power loss."""

    def fsync(self, fd: int) -> None:
        """Return once the content and all metadata of the file (not its name) survive a power loss."""

    def allocate(self, fd: int, size_bytes: int) -> bool:
        """Reserve real space, reading as zeros, up to `size_bytes`; the file grows to that size.

        Content already there stays. False when the filesystem cannot or has no room: then the size is as it
        was.
        """

    def truncate(self, fd: int, size_bytes: int) -> None:
        """Set the size; what is added reads as zeros but has no space reserved."""

    def size(self, fd: int) -> int:
        """Return the size of the file in bytes."""

    def identity(self, target: int | str) -> tuple[int, int] | None:
        """Return (device, inode) of a descriptor or path; None when the path does not exist."""

    def rename(self, source: str, target: str) -> None:
        """Give `source` the name `target`, replacing atomically what has that name."""

    def unlink(self, path: str) -> None:
        """Remove a name; open descriptors go on working."""

    def names(self, directory: str) -> list[str]:
        """Return the names in a directory, sorted."""

    def make_directory(self, path: str) -> None:
        """Make one directory, mode 0700; FileExistsError if the name is taken."""

    def sync_directory(self, path: str) -> None:
        """Return once every name made, changed or removed in the directory survives a power loss."""

    def try_lock(self, fd: int) -> bool:
        """Take the exclusive lock (flock) of the open file without waiting; False if another holds it.

        The kernel gives it back when the last copy of the descriptor is closed, hence when the process dies.
        """

    def lock_is_held(self, fd: int) -> bool:
        """Tell whether another open of this file holds the lock. Never call it with the holder's own fd."""

    def drop_cache(self, fd: int) -> None:
        """Ask that the next read comes from the device, not from memory; best effort, never an error."""


class RealFileSystem:
    """The operating system's filesystem: POSIX calls, one for one.

    Where a system lacks a call, the stronger one stands in: fsync for fdatasync, F_FULLFSYNC for both on
    macOS (where fsync alone leaves data in the drive's own cache).
    """

    def open(self, path: str, flags: int, mode: int = 0o600) -> int:
        """See FileSystem."""
        return os.open(path, flags, mode)

    def close(self, fd: int) -> None:
        """See FileSystem."""
        os.close(fd)

    def pread(self, fd: int, length: int, offset: int) -> bytes:
        """See FileSystem."""
        return os.pread(fd, length, offset)

    def pwrite(self, fd: int, data: bytes | memoryview, offset: int) -> int:
        """See FileSystem."""
        return os.pwrite(fd, data, offset)

    def fdatasync(self, fd: int) -> None:
        """See FileSystem."""
        if hasattr(os, "fdatasync"):
            os.fdatasync(fd)
        else:
            self.fsync(fd)

    def fsync(self, fd: int) -> None:
        """See FileSystem."""
        full = getattr(fcntl, "F_FULLFSYNC", None)
        if full is None:
            os.fsync(fd)
            return
        try:
            fcntl.fcntl(fd, full)
        except OSError as error:
            if error.errno not in (errno.ENOTSUP, errno.EINVAL, errno.ENOTTY):
                raise  # a failed flush, which must never be followed by one that seems to work
            os.fsync(fd)

    def allocate(self, fd: int, size_bytes: int) -> bool:
        """See FileSystem.

        glibc emulates the call where the kernel refuses it, by touching every block; on a filesystem that
        compresses, that reserves nothing. So success is believed only if the blocks are really there. A
        failed call may have grown the file half the way, so the old size is put back.
        """
        before = os.fstat(fd).st_size
        if not hasattr(os, "posix_fallocate") or size_bytes <= 0:
            return False
        try:
            os.posix_fallocate(fd, 0, size_bytes)
        except OSError as error:
            os.ftruncate(fd, before)
            if error.errno in _CANNOT_ALLOCATE:
                return False
            raise
        after = os.fstat(fd)
        if after.st_size >= size_bytes and after.st_blocks * _STAT_BLOCK_BYTES >= size_bytes:
            return True
        os.ftruncate(fd, before)
        return False

    def truncate(self, fd: int, size_bytes: int) -> None:
        """See FileSystem."""
        os.ftruncate(fd, size_bytes)

    def size(self, fd: int) -> int:
        """See FileSystem."""
        return os.fstat(fd).st_size

    def identity(self, target: int | str) -> tuple[int, int] | None:
        """See FileSystem."""
        try:
            found = os.stat(target)  # noqa: PTH116 - a descriptor or a str at the seam
        except (FileNotFoundError, NotADirectoryError):
            return None
        return found.st_dev, found.st_ino

    def rename(self, source: str, target: str) -> None:
        """See FileSystem."""
        os.replace(source, target)  # noqa: PTH105 - paths are str at the seam

    def unlink(self, path: str) -> None:
        """See FileSystem."""
        os.unlink(path)  # noqa: PTH108 - paths are str at the seam

    def names(self, directory: str) -> list[str]:
        """See FileSystem."""
        return sorted(os.listdir(directory))  # noqa: PTH208 - paths are str at the seam

    def make_directory(self, path: str) -> None:
        """See FileSystem."""
        os.mkdir(path, 0o700)  # noqa: PTH102 - paths are str at the seam

    def sync_directory(self, path: str) -> None:
        """See FileSystem."""
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
        try:
            self.fsync(fd)
        finally:
            os.close(fd)

    def try_lock(self, fd: int) -> bool:
        """See FileSystem."""
        for tries_left in reversed(range(_LOCK_TRIES)):
            if _flock(fd, fcntl.LOCK_EX):
                return True
            if tries_left:
                time.sleep(_LOCK_RETRY_S)
        return False

    def lock_is_held(self, fd: int) -> bool:
        """See FileSystem.

        The probe is a shared lock given back at once, so that two probes never see each other.
        """
        if not _flock(fd, fcntl.LOCK_SH):
            return True
        fcntl.flock(fd, fcntl.LOCK_UN)
        return False

    def drop_cache(self, fd: int) -> None:
        """See FileSystem."""
        if not hasattr(os, "posix_fadvise"):
            return
        try:
            os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        except OSError:
            return  # only advice; a disk that fails will say so when it is read


def _flock(fd: int, kind: int) -> bool:
    try:
        fcntl.flock(fd, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
