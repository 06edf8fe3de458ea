"""What a block of a compressed segment says before compression: some commits, without what can be computed.

Offsets, chain values and checksums of the frames follow from the place where the block begins and from the
bodies, and no compressor makes them smaller. So a block keeps, for each commit, its event count, the size of
its body and the time since the one before, each in a column of its own, and then the bodies.
"""

from collections.abc import Sequence
from itertools import accumulate, pairwise
from struct import calcsize, pack, unpack_from
from typing import NamedTuple

from .format import U32, U64_MAX
from .framing import FrameHeader, Place, Stamp, commit_header, seal_header, table_is_sound

Frame = tuple[FrameHeader, bytes, Place]
"""A frame's header, its body, and the place after it."""


class BlockCommit(NamedTuple):
    """One commit in a block; `step_ns` is the time since the commit before it."""

    events: int
    step_ns: int
    body: bytes


def _columns(count: int) -> str:
    return f"<{count}I{count}I{count}Q"


def join_block(commits: Sequence[BlockCommit]) -> bytes:
    """The block of these commits."""
    counts, steps, bodies = zip(*commits, strict=True)
    columns = pack(_columns(len(commits)), *counts, *map(len, bodies), *steps)
    return b"".join((U32.pack(len(commits)), columns, *bodies))


def split_block(block: bytes) -> list[BlockCommit] | None:
    """The commits of a block, or None when its columns do not describe it."""
    if len(block) < U32.size:
        return None
    (count,) = U32.unpack_from(block)
    columns = _columns(count)
    start = U32.size + calcsize(columns)
    if count == 0 or start > len(block):
        return None
    fields: tuple[int, ...] = unpack_from(columns, block, U32.size)
    counts, sizes, steps = fields[:count], fields[count : 2 * count], fields[2 * count :]
    if start + sum(sizes) != len(block) or min(counts) == 0:
        return None
    ends = pairwise(accumulate(sizes, initial=start))
    return [
        BlockCommit(events, step, block[low:high])
        for events, step, (low, high) in zip(counts, steps, ends, strict=True)
    ]


def frames_of(commits: Sequence[BlockCommit], stamp: Stamp, place: Place) -> list[Frame] | None:
    """The frames that the plain segment had from `place` on, each with the place after it.

    None when no frame can say what a commit says of itself: a time out of range, events that do not fit.
    """
    frames = []
    for events, step_ns, body in commits:
        time_ns = place.time_ns + step_ns
        if time_ns > U64_MAX or not table_is_sound(body, events):
            return None
        header = commit_header(stamp, place, events, time_ns, body)
        place = Place(place.sequence + events, header.chain, time_ns, header.end_bytes)
        frames.append((header, body, place))
    return frames


def seal_frame(stamp: Stamp, place: Place) -> Frame:
    """The SEAL that stands at `place`."""
    header = seal_header(stamp, place)
    return header, b"", place._replace(offset_bytes=header.end_bytes)
