"""Writing HEAD: after each sync of a frame, into the slot that does not hold the newest evidence."""

import os
from collections.abc import Callable

from .appender import write_fully
from .filesystem import FileSystem
from .format import HEAD_BYTES, HEAD_NAME, HEAD_SLOTS
from .head import Head, pack_slot


class HeadFile:
    """HEAD, for the one who writes it. Nothing here is synced but by `sync` and `finish`."""

    def __init__(self, filesystem: FileSystem, directory: str, newest_slot: int) -> None:
        self.fd: int | None = None
        self.unsynced = False
        self._filesystem = filesystem
        self._path = f"{directory}/{HEAD_NAME}"
        self._slot = newest_slot

    def prepare(self) -> None:
        """Open HEAD, before the first segment's directory sync makes its name durable too."""
        if self.fd is None:
            self.fd = self._filesystem.open(self._path, os.O_RDWR | os.O_CREAT)
            if self._filesystem.size(self.fd) < HEAD_BYTES:
                self._filesystem.allocate(self.fd, HEAD_BYTES)  # so that no note ever finds the disk full

    def write(self, head: Head) -> None:
        """Note a position that is durable."""
        assert self.fd is not None
        self._slot = 1 - self._slot
        write_fully(self._filesystem, self.fd, pack_slot(head), HEAD_SLOTS[self._slot])
        self.unsynced = True

    def sync(self) -> None:
        """Make the evidence itself durable."""
        assert self.fd is not None
        self._filesystem.fsync(self.fd)
        self.unsynced = False

    def finish(self, head: Head, timed: Callable[[Callable[[], None]], None]) -> None:
        """Leave the last position in both slots, so that damage to one of them forgets nothing."""
        self.prepare()
        for _ in HEAD_SLOTS:
            self.write(head)
            timed(self.sync)

    def close(self) -> None:
        """Close the descriptor."""
        if self.fd is not None:
            fd, self.fd = self.fd, None
            self._filesystem.close(fd)
