"""The state of a simulated disk: what processes see, what is durable, and what hangs between the two.

A file is a sparse map of 512-byte sectors. Beside what a process reads it keeps, for each sector that was not
synced, every version written since: after a power loss the disk may hold any of them, or garbage. Its size is
kept likewise. Names are kept as a list of changes not yet synced, each of which may be lost alone.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

SECTOR_BYTES = 512
ZERO_SECTOR = bytes(SECTOR_BYTES)
ROOT = 1  # the inode of "/", always there and durable

# The newest versions of one sector, or sizes of one file, that are remembered between two syncs. A HEAD slot
# is written thousands of times without a sync, and which old version survives teaches nothing new.
_VERSIONS_KEPT = 4

FailedSync = Literal["dirty", "kept", "reverted"]
"""What a sync that reports an error does to the pages it did not write.

`dirty`: they stay dirty, so that the next sync tries again. `kept`: they are marked clean, reads still show
them, no later sync writes them, and the error is not reported again (ext4). `reverted`: they are thrown
away, so that reads show what the disk holds.
"""


class UncertainSector(NamedTuple):
    """A sector that after a power loss holds one of `versions`, the durable one being first, or garbage."""

    inode: int
    sector: int
    versions: tuple[bytes, ...]


class UncertainSize(NamedTuple):
    """A file that may have any of `sizes` after a power loss; the durable one comes first."""

    inode: int
    sizes: tuple[int, ...]


@dataclass
class SimulatedFile:
    """The content of one inode; a sector that is not in a map is all zeros."""

    size: int = 0
    sectors: dict[int, bytes] = field(default_factory=dict)
    durable_size: int = 0
    durable: dict[int, bytes] = field(default_factory=dict)
    dirty: dict[int, tuple[bytes, ...]] = field(default_factory=dict)
    abandoned: dict[int, tuple[bytes, ...]] = field(default_factory=dict)  # clean to the kernel, not durable
    sizes: tuple[int, ...] = ()

    def clone(self) -> "SimulatedFile":
        """Return a copy that shares nothing that can change."""
        return SimulatedFile(
            self.size,
            dict(self.sectors),
            self.durable_size,
            dict(self.durable),
            dict(self.dirty),
            dict(self.abandoned),
            self.sizes,
        )

    def read(self, length: int, offset: int) -> bytes:
        """Return at most `length` bytes from `offset`, as a process sees them."""
        end = min(offset + length, self.size)
        if end <= offset:
            return b""
        first, last = offset // SECTOR_BYTES, (end - 1) // SECTOR_BYTES
        held = self.sectors.get
        whole = b"".join([held(sector, ZERO_SECTOR) for sector in range(first, last + 1)])
        start = offset - first * SECTOR_BYTES
        return whole[start : start + end - offset]

    def write(self, offset: int, data: bytes) -> None:
        """Put `data` at `offset`; the sectors it touches are un-synced from now on."""
        position = offset
        while position < offset + len(data):
            sector, start = divmod(position, SECTOR_BYTES)
            piece = data[position - offset : position - offset + SECTOR_BYTES - start]
            old = self.sectors.get(sector, ZERO_SECTOR)
            self._put(sector, old[:start] + piece + old[start + len(piece) :])
            position += len(piece)
        if offset + len(data) > self.size:
            self._set_size(offset + len(data))

    def resize(self, size: int) -> None:
        """Cut or grow; what is cut off is overwritten with zeros, and that too is un-synced."""
        if size == self.size:
            return
        for sector in [sector for sector in self.sectors if (sector + 1) * SECTOR_BYTES > size]:
            kept = max(0, size - sector * SECTOR_BYTES)
            self._put(sector, self.sectors[sector][:kept].ljust(SECTOR_BYTES, b"\0"))
        self._set_size(size)

    def sync(self) -> None:
        """Make durable what is dirty; what an earlier failed sync marked clean stays forgotten."""
        for sector in self.dirty:
            _store(self.durable, sector, self.sectors.get(sector, ZERO_SECTOR))
        self.dirty.clear()
        self.durable_size, self.sizes = self.size, ()

    def fail_sync(self, outcome: FailedSync) -> None:
        """Do to the dirty sectors what a sync does that reports an error."""
        if outcome == "dirty":
            return
        self.abandoned.update(self.dirty)
        self.dirty.clear()
        if outcome == "reverted":
            self.drop_cache()

    def drop_cache(self) -> None:
        """Forget the clean pages that the disk never got: reads show the durable content again."""
        for sector in self.abandoned:
            _store(self.sectors, sector, self.durable.get(sector, ZERO_SECTOR))
        self.abandoned.clear()

    def uncertain(self, inode: int) -> Iterator[UncertainSector | UncertainSize]:
        """Yield everything of this file that a power loss may leave in more than one state."""
        if self.sizes:
            yield UncertainSize(inode, tuple(dict.fromkeys((self.durable_size, *self.sizes))))
        for sector, versions in sorted({**self.abandoned, **self.dirty}.items()):
            old = self.durable.get(sector, ZERO_SECTOR)
            yield UncertainSector(inode, sector, tuple(dict.fromkeys((old, *versions))))

    def certain(self) -> "SimulatedFile":
        """Return the file as it is if nothing un-synced survives."""
        return SimulatedFile(self.durable_size, dict(self.durable), self.durable_size, dict(self.durable))

    def settle(self, size: int, sectors: dict[int, bytes]) -> None:
        """Make this the durable state: these sectors put over the file, cut at `size`."""
        for sector, content in {**self.durable, **sectors}.items():
            kept = content[: max(0, size - sector * SECTOR_BYTES)].ljust(SECTOR_BYTES, b"\0")
            _store(self.durable, sector, kept)
        self.size = self.durable_size = size
        self.sectors = dict(self.durable)

    def _put(self, sector: int, content: bytes) -> None:
        _store(self.sectors, sector, content)
        versions = self.dirty.get(sector) or self.abandoned.pop(sector, ())
        self.dirty[sector] = (*versions, content)[-_VERSIONS_KEPT:]

    def _set_size(self, size: int) -> None:
        self.size = size
        self.sizes = (*self.sizes, size)[-_VERSIONS_KEPT:]


def _store(sectors: dict[int, bytes], sector: int, content: bytes) -> None:
    """Keep the map sparse: all zeros is the same as not there."""
    if content == ZERO_SECTOR:
        sectors.pop(sector, None)
    else:
        sectors[sector] = content


class Name(NamedTuple):
    """A directory entry: the directory's inode, the name in it, and the inode it means."""

    directory: int
    name: str
    inode: int


