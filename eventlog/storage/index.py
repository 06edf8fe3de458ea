"""Where to find an event: what is known of each segment, and a sparse index over its frames."""

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise

from .format import INDEX_STEP_BYTES, SEGMENT_HEADER_BYTES
from .framing import Place
from .header import SegmentHeader


class SparseIndex:
    """About one place for each 64 KiB of a segment, oldest first.

    One thread notes while others find: the list that a search looks at grows last.
    """

    def __init__(self, start: Place) -> None:
        self._places = [start]
        self._sequences = [start.sequence]
        self._noted_bytes = start.offset_bytes

    @property
    def start(self) -> Place:
        """The place before the segment's first frame."""
        return self._places[0]

    def note(self, place: Place) -> None:
        """Remember that a frame ends here and another begins, if the last place is far enough back."""
        if (
            place.offset_bytes - self._noted_bytes >= INDEX_STEP_BYTES
            and place.sequence > self._sequences[-1]
        ):
            self._noted_bytes = place.offset_bytes
            self._places.append(place)
            self._sequences.append(place.sequence)

    def find(self, sequence: int) -> Place:
        """The nearest place before the frame that holds `sequence`."""
        at = bisect_right(self._sequences, sequence - 1)
        return self._places[max(0, at - 1)]


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
