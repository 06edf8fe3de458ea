"""Copies of a real log as a crash may have left it: real directories, for real programs to be started on.

Where `crash_test` needs the code to write through the seam, these need nothing: whatever reads a log, or goes
on with one, is started on each copy.
"""

import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random

from ..errors import EventLogError
from ..storage import RealFileSystem, verify
from ..storage.format import (
    HEAD_BYTES,
    HEAD_NAME,
    HEAD_SLOTS,
    SECTOR_BYTES,
    SEGMENT_HEADER_BYTES,
    TEMPORARY_SUFFIX,
)
from ..storage.framing import Place
from ..storage.head import Head, pack_slot
from ..storage.header import SegmentHeader, parse_segment_header
from ..storage.scan import walk
from ..storage.segments import SegmentName, segment_names
from ..storage.source import open_source

_COPY_NAME = "crashed-{:04d}"
_LAGS = 3  # commits, at most, that HEAD is behind


@dataclass(frozen=True)
class CrashedCopy:
    """One copy, of the moment when the first `acked_sequence` events were durable.

    One more commit of the log may be there, whole; nothing else may.
    """

    path: Path
    acked_sequence: int


@dataclass(frozen=True)
class _Boundary:
    """A moment: the segments before `segment` are whole, and this one, `name`, ends, durable, at `place`.

    The commit that was being written then reaches to `next_bytes` (none: the place itself); where none is
    left in this segment, its `successor` was being made.
    """

    segment: int
    name: str
    successor: str | None
    header: SegmentHeader
    place: Place
    next_bytes: int


def crashed_copies(log: Path, into: Path, *, limit: int, rng: Random) -> Iterator[CrashedCopy]:
    """Yield `limit` copies of the log in directory `log`, each below `into`, as a crash may have left it.

    Each ends at some commit: the first copy before the first commit, the second after the last, the others
    by chance. Of the commit that came next every sector is there, missing, or garbage; HEAD lags, or is torn;
    the segment that was being made has no name yet. What is compressed was sealed long before: it is copied
    whole. Nobody may be writing the log meanwhile.

    Raises:
        EventLogError: there is no whole log, or none of its segments is plain any more.
    """
    verdict = verify(log)
    names = segment_names([path.name for path in log.iterdir()])
    boundaries = [] if not verdict.opens else list(_boundaries(log, names))
    if not boundaries:
        raise EventLogError(
            f"The log {log} gives no crashed copies: it is {verdict.kind}, with {len(names)} segments. "
            "Take a whole log with at least one segment that is not compressed."
        )
    for number in range(limit):
        ends = (0, len(boundaries) - 1)
        at = ends[number] if number < len(ends) else rng.randrange(len(boundaries))
        path = into / _COPY_NAME.format(number)
        path.mkdir(parents=True)
        for name in names[: boundaries[at].segment]:
            shutil.copyfile(log / name.name, path / name.name)
        _cut(log, path, boundaries[at], rng)
        (path / HEAD_NAME).write_bytes(_head(boundaries[: at + 1], rng))
        yield CrashedCopy(path, boundaries[at].place.sequence)


def _boundaries(log: Path, names: list[SegmentName]) -> Iterator[_Boundary]:
    disk = RealFileSystem()
    for at, name in enumerate(names):
        if name.compressed:
            continue
        following = names[at + 1].name if at + 1 < len(names) else None
        stop = None
        if following is not None:
            with open_source(disk, str(log), following) as source:
                stop = parse_segment_header(source.read(0, SEGMENT_HEADER_BYTES)).previous_offset_bytes
        with open_source(disk, str(log), name.name) as source:
            header = parse_segment_header(source.read(0, SEGMENT_HEADER_BYTES))
            place = Place(header.base_sequence - 1, header.previous_chain, 0, SEGMENT_HEADER_BYTES)
            frames = walk(source, header.stamp, place, stop or header.allocated_bytes)
            for _, _, after in frames:
                yield _Boundary(at, name.name, None, header, place, after.offset_bytes)
                place = after
            yield _Boundary(at, name.name, following, header, place, place.offset_bytes)


def _cut(log: Path, path: Path, boundary: _Boundary, rng: Random) -> None:
    """Write the last segment of a copy, and perhaps what there was of its successor."""
    end, next_bytes = boundary.place.offset_bytes, boundary.next_bytes
    with (log / boundary.name).open("rb") as whole, (path / boundary.name).open("wb") as copy:
        data = whole.read(next_bytes)
        copy.write(data[:end] + _torn(data[end:], rng))
        copy.truncate(os.fstat(whole.fileno()).st_size)
    if boundary.successor is not None and rng.choice((True, False)):
        with (log / boundary.successor).open("rb") as whole:
            header = whole.read(SEGMENT_HEADER_BYTES)
        (path / (boundary.successor + TEMPORARY_SUFFIX)).write_bytes(_torn(header, rng))


def _torn(data: bytes, rng: Random) -> bytes:
    """Make of each sector what an un-synced one may be: old (zeros), new, or garbage."""
    sectors = [data[start : start + SECTOR_BYTES] for start in range(0, len(data), SECTOR_BYTES)]
    return b"".join(rng.choice((bytes(len(one)), one, rng.randbytes(len(one)))) for one in sectors)


def _head(moments: list[_Boundary], rng: Random) -> bytes:
    """Make a HEAD as it may lie on the disk then: each slot of a moment before, or garbage, or empty."""
    head = bytearray(HEAD_BYTES)
    for offset in HEAD_SLOTS:
        moment = rng.choice(moments[-_LAGS:])
        slot = pack_slot(
            Head(
                moment.header.log_id,
                moment.header.epoch,
                moment.header.number,
                moment.place.offset_bytes,
                moment.place.sequence,
                moment.place.chain,
            )
        )
        if not moment.place.sequence:
            slot = bytes(len(slot))
        slot = rng.choice((slot, slot, bytes(len(slot)), rng.randbytes(len(slot))))
        head[offset : offset + len(slot)] = slot
    return bytes(head)