@dataclass(frozen=True)
class NameChange:
    """One act on names: create and mkdir add, unlink removes, rename does both at once."""

    removed: Name | None
    added: Name | None
    abandoned: bool = False  # a failed directory sync dropped it: no later sync makes it durable

    def touches(self, directory: int) -> bool:
        """Tell whether a sync of this directory makes the change durable."""
        return any(name is not None and name.directory == directory for name in (self.removed, self.added))

    def apply(self, entries: dict[int, dict[str, int]]) -> None:
        """Change the directories; what another lost change left different stays as it is."""
        old, new = self.removed, self.added
        if old is not None and entries[old.directory].get(old.name) == old.inode:
            del entries[old.directory][old.name]
        if new is not None:
            entries[new.directory][new.name] = new.inode


@dataclass
class Disk:
    """Files and directories by inode: as processes see them, and as they surely are after a power loss.

    `capacity_bytes` is how much it holds (None: no end of it); `lies_about` names the calls that it answers
    with success and does not do: "fdatasync", "fsync", "sync_directory".
    """

    files: dict[int, SimulatedFile] = field(default_factory=dict)
    entries: dict[int, dict[str, int]] = field(default_factory=lambda: {ROOT: {}})
    durable_entries: dict[int, dict[str, int]] = field(default_factory=lambda: {ROOT: {}})
    unsynced_names: list[NameChange] = field(default_factory=list)
    next_inode: int = ROOT + 1
    capacity_bytes: int | None = None
    lies_about: frozenset[str] = frozenset()

    def clone(self) -> "Disk":
        """Return a copy that shares nothing that can change."""
        return Disk(
            {inode: file.clone() for inode, file in self.files.items()},
            copy_entries(self.entries),
            copy_entries(self.durable_entries),
            list(self.unsynced_names),
            self.next_inode,
            self.capacity_bytes,
            self.lies_about,
        )

    def add_inode(self, *, directory: bool) -> int:
        """Make a file or directory that has no name yet."""
        inode = self.next_inode
        self.next_inode += 1
        if directory:
            self.entries[inode], self.durable_entries[inode] = {}, {}
        else:
            self.files[inode] = SimulatedFile()
        return inode

    def change_names(self, change: NameChange) -> None:
        """Let processes see the change at once; a power loss may still undo it."""
        change.apply(self.entries)
        self.unsynced_names.append(change)

    def sync_directory(self, directory: int) -> None:
        """Make durable every change of names that touches this directory."""
        waiting: list[NameChange] = []
        for change in self.unsynced_names:
            if change.touches(directory) and not change.abandoned:
                change.apply(self.durable_entries)
            else:
                waiting.append(change)
        self.unsynced_names = waiting

    def fail_sync_directory(self, directory: int, outcome: FailedSync) -> None:
        """Do to the changes of names what a directory sync does that reports an error."""
        if outcome == "dirty":
            return
        self.unsynced_names = [
            NameChange(change.removed, change.added, abandoned=True) if change.touches(directory) else change
            for change in self.unsynced_names
        ]


def copy_entries(entries: dict[int, dict[str, int]]) -> dict[int, dict[str, int]]:
    """Copy directories two levels deep."""
    return {directory: dict(names) for directory, names in entries.items()}
