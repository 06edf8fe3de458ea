"""Every way to change a simulated disk, as values: a list of them is a history that can be played again.

That is how a test crashes at every operation: it plays the first n of them on a copy of the disk.
"""

from dataclasses import dataclass

from .disk import SECTOR_BYTES, Disk, FailedSync, Name, NameChange


@dataclass(frozen=True)
class Write:
    """Bytes put into a file."""

    inode: int
    offset: int
    data: bytes

    def apply(self, disk: Disk) -> None:
        """Play the operation."""
        disk.files[self.inode].write(self.offset, self.data)

    def __repr__(self) -> str:
        return f"Write(inode={self.inode}, offset={self.offset}, {len(self.data)} bytes)"

    def first_half(self) -> "Write | None":
        """Return what a process killed inside the call may have written; None if a sector is all there is."""
        sectors = len(self.data) // SECTOR_BYTES
        return (
            Write(self.inode, self.offset, self.data[: (sectors + 1) // 2 * SECTOR_BYTES])
            if sectors
            else None
        )


@dataclass(frozen=True)
class Resize:
    """A file cut or grown: truncate, allocate, O_TRUNC."""

    inode: int
    size: int

    def apply(self, disk: Disk) -> None:
        """Play the operation."""
        disk.files[self.inode].resize(self.size)


@dataclass(frozen=True)
class SyncFile:
    """A sync of a file; with `failed` one that reported an error."""

    inode: int
    failed: FailedSync | None = None

    def apply(self, disk: Disk) -> None:
        """Play the operation."""
        file = disk.files[self.inode]
        if self.failed is None:
            file.sync()
        else:
            file.fail_sync(self.failed)


@dataclass(frozen=True)
class DropCache:
    """Clean pages of a file thrown away."""

    inode: int

    def apply(self, disk: Disk) -> None:
        """Play the operation."""
        disk.files[self.inode].drop_cache()


@dataclass(frozen=True)
class Create:
    """A new file or directory under a name."""

    parent: int
    name: str
    directory: bool

    def apply(self, disk: Disk) -> None:
        """Play the operation."""
        inode = disk.add_inode(directory=self.directory)
        disk.change_names(NameChange(None, Name(self.parent, self.name, inode)))


@dataclass(frozen=True)
class Rename:
    """A name moved, over another one perhaps."""

    source: Name
    target_parent: int
    target_name: str

    def apply(self, disk: Disk) -> None:
        """Play the operation."""
        target = Name(self.target_parent, self.target_name, self.source.inode)
        disk.change_names(NameChange(self.source, target))


@dataclass(frozen=True)
class Unlink:
    """A name removed."""

    name: Name

    def apply(self, disk: Disk) -> None:
        """Play the operation."""
        disk.change_names(NameChange(self.name, None))


@dataclass(frozen=True)
class SyncDirectory:
    """A sync of a directory; with `failed` one that reported an error."""

    directory: int
    failed: FailedSync | None = None

    def apply(self, disk: Disk) -> None:
        """Play the operation."""
        if self.failed is None:
            disk.sync_directory(self.directory)
        else:
            disk.fail_sync_directory(self.directory, self.failed)


Operation = Write | Resize | SyncFile | DropCache | Create | Rename | Unlink | SyncDirectory
