"""One simulated machine: its disk, the history of what was done to it, its locks, how paths are followed."""

import errno
import functools
import os
import threading

from .disk import ROOT, SECTOR_BYTES, Disk
from .operations import Create, Operation
from .space import growth_bytes, in_sectors, room_bytes

_FIRST_DESCRIPTOR = 1000  # far from real ones, so that a mix-up of the two is seen at once


class Machine:
    """What the processes of one simulated machine share.

    `lock_owners` maps an inode to the descriptor that holds its flock, `opened` every open descriptor to its
    inode. Whoever calls holds `mutex`.
    """

    def __init__(self, disk: Disk) -> None:
        self.disk = disk
        self.start = disk.clone()
        self.history: list[Operation] = []
        self.lock_owners: dict[int, int] = {}
        self.opened: dict[int, int] = {}
        self.mutex = threading.RLock()
        self._next_descriptor = _FIRST_DESCRIPTOR

    def act(self, operation: Operation) -> None:
        """Change the disk and put that into the history."""
        operation.apply(self.disk)
        self.history.append(operation)

    def room_bytes(self) -> float:
        """How much more fits on the disk."""
        return room_bytes(self.disk, self.opened.values())

    def need_room(self, size_bytes: int, path: str) -> None:
        """Raise ENOSPC unless so much more fits."""
        if size_bytes > 0 and size_bytes > self.room_bytes():
            raise disk_error(errno.ENOSPC, path)

    def fitting_bytes(self, inode: int, offset: int, length: int, path: str) -> int:
        """How many bytes of a write fit: all, or fewer; ENOSPC if it would be none."""
        missing = growth_bytes(self.disk, inode, offset + length) - max(0, self.room_bytes())
        if missing <= 0:
            return length
        end = in_sectors(offset + length) - int(missing)
        if end <= offset:
            raise disk_error(errno.ENOSPC, path)
        return end - offset

    def take_descriptor(self, inode: int) -> int:
        """Return a descriptor, open on this file, that no process of this machine ever had."""
        self._next_descriptor += 1
        self.opened[self._next_descriptor] = inode
        return self._next_descriptor

    def open_inode(self, path: str, flags: int) -> int:
        """Return the file a path means, made now if the flags of os.open ask for it."""
        if flags & os.O_APPEND:
            # With it pwrite ignores its offset, so the log must never ask for it.
            raise disk_error(errno.EINVAL, path)
        parent, name = self.parent(path)
        disk = self.disk
        inode = disk.entries[parent].get(name)
        if inode is None:
            if not flags & os.O_CREAT:
                raise disk_error(errno.ENOENT, path)
            self.need_room(SECTOR_BYTES, path)
            self.act(Create(parent, name, directory=False))
            return disk.entries[parent][name]
        if flags & os.O_CREAT and flags & os.O_EXCL:
            raise disk_error(errno.EEXIST, path)
        if inode in disk.entries:
            raise disk_error(errno.EISDIR, path)
        return inode

    def parent(self, path: str) -> tuple[int, str]:
        """Return the inode of the directory a path lies in, and the last name of the path."""
        parts = _parts(path)
        if not parts:
            return ROOT, ""
        return self.directory("/".join(parts[:-1])), parts[-1]

    def directory(self, path: str) -> int:
        """Return the inode of the directory a path means."""
        inode = self.resolve(path)
        if inode not in self.disk.entries:
            raise disk_error(errno.ENOTDIR, path)
        return inode

    def resolve(self, path: str) -> int:
        """Return the inode a path means; relative paths start at the root."""
        inode = ROOT
        for name in _parts(path):
            names = self.disk.entries.get(inode)
            if names is None:
                raise disk_error(errno.ENOTDIR, path)
            if name not in names:
                raise disk_error(errno.ENOENT, path)
            inode = names[name]
        return inode


@functools.lru_cache(maxsize=1024)
def _parts(path: str) -> tuple[str, ...]:
    return tuple(part for part in path.split("/") if part not in ("", "."))


def disk_error(number: int, path: str) -> OSError:
    """Return the error that the operating system would raise."""
    return OSError(number, os.strerror(number), path)
