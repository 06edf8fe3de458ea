"""The faults of the table: damage to what was acknowledged, and what a crash may legally leave behind it.

Every fault is placed by a seeded generator and changes at least one byte of the files.
"""

import random
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from benchmarks._stores import Extent, Store

SECTOR_BYTES = 512
PAGE_BYTES = 4096


class Run(NamedTuple):
    """Bytes that the un-acknowledged append wrote, at one place of one file."""

    file: str
    start: int
    data: bytes


class Written(NamedTuple):
    """A store with all its records acknowledged, and one more append that was not."""

    directory: Path
    extents: list[Extent]
    tail: list[Run]


class Fault(NamedTuple):
    """One kind of fault.

    `legal`: a crash leaves this without any damage, so a store must open and hold all.
    `once`: the place is fixed.
    """

    name: str
    title: str
    apply: Callable[[Path, Written, random.Random], None]
    legal: bool = False
    once: bool = False


def tail_of(store: Store, before: Path, after: Path) -> list[Run]:
    """What the last append changed in the store's data files."""
    runs = []
    for path in sorted(after.iterdir()):
        if path.is_dir() or path.name in store.beside:
            continue
        new = path.read_bytes()
        old_path = before / path.name
        old = old_path.read_bytes() if old_path.exists() else b""
        skipped = store.head_bytes
        runs += [
            Run(path.name, at, new[at:end]) for at, end in _changed(old[skipped:], new[skipped:], skipped)
        ]
    return runs


def _changed(old: bytes, new: bytes, base: int) -> list[tuple[int, int]]:
    """The ranges that differ; what lies closer together than a page is one range."""
    differing = [at for at in range(min(len(old), len(new))) if old[at] != new[at]]
    if len(new) > len(old):
        differing += range(len(old), len(new), SECTOR_BYTES)
        differing.append(len(new) - 1)
    ranges: list[tuple[int, int]] = []
    for at in differing:
        if ranges and at - ranges[-1][1] < PAGE_BYTES:
            ranges[-1] = (ranges[-1][0], at + 1)
        else:
            ranges.append((at, at + 1))
    return [(base + start, base + end) for start, end in ranges]


# Damage. The middle is between a tenth and nine tenths of the records; the newest has a row of its own.


