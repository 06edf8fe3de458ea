"""A filesystem in memory that forgets: what a test needs to cut the power at every single operation.

It makes the calls of `FileSystem` and behaves like a disk of the harshest legal kind:

- A power loss leaves of each un-synced 512-byte sector the old content, a version written since, or garbage;
  the size of a file is decided apart from its content; each un-synced create, rename, unlink and mkdir is
  kept or lost by itself. What was synced stays: content by fsync or fdatasync of the file, names by
  `sync_directory` of their directory. Syncing a file never makes its name durable here.
- A crash of the process keeps everything that was written, and gives its locks back.

A test runs once, from the start to the end, and notes `operations` whenever something was promised. Then it
goes through `crash_points()`, and at each through the disks a crash there may leave::

    disk = ForgetfulFileSystem()
    ...                                         # the run to be examined
    for point in disk.crash_points():
        for image in point.images_after_power_loss(limit=500, rng=Random(1)):
            ...                                 # a new ForgetfulFileSystem: open the log on it and look

Not modelled: permissions, links, file times, renamed directories, directories opened as files, O_APPEND,
holes that cost no space, and a full disk (order ENOSPC from `faults` instead).
"""

import errno
import os
from collections.abc import Iterator
from dataclasses import dataclass
from random import Random

from .disk import Disk, Name, SimulatedFile
from .faults import Fault, Faults, FaultyCall
from .loss import disks_after_power_loss, unsynced_items
from .machine import Machine, disk_error
from .operations import (
    Create,
    DropCache,
    Operation,
    Rename,
    Resize,
    SyncDirectory,
    SyncFile,
    Unlink,
    Write,
)

_DEVICE = 1  # every simulated file lies on the same device


@dataclass(frozen=True)
class _OpenFile:
    inode: int
    path: str
    readable: bool
    writable: bool


@dataclass(frozen=True)
class CrashPoint:
    """The moment after the first `operations` operations of a history; `last` is the newest of them.

    `torn` says that the process died inside one more write, of which only the first half was done.
    """

    operations: int
    last: Operation | None
    torn: bool
    disk: Disk

    @property
    def unsynced(self) -> int:
        """How many things a power loss at this moment would decide."""
        return len(unsynced_items(self.disk))

    def after_process_crash(self) -> "ForgetfulFileSystem":
        """Return the machine after its processes died here; what was written is kept, still un-synced."""
        return ForgetfulFileSystem(self.disk.clone())

    def images_after_power_loss(self, limit: int, rng: Random) -> Iterator["ForgetfulFileSystem"]:
        """Yield the disks a power loss here may leave: all if they are at most `limit`, else a sample."""
        for disk in disks_after_power_loss(self.disk, limit, rng):
            yield ForgetfulFileSystem(disk)

    def images(self, limit: int, rng: Random) -> Iterator["ForgetfulFileSystem"]:
        """Yield what the death of the process leaves, then, unless `torn`, what a power loss may."""
        yield self.after_process_crash()
        if not self.torn:
            yield from self.images_after_power_loss(limit, rng)

    def __str__(self) -> str:
        moment = "inside" if self.torn else "after"
        return f"a crash {moment} operation {self.operations + self.torn} ({self.last})"


