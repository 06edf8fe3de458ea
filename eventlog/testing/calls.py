"""The calls of `FileSystem` on a simulated machine, as one of its processes makes them."""

import errno
import os
from collections.abc import Collection
from dataclasses import dataclass
from typing import Literal

from .disk import SECTOR_BYTES, Disk, FailedSync, Name, SimulatedFile
from .faults import Fault, Faults, FaultyCall
from .machine import Machine, disk_error
from .operations import Create, DropCache, Rename, Resize, SyncDirectory, SyncFile, Unlink, Write
from .space import growth_bytes

_DEVICE = 1  # every simulated file lies on the same device


@dataclass(frozen=True)
class _OpenFile:
    inode: int
    path: str
    readable: bool
    writable: bool


class SimulatedCalls:
    """A process: its descriptors and its faults. Calls are atomic and may come from any thread."""

    def __init__(
        self,
        disk: Disk | None = None,
        *,
        machine: Machine | None = None,
        capacity_bytes: int | None = None,
        lies_about: Collection[Literal["fdatasync", "fsync", "sync_directory"]] = (),
    ) -> None:
        new = Disk(capacity_bytes=capacity_bytes, lies_about=frozenset(lies_about))
        self._machine = machine or Machine(disk or new)
        self._open: dict[int, _OpenFile] = {}
        self._killed = False
        self.faults = Faults()

    def kill(self) -> None:
        """End this process as kill -9 does: descriptors closed, locks given back, later calls refused."""
        with self._machine.mutex:
            for fd in list(self._open):
                self.close(fd)
            self._killed = True

    def open(self, path: str, flags: int, mode: int = 0o600) -> int:  # noqa: ARG002 - no permissions here
        """See FileSystem."""
        with self._machine.mutex:
            self._hit("open", path)
            inode = self._alive().open_inode(path, flags)
            access = flags & os.O_ACCMODE
            if flags & os.O_TRUNC and access != os.O_RDONLY and self._machine.disk.files[inode].size:
                self._machine.act(Resize(inode, 0))
            fd = self._machine.take_descriptor(inode)
            self._open[fd] = _OpenFile(inode, path, access != os.O_WRONLY, access != os.O_RDONLY)
            return fd

    def close(self, fd: int) -> None:
        """See FileSystem."""
        with self._machine.mutex:
            inode = self._descriptor(fd).inode
            del self._open[fd]
            del self._machine.opened[fd]
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
            whole = whole[: self._machine.fitting_bytes(opened.inode, offset, len(whole), opened.path)]
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
            growth = growth_bytes(self._machine.disk, opened.inode, size_bytes)
            if growth > self._machine.room_bytes():
                return False
            if size_bytes > self._file(fd).size:
                self._machine.act(Resize(opened.inode, size_bytes))
            return True

    def truncate(self, fd: int, size_bytes: int) -> None:
        """See FileSystem."""
        with self._machine.mutex:
            opened = self._writable(fd)
            self._hit("truncate", opened.path)
            self._machine.need_room(growth_bytes(self._machine.disk, opened.inode, size_bytes), opened.path)
            self._machine.act(Resize(opened.inode, size_bytes))

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
            self._hit("names", directory)
            return sorted(self._machine.disk.entries[self._alive().directory(directory)])

    def make_directory(self, path: str) -> None:
        """See FileSystem."""
        with self._machine.mutex:
            self._hit("make_directory", path)
            parent, name = self._alive().parent(path)
            if not name or name in self._machine.disk.entries[parent]:
                raise disk_error(errno.EEXIST, path)
            self._machine.need_room(SECTOR_BYTES, path)
            self._machine.act(Create(parent, name, directory=True))

    def sync_directory(self, path: str) -> None:
        """See FileSystem."""
        with self._machine.mutex:
            inode = self._alive().directory(path)
            fault = self.faults.strike("sync_directory", path)
            self._machine.act(SyncDirectory(inode, fault.sync if fault else self._lie("sync_directory")))
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
            self._machine.act(SyncFile(opened.inode, fault.sync if fault else self._lie(call)))
            _raise_if_error(fault, opened.path)

    def _lie(self, call: FaultyCall) -> FailedSync | None:
        return "dirty" if call in self._machine.disk.lies_about else None

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


def _raise_if_error(fault: Fault | None, path: str) -> None:
    if fault is not None and fault.error is not None:
        raise disk_error(fault.error, path)
