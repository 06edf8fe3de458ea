"""One writer a log: the lock, what it says for people, and the fence.

LOCK is never unlinked by us. If somebody else does, a second writer can get in; then the first one finds,
before it acknowledges anything, that the name LOCK no longer leads to the file that it holds, and stops for
good.
"""

import json
import os
import threading
import weakref
from collections.abc import Mapping

from ..errors import LogLocked
from .filesystem import FileSystem
from .format import LOCK_NAME

_TEXT_BYTES = 4096
_TRIES = 8

# Held while a lock is being taken, so that a fork never copies a descriptor that nobody has noted yet.
_taking = threading.RLock()
_held: "weakref.WeakSet[Lock]" = weakref.WeakSet()


class Lock:
    """The lock of one log, held. `fd` is its descriptor, None once released."""

    def __init__(self, filesystem: FileSystem, path: str, fd: int) -> None:
        self._filesystem = filesystem
        self._path = path
        self._identity = filesystem.identity(fd)
        self.fd: int | None = fd

    def is_ours(self) -> bool:
        """Whether the name LOCK still leads to the file whose lock is held."""
        return self.fd is not None and self._filesystem.identity(self._path) == self._identity

    def write(self, holder: Mapping[str, str]) -> None:
        """Say for people who holds the log. Nothing ever depends on this text."""
        assert self.fd is not None
        text = json.dumps(dict(holder), indent=1, ensure_ascii=True).encode() + b"\n"
        self._filesystem.truncate(self.fd, 0)
        self._filesystem.pwrite(self.fd, text[:_TEXT_BYTES], 0)

    def release(self) -> None:
        """Give the lock back. What LOCK says stays; nobody believes it while the lock is free."""
        if self.fd is not None:
            fd, self.fd = self.fd, None
            self._filesystem.close(fd)


def take_lock(filesystem: FileSystem, directory: str) -> Lock:
    """Take the lock of the log, at once or not at all.

    Raises:
        LogLocked: another process, or another handle of this one, holds it.
    """
    with _taking:
        lock = _take_lock(filesystem, directory)
        _held.add(lock)
        return lock


def _take_lock(filesystem: FileSystem, directory: str) -> Lock:
    path = f"{directory}/{LOCK_NAME}"
    for _ in range(_TRIES):
        fd = filesystem.open(path, os.O_RDWR | os.O_CREAT)
        try:
            taken = filesystem.try_lock(fd)
            holder = {} if taken else _read(filesystem, fd)
            if taken and filesystem.identity(path) == filesystem.identity(fd):
                lock = Lock(filesystem, path, fd)
                fd = -1
                return lock
        finally:
            if fd >= 0:
                filesystem.close(fd)
        if not taken:
            raise LogLocked(_locked_message(directory, holder), holder)
        # The file was replaced between opening and locking it: what was locked is not LOCK any more. Once
        # more.
    raise LogLocked(f"The file {path} is replaced again and again; find out by whom.", {})


def read_holder(filesystem: FileSystem, directory: str) -> dict[str, str] | None:
    """What the holder of the lock says about itself; None when the lock is free."""
    try:
        fd = filesystem.open(f"{directory}/{LOCK_NAME}", os.O_RDONLY)
    except FileNotFoundError:
        return None
    try:
        return _read(filesystem, fd) if filesystem.lock_is_held(fd) else None
    finally:
        filesystem.close(fd)


def _read(filesystem: FileSystem, fd: int) -> dict[str, str]:
    try:
        found = json.loads(filesystem.pread(fd, _TEXT_BYTES, 0))
    except (OSError, ValueError):
        return {}  # just being written, or written by somebody else: it is only for people
    return {str(key): str(value) for key, value in found.items()} if isinstance(found, dict) else {}


def _locked_message(directory: str, holder: Mapping[str, str]) -> str:
    said = ", ".join(f"{key} {value}" for key, value in holder.items())
    return (
        f"Another process holds the log {directory} ({said or 'it does not say which'}). "
        "Only one may write it: wait for it to end, or stop it; reading is possible meanwhile."
    )


def _release_in_child() -> None:
    """A copy of the descriptor in the child of a fork would hold the lock after its parent has died."""
    for lock in list(_held):
        lock.release()
    _taking.release()


os.register_at_fork(before=_taking.acquire, after_in_parent=_taking.release, after_in_child=_release_in_child)