def _of_the_middle(written: Written, rng: random.Random) -> Extent:
    count = len(written.extents)
    return written.extents[rng.randrange(count // 10, count * 9 // 10)]


def flip_exact_middle(image: Path, written: Written, _: random.Random) -> None:
    """One bit, in the middle of the middle record."""
    extent = written.extents[len(written.extents) // 2 - 1]
    _flip(image / extent.file, (extent.start + extent.end) // 2, 1)


def flip_byte(image: Path, written: Written, rng: random.Random) -> None:
    """One byte somewhere in a record becomes another."""
    extent = _of_the_middle(written, rng)
    _flip(image / extent.file, rng.randrange(extent.start, extent.end), rng.randrange(1, 256))


def zero_in_record(image: Path, written: Written, rng: random.Random) -> None:
    """64 bytes of a record."""
    extent = _of_the_middle(written, rng)
    while not _zero(image / extent.file, start := rng.randrange(extent.start, extent.end - 63), start + 64):
        pass


def zero_page(image: Path, written: Written, rng: random.Random) -> None:
    """The aligned 4 KiB around a byte of a record."""
    extent = _of_the_middle(written, rng)
    start = rng.randrange(extent.start, extent.end) // PAGE_BYTES * PAGE_BYTES
    _zero(image / extent.file, start, start + PAGE_BYTES)


def cut_in_record(image: Path, written: Written, rng: random.Random) -> None:
    """The file ends inside a record."""
    extent = _of_the_middle(written, rng)
    _cut(image / extent.file, rng.randrange(extent.start + 1, extent.end))


def cut_behind_record(image: Path, written: Written, rng: random.Random) -> None:
    """The file ends where a record ends."""
    extent = _of_the_middle(written, rng)
    _cut(image / extent.file, extent.boundary)


def zero_behind_record(image: Path, written: Written, rng: random.Random) -> None:
    """The file keeps its size, and all behind a record is zeros."""
    extent = _of_the_middle(written, rng)
    path = image / extent.file
    _zero(path, extent.boundary, path.stat().st_size)


def damage_newest(image: Path, written: Written, rng: random.Random) -> None:
    """One byte of the newest record flipped, or 64 of its bytes zeroed."""
    extent = written.extents[-1]
    path = image / extent.file
    if rng.random() < 0.5:
        _flip(path, rng.randrange(extent.start, extent.end), rng.randrange(1, 256))
        return
    while not _zero(path, start := rng.randrange(extent.start, extent.end - 63), start + 64):
        pass


# Legal torn tails. Only bytes that the un-acknowledged append wrote are touched: sectors that it shares with
# acknowledged bytes keep those, as stores without frames of their own sectors assume.


def tail_cut(image: Path, written: Written, rng: random.Random) -> None:
    """A part of the append reached the disk, the rest is as it was before."""
    kept = rng.randrange(1, sum(len(run.data) for run in written.tail))
    for run in written.tail:
        _write(image / run.file, run.start, run.data[:kept])
        kept = max(0, kept - len(run.data))


def tail_garbled(image: Path, written: Written, rng: random.Random) -> None:
    """All of the append is garbage, or each of its sectors is old, new or garbage."""
    everywhere = rng.random() < 0.5
    _scatter(image, written, rng, rng.randbytes, None if everywhere else ("old", "new"))


def tail_zeroed(image: Path, written: Written, rng: random.Random) -> None:
    """All of the append is zeros, or each of its sectors is new or zeros; the size is as after the append."""
    everywhere = rng.random() < 0.5
    _scatter(image, written, rng, bytes, None if everywhere else ("new",))


def _scatter(
    image: Path,
    written: Written,
    rng: random.Random,
    bad: Callable[[int], bytes],
    others: tuple[str, ...] | None,
) -> None:
    sectors = [sector for run in written.tail for sector in _sectors(run)]
    surely_bad = rng.randrange(len(sectors))
    for index, (file, start, data) in enumerate(sectors):
        fate = "bad" if others is None or index == surely_bad else rng.choice((*others, "bad"))
        if fate != "old":
            _write(image / file, start, bad(len(data)) if fate == "bad" else data)
    for run in written.tail:  # the size is metadata, independent of the data
        end = run.start + len(run.data)
        if (image / run.file).stat().st_size < end:
            _write(image / run.file, end - 1, b"\0")


def _sectors(run: Run) -> list[Run]:
    edges = range((run.start // SECTOR_BYTES + 1) * SECTOR_BYTES, run.start + len(run.data), SECTOR_BYTES)
    places = [run.start, *edges, run.start + len(run.data)]
    return [
        Run(run.file, low, run.data[low - run.start : high - run.start]) for low, high in pairwise(places)
    ]


def _flip(path: Path, at: int, bits: int) -> None:
    data = path.read_bytes()
    _write(path, at, bytes([data[at] ^ bits]))


def _zero(path: Path, start: int, end: int) -> bool:
    """Zero what there is of a range; False if it was zeros already."""
    data = path.read_bytes()[start:end]
    _write(path, start, bytes(len(data)))
    return any(data)


def _cut(path: Path, size: int) -> None:
    with path.open("r+b") as file:
        file.truncate(size)


def _write(path: Path, at: int, data: bytes) -> None:
    if not data:
        return
    with path.open("r+b" if path.exists() else "x+b") as file:
        file.seek(at)
        file.write(data)


DAMAGE: Sequence[Fault] = (
    Fault("flip-exact-middle", "1 bit, exact middle", flip_exact_middle, once=True),
    Fault("flip", "1 byte flipped", flip_byte),
    Fault("zero-64", "64 B zeroed", zero_in_record),
    Fault("zero-4096", "4 KiB zeroed", zero_page),
    Fault("cut-in-record", "cut mid-record", cut_in_record),
    Fault("cut-on-boundary", "cut on boundary", cut_behind_record),
    Fault("zero-behind", "zeros behind boundary", zero_behind_record),
    Fault("newest", "newest damaged", damage_newest),
)
LEGAL: Sequence[Fault] = (
    Fault("tail-cut", "tail cut", tail_cut, legal=True),
    Fault("tail-garbled", "tail garbled", tail_garbled, legal=True),
    Fault("tail-zeroed", "tail zeroed", tail_zeroed, legal=True),
)
