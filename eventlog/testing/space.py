"""How full a simulated disk is.

Each file and directory costs a sector beside its content, and content costs its size in whole sectors, holes
included. What was unlinked goes on costing as long as somebody has it open.
"""

from collections.abc import Iterable

from .disk import SECTOR_BYTES, Disk


def room_bytes(disk: Disk, opened: Iterable[int]) -> float:
    """How much is left beside what is named or `opened`: whole sectors, or without a capacity no end of it.

    Less than nothing on a disk that holds too much, because a power loss undid an unlink for instance.
    """
    if disk.capacity_bytes is None:
        return float("inf")
    alive = {inode for names in disk.entries.values() for inode in names.values()}.union(opened)
    files = [disk.files[inode] for inode in alive & disk.files.keys()]
    used = SECTOR_BYTES * (len(disk.entries) + len(files)) + sum(in_sectors(file.size) for file in files)
    return disk.capacity_bytes // SECTOR_BYTES * SECTOR_BYTES - used


def growth_bytes(disk: Disk, inode: int, size_bytes: int) -> int:
    """What it costs to give a file this size; less than nothing when it shrinks."""
    return in_sectors(size_bytes) - in_sectors(disk.files[inode].size)


def in_sectors(size_bytes: int) -> int:
    """A size in bytes, up to the end of its last sector."""
    return -(-size_bytes // SECTOR_BYTES) * SECTOR_BYTES