class ForgetfulFileSystem:
    """One process's view of a simulated machine; see the head of this module.

    `faults` are this process's own. Calls are atomic and may come from any thread.
    """

    def __init__(self, disk: Disk | None = None, *, machine: Machine | None = None) -> None:
        self._machine = machine or Machine(disk or Disk())
        self._open: dict[int, _OpenFile] = {}
        self._killed = False
        self.faults = Faults()

    def new_process(self) -> "ForgetfulFileSystem":
        """Return another process on this machine: same disk and locks, descriptors and faults of its own."""
        return ForgetfulFileSystem(machine=self._machine)

    def kill(self) -> None:
        """End this process as kill -9 does: descriptors closed, locks given back, later calls refused."""
        with self._machine.mutex:
            for fd in list(self._open):
                self.close(fd)
            self._killed = True

    @property
    def operations(self) -> int:
        """How many operations have changed or synced the disk since this machine was started."""
        return len(self._machine.history)

    @property
    def history(self) -> tuple[Operation, ...]:
        """The operations since this machine was started, of all its processes."""
        return tuple(self._machine.history)

    def crash_points(self, start: int = 0) -> Iterator[CrashPoint]:
        """Yield each moment from `start` operations on, the present last, and the middle of long writes."""
        history = self.history
        disk = self._machine.start.clone()
        for count in range(len(history) + 1):
            last = history[count - 1] if count else None
            if last is not None:
                last.apply(disk)
            if count < start:
                continue
            yield CrashPoint(count, last, torn=False, disk=disk.clone())
            half = _first_half(history[count]) if count < len(history) else None
            if half is not None:
                torn = disk.clone()
                half.apply(torn)
                yield CrashPoint(count, half, torn=True, disk=torn)

    def now(self) -> CrashPoint:
        """Return the present moment as a crash point."""
        with self._machine.mutex:
            history = self._machine.history
            last = history[-1] if history else None
            return CrashPoint(len(history), last, torn=False, disk=self._machine.disk.clone())

    def after_process_crash(self) -> "ForgetfulFileSystem":
        """Return a new machine as this one is if its processes die now."""
        return self.now().after_process_crash()

    def images_after_power_loss(self, limit: int, rng: Random) -> Iterator["ForgetfulFileSystem"]:
        """Yield new machines with the disks that a power loss now may leave."""
        yield from self.now().images_after_power_loss(limit, rng)

    # From here on: the calls of FileSystem.

    def open(self, path: str, flags: int, mode: int = 0o600) -> int:  # noqa: ARG002 - no permissions here
        """See FileSystem."""
        with self._machine.mutex:
            self._hit("open", path)
            inode = self._alive().open_inode(path, flags)
            access = flags & os.O_ACCMODE
            if flags & os.O_TRUNC and access != os.O_RDONLY and self._machine.disk.files[inode].size:
                self._machine.act(Resize(inode, 0))
            fd = self._machine.take_descriptor()
            self._open[fd] = _OpenFile(inode, path, access != os.O_WRONLY, access != os.O_RDONLY)
            return fd

    def close(self, fd: int) -> None:
        """See FileSystem."""
        with self._machine.mutex:
            inode = self._descriptor(fd).inode
            del self._open[fd]
            if self._machine.lock_owners.get(inode) == fd:
                del self._machine.lock_owners[inode]

    def pread(self, fd: int, length: int, offset: int) -> bytes:
        """See FileSystem."""
        with self._machine.mutex:
            opened = self._descriptor(fd)
            fault = self._hit("pread", opened.path)
            if not opened.readable:
                raise disk_error(errno.EBADF, opened.path)
            if fault is not None:
                length = min(length, max(1, fault.at_most))
            return self._file(fd).read(length, offset)

    def pwrite(self, fd: int, data: bytes | memoryview, offset: int) -> int:
        """See FileSystem."""
        with self._machine.mutex:
            opened = self._writable(fd)
            whole = bytes(data)
            fault = self.faults.strike("pwrite", opened.path)
            if fault is not None:
                whole = whole[: max(fault.at_most, 0 if fault.error else 1)]
            if whole:
                self._machine.act(Write(opened.inode, offset, whole))
            _raise_if_error(fault, opened.path)
            return len(whole)

    def fdatasync(self, fd: int) -> None:
        """See FileSystem."""
        self._sync_file("fdatasync", fd)

    def fsync(self, fd: int) -> None:
        """See FileSystem."""
        self._sync_file("fsync", fd)

    def allocate(self, fd: int, size_bytes: int) -> bool:
        """See FileSystem; an ordered fault makes it answer False, but EIO is raised."""
        with self._machine.mutex:
            opened = self._writable(fd)
            fault = self.faults.strike("allocate", opened.path)
            if fault is not None and fault.error == errno.EIO:
                raise disk_error(errno.EIO, opened.path)
            if fault is not None or size_bytes <= 0:
                return False
            if size_bytes > self._file(fd).size:
                self._machine.act(Resize(opened.inode, size_bytes))
            return True

    def truncate(self, fd: int, size_bytes: int) -> None:
        """See FileSystem."""
        with self._machine.mutex:
            self._machine.act(Resize(self._writable(fd).inode, size_bytes))

    def size(self, fd: int) -> int:
        """See FileSystem."""
        with self._machine.mutex:
            return self._file(fd).size

    def identity(self, target: int | str) -> tuple[int, int] | None:
        """See FileSystem."""
        with self._machine.mutex:
            if isinstance(target, int):
                return _DEVICE, self._descriptor(target).inode
            try:
                return _DEVICE, self._alive().resolve(target)
            except (FileNotFoundError, NotADirectoryError):
                return None

    def drop_cache(self, fd: int) -> None:
        """See FileSystem."""
        with self._machine.mutex:
            if self._file(fd).abandoned:
                self._machine.act(DropCache(self._descriptor(fd).inode))

    def rename(self, source: str, target: str) -> None:
        """See FileSystem."""
        with self._machine.mutex:
            self._hit("rename", source)
            (source_parent, source_name), (target_parent, target_name) = map(
                self._alive().parent, (source, target)
            )
            inode = self._machine.resolve(source)
            replaced = self._machine.disk.entries[target_parent].get(target_name)
            if replaced == inode:
                return
            for directory, path in ((inode, source), (replaced, target)):
                if directory in self._machine.disk.entries:
                    raise disk_error(errno.EISDIR, path)
            self._machine.act(Rename(Name(source_parent, source_name, inode), target_parent, target_name))

    def unlink(self, path: str) -> None:
        """See FileSystem."""
        with self._machine.mutex:
            self._hit("unlink", path)
            inode = self._alive().resolve(path)
            if inode in self._machine.disk.entries:
                raise disk_error(errno.EISDIR, path)
            self._machine.act(Unlink(Name(*self._alive().parent(path), inode)))

    def names(self, directory: str) -> list[str]:
        """See FileSystem."""
        with self._machine.mutex:
            return sorted(self._machine.disk.entries[self._alive().directory(directory)])

    def make_directory(self, path: str) -> None:
        """See FileSystem."""
        with self._machine.mutex:
            parent, name = self._alive().parent(path)
            if not name or name in self._machine.disk.entries[parent]:
                raise disk_error(errno.EEXIST, path)
            self._machine.act(Create(parent, name, directory=True))

    def sync_directory(self, path: str) -> None:
        """See FileSystem."""
        with self._machine.mutex:
            inode = self._alive().directory(path)
            fault = self.faults.strike("sync_directory", path)
            self._machine.act(SyncDirectory(inode, fault.sync if fault else None))
            _raise_if_error(fault, path)

    def try_lock(self, fd: int) -> bool:
        """See FileSystem."""
        with self._machine.mutex:
            return self._machine.lock_owners.setdefault(self._descriptor(fd).inode, fd) == fd

    def lock_is_held(self, fd: int) -> bool:
        """See FileSystem."""
        with self._machine.mutex:
            return self._machine.lock_owners.get(self._descriptor(fd).inode, fd) != fd

    def _alive(self) -> Machine:
        if self._killed:
            raise disk_error(errno.ESRCH, "a path, by a process that was killed")
        return self._machine

    def _sync_file(self, call: FaultyCall, fd: int) -> None:
        with self._machine.mutex:
            opened = self._descriptor(fd)
            fault = self.faults.strike(call, opened.path)
            self._machine.act(SyncFile(opened.inode, fault.sync if fault else None))
            _raise_if_error(fault, opened.path)

    def _hit(self, call: FaultyCall, path: str) -> Fault | None:
        fault = self.faults.strike(call, path)
        _raise_if_error(fault, path)
        return fault

    def _descriptor(self, fd: int) -> _OpenFile:
        opened = self._open.get(fd)
        if opened is None:
            raise disk_error(errno.EBADF, f"descriptor {fd}")
        return opened

    def _writable(self, fd: int) -> _OpenFile:
        opened = self._descriptor(fd)
        if not opened.writable:
            raise disk_error(errno.EBADF, opened.path)
        return opened

    def _file(self, fd: int) -> SimulatedFile:
        return self._machine.disk.files[self._descriptor(fd).inode]


def _first_half(operation: Operation) -> Write | None:
    return operation.first_half() if isinstance(operation, Write) else None


def _raise_if_error(fault: Fault | None, path: str) -> None:
    if fault is not None and fault.error is not None:
        raise disk_error(fault.error, path)
