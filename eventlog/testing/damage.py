"""Damage to the files of a log, as values: what was done can be printed, repeated and made smaller.

A crash leaves what was synced alone; damage does not. `all_damages` lists what may happen to a small log;
each is applied to a copy of its own: a simulated disk, or a directory of real files.
"""

import os
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random

from ..storage import FileSystem, RealFileSystem
from .disk import SECTOR_BYTES, ZERO_SECTOR
from .episodes import LOG
from .forgetful import ForgetfulFileSystem

Where = ForgetfulFileSystem | Path
"""A simulated disk, whose log lies at `LOG`, or the directory of a real one."""

_ONES = b"\xff" * SECTOR_BYTES
_BITS = 8


class Damage(ABC):
    """One thing that happens to the files of a log."""

    def apply(self, where: Where) -> None:
        """Do it."""
        self._do(*_seam(where))

    @abstractmethod
    def _do(self, disk: FileSystem, directory: str) -> None:
        """Do it, through the seam."""


@dataclass(frozen=True)
class FlipBit(Damage):
    """One bit of a file is the other way round."""

    file: str
    offset: int
    bit: int

    def _do(self, disk: FileSystem, directory: str) -> None:
        with _Open(disk, directory, self.file) as fd:
            (old,) = disk.pread(fd, 1, self.offset)
            disk.pwrite(fd, bytes([old ^ 1 << self.bit]), self.offset)


@dataclass(frozen=True)
class FillSector(Damage):
    """A sector holds something else: zeros, ones, noise."""

    file: str
    sector: int
    content: bytes

    def _do(self, disk: FileSystem, directory: str) -> None:
        with _Open(disk, directory, self.file) as fd:
            length = min(SECTOR_BYTES, disk.size(fd) - self.sector * SECTOR_BYTES)
            disk.pwrite(fd, self.content[:length], self.sector * SECTOR_BYTES)

    def __repr__(self) -> str:
        kind = {ZERO_SECTOR: "zeros", _ONES: "ones"}.get(self.content, "noise")
        return f"FillSector(file={self.file!r}, sector={self.sector}, {kind})"


@dataclass(frozen=True)
class SwapSectors(Damage):
    """Two whole sectors of a file have changed places."""

    file: str
    first: int
    second: int

    def _do(self, disk: FileSystem, directory: str) -> None:
        with _Open(disk, directory, self.file) as fd:
            first, second = self.first * SECTOR_BYTES, self.second * SECTOR_BYTES
            one, other = (disk.pread(fd, SECTOR_BYTES, offset) for offset in (first, second))
            disk.pwrite(fd, other, first)
            disk.pwrite(fd, one, second)


@dataclass(frozen=True)
class Cut(Damage):
    """A file ends early."""

    file: str
    size_bytes: int

    def _do(self, disk: FileSystem, directory: str) -> None:
        with _Open(disk, directory, self.file) as fd:
            disk.truncate(fd, self.size_bytes)


@dataclass(frozen=True)
class DropFile(Damage):
    """A file is gone."""

    file: str

    def _do(self, disk: FileSystem, directory: str) -> None:
        disk.unlink(f"{directory}/{self.file}")


@dataclass(frozen=True)
class CopyFile(Damage):
    """A file is there twice, or in place of another."""

    file: str
    target: str

    def _do(self, disk: FileSystem, directory: str) -> None:
        content = _read(disk, directory, self.file)
        with _Open(disk, directory, self.target, os.O_RDWR | os.O_CREAT | os.O_TRUNC) as fd:
            disk.pwrite(fd, content, 0)


def file_sizes(where: Where) -> dict[str, int]:
    """The files of the log's directory and their sizes, by name."""
    disk, directory = _seam(where)
    sizes = {}
    for name in disk.names(directory):
        if _is_directory(disk, f"{directory}/{name}"):
            continue
        with _Open(disk, directory, name, os.O_RDONLY) as fd:
            sizes[name] = disk.size(fd)
    return sizes


