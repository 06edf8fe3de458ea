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

Calls fail as ordered from `faults`. With `capacity_bytes` the disk is full at some time, and has room again
after an unlink or a truncate. With `lies_about` it reports success of the syncs named there and does nothing.

Not modelled: permissions, links, file times, renamed directories, directories opened as files, O_APPEND,
and holes that cost no space.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from random import Random

from .calls import SimulatedCalls
from .disk import Disk
from .loss import disks_after_power_loss, unsynced_items
from .operations import DropCache, Operation, SyncDirectory, SyncFile, Write


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


class ForgetfulFileSystem(SimulatedCalls):
    """One process's view of a simulated machine; see the head of this module.

    `faults` are this process's own. Calls are atomic and may come from any thread.
    """

    def new_process(self) -> "ForgetfulFileSystem":
        """Return another process on this machine: same disk and locks, descriptors and faults of its own."""
        return ForgetfulFileSystem(machine=self._machine)

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

    def settle(self) -> None:
        """Make everything durable that is not yet, as a long quiet time does, also on a disk that lies."""
        with self._machine.mutex:
            for inode in list(self._machine.disk.files):
                self._machine.act(SyncFile(inode))
                self._machine.act(DropCache(inode))
            for directory in list(self._machine.disk.entries):
                self._machine.act(SyncDirectory(directory))

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


def _first_half(operation: Operation) -> Write | None:
    return operation.first_half() if isinstance(operation, Write) else None
