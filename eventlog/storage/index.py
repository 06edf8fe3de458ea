"""Where to find an event: what is known of each segment, and a sparse index over its frames.

A compressed segment has an index in its file, so nothing of it is held here but where it begins.
"""

from array import array
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise

from .format import INDEX_STEP_BYTES, SEGMENT_HEADER_BYTES, ZERO_CHAIN
from .framing import Place
from .header import SegmentHeader

CHAIN_BYTES = len(ZERO_CHAIN)


class SparseIndex:
    """About one place for each 64 KiB of a plain segment, oldest first, in 56 bytes each.

    One thread notes while others find: the column that a search looks at grows last.
    """

    def __init__(self, start: Place) -> None:
        self.start = start
        self._chains = bytearray()
        self._times = array("Q")
        self._offsets = array("Q")
        self._sequences = array("Q")
        self._noted_bytes = start.offset_bytes
        self._noted_sequence = start.sequence

    def note(self, place: Place) -> None:
        """Remember that a frame ends here and another begins, if the last place is far enough back."""
        if (
            place.offset_bytes - self._noted_bytes >= INDEX_STEP_BYTES
            and place.sequence > self._noted_sequence
        ):
            self._noted_bytes, self._noted_sequence = place.offset_bytes, place.sequence
            self._chains += place.chain
            self._times.append(place.time_ns)
            self._offsets.append(place.offset_bytes)
            self._sequences.append(place.sequence)

    def find(self, sequence: int) -> Place:
        """The nearest place before the frame that holds `sequence`."""
        at = bisect_right(self._sequences, sequence - 1) - 1
        if at < 0:
            return self.start
        chain = bytes(self._chains[CHAIN_BYTES * at : CHAIN_BYTES * (at + 1)])
        return Place(self._sequences[at], chain, self._times[at], self._offsets[at])


@dataclass(slots=True)
class SegmentMap:
    """A segment as far as it is known. `end_bytes` is None while it is the last one and may grow."""

    name: str
    header: SegmentHeader
    index: SparseIndex
    end_bytes: int | None = None

    @property
    def stop_bytes(self) -> int:
        """No frame of the log reaches behind this offset."""
        return self.header.allocated_bytes if self.end_bytes is None else self.end_bytes

    def is_replaced_by(self, twin: str) -> None:
        """From now on the segment is read from its compressed twin, which has an index of its own."""
        self.name = twin
        self.index = SparseIndex(self.index.start)


@dataclass(slots=True)
class Catalog:
    """The segments of a log, by number; each begins where its predecessor ends."""

    segments: list[SegmentMap] = field(default_factory=list)
    bases: list[int] = field(default_factory=list)

    def add(self, name: str, header: SegmentHeader, before: Place) -> SegmentMap:
        """Take in the next segment; its predecessor ends at `before`, for ever."""
        if self.segments:
            self.segments[-1].end_bytes = before.offset_bytes
        start = before._replace(offset_bytes=SEGMENT_HEADER_BYTES)
        segment = SegmentMap(name, header, SparseIndex(start))
        self.segments.append(segment)
        self.bases.append(header.base_sequence)
        return segment

    def sealed(self) -> Iterator[tuple[SegmentMap, Place]]:
        """Each segment that has a successor, and where its last frame ends: where the successor begins."""
        for segment, successor in pairwise(self.segments):
            yield segment, successor.index.start._replace(offset_bytes=segment.stop_bytes)

    def keep(self, count: int) -> None:
        """Forget all but the first `count` segments; the last of them may grow again."""
        del self.segments[count:], self.bases[count:]
        if self.segments:
            self.segments[-1].end_bytes = None

    def find(self, sequence: int) -> int:
        """The place in `segments` of the one that holds `sequence`. Empty ones share the next one's base."""
        return max(0, bisect_right(self.bases, sequence) - 1)