def all_damages(where: Where, rng: Random, *, one_in: int = 1) -> Iterator[Damage]:
    """List the damages of a log: each bit, sector, pair of sectors, length and file of every file of it.

    With `one_in` only so many of the bits, pairs and lengths are taken, by chance.
    """
    sizes = file_sizes(where)
    for file, size in sizes.items():
        yield from _some(damages_of_bytes(file, size), rng, one_in)
        yield from damages_of_sectors(file, size, rng)
    yield from damages_of_files(sizes)


def random_damage(where: Where, rng: Random) -> Damage | None:
    """Choose one thing that may happen to the files as they are now; None when there is no file."""
    sizes = file_sizes(where)
    if not sizes:
        return None
    file = rng.choice(sorted(sizes))
    size = sizes[file]
    kind = rng.randrange(6 if size else 2)
    match kind:
        case 0:
            return DropFile(file)
        case 1:
            return rng.choice(list(damages_of_files(sizes)))
        case 2:
            return Cut(file, rng.randrange(size))
        case 3:
            return FillSector(file, rng.randrange(-(-size // SECTOR_BYTES)), rng.choice((ZERO_SECTOR, _ONES)))
        case 4 if size >= 2 * SECTOR_BYTES:
            return SwapSectors(file, *sorted(rng.sample(range(size // SECTOR_BYTES), 2)))
        case _:
            return FlipBit(file, rng.randrange(size), rng.randrange(_BITS))


def damages_of_bytes(file: str, size_bytes: int) -> Iterator[Damage]:
    """Flip every bit, cut at every byte, swap every pair of sectors."""
    for at in range(size_bytes):
        yield from (FlipBit(file, at, bit) for bit in range(_BITS))
        yield Cut(file, at)
    whole = size_bytes // SECTOR_BYTES
    for first in range(whole):
        yield from (SwapSectors(file, first, second) for second in range(first + 1, whole))


def damages_of_sectors(file: str, size_bytes: int, rng: Random) -> Iterator[Damage]:
    """Lose every sector, three ways."""
    for sector in range(-(-size_bytes // SECTOR_BYTES)):
        for content in (ZERO_SECTOR, _ONES, rng.randbytes(SECTOR_BYTES)):
            yield FillSector(file, sector, content)


def damages_of_files(sizes: dict[str, int]) -> Iterator[Damage]:
    """Lose every file; put each in the place of each other; copy each segment under further numbers."""
    for file in sizes:
        yield DropFile(file)
        yield from (CopyFile(file, other) for other in sizes if other != file)
        first, _, rest = file.partition("-")
        if rest:
            number, dot, kind = rest.partition(".")
            for further in (1, 2, 3, int(number) + 1):
                yield CopyFile(file, f"{first}-{further:08d}{dot}{kind}")
            yield CopyFile(file, f"{int(first) + 7:020d}-{rest}")


def _some(damages: Iterator[Damage], rng: Random, one_in: int) -> Iterator[Damage]:
    return (damage for damage in damages if one_in == 1 or not rng.randrange(one_in))


def _seam(where: Where) -> tuple[FileSystem, str]:
    return (RealFileSystem(), str(where)) if isinstance(where, Path) else (where, str(LOG))


def _is_directory(disk: FileSystem, path: str) -> bool:
    try:
        disk.names(path)
    except NotADirectoryError:
        return False
    return True


def _read(disk: FileSystem, directory: str, file: str) -> bytes:
    with _Open(disk, directory, file, os.O_RDONLY) as fd:
        return disk.pread(fd, disk.size(fd), 0)


class _Open:
    """A file of the log, open as long as the block runs."""

    def __init__(self, disk: FileSystem, directory: str, file: str, flags: int = os.O_RDWR) -> None:
        self._disk = disk
        self._fd = disk.open(f"{directory}/{file}", flags)

    def __enter__(self) -> int:
        return self._fd

    def __exit__(self, *_: object) -> None:
        self._disk.close(self._fd)
