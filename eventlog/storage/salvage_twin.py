"""The frames of a compressed segment that may be damaged. Its blocks are damaged singly.

Chain values are computed and not stored in it, so a block counts as whole only if it leads from the place
where the index says that it begins to the place where the next one does.
"""

from bisect import bisect_right

from .blocks import Frame as Unpacked
from .blocks import seal_frame
from .format import SEAL, SEGMENT_HEADER_BYTES
from .framing import Place, Stamp
from .header import NotAHeader
from .salvage_frames import Bounds, Frame, Identity
from .salvage_index import FoundBlocks
from .salvage_source import TolerantSource
from .twin_reader import Blocks, CompressedSegment, Damaged


class TwinFrames:
    """The frames of a compressed file. See `salvage_frames.Frames`."""

    def __init__(self, source: TolerantSource, stamp: Stamp, identity: Identity) -> None:
        segment = CompressedSegment(source)
        self.promised = segment.promised_sequence()
        self.cut: str | None = None
        self._source = source
        self._identity = identity
        self._stamp = stamp._replace(log_id=identity.log_id or stamp.log_id)
        self._blocks: Blocks | None = None
        self._damaged: dict[int, str] = {}
        self._unpacked: tuple[int, list[tuple[Place, Unpacked]]] = (-1, [])
        self._hit: tuple[Place, Unpacked] | None = None
        self._searched = 0
        try:
            self._blocks = segment.blocks()
        except Damaged as error:
            self.cut = f"{source.name}: {error}"
        self._without_index = segment if self._blocks is None else None

    def at(self, place: Place, stop_bytes: int) -> Frame | str:
        """See Frames."""
        blocks = self._blocks or self._found(place)
        if blocks is None:
            return self.cut or ""
        end = blocks.end_of_commits
        if place.offset_bytes >= min(stop_bytes, end.offset_bytes) and not blocks.summary.sealed:
            return "the compressed segment ends there"
        number = len(blocks.entries) if place.offset_bytes >= end.offset_bytes else self._number(place)
        for before, frame in self._block(number):
            if before.offset_bytes == place.offset_bytes and frame[2].offset_bytes <= stop_bytes:
                if (before.sequence, before.chain) != (place.sequence, place.chain):
                    return "the frame's chain value does not continue the chain"
                # Its block leads from one place on the chain to the next only with the right id.
                self._identity.log_id, self._identity.sure = self._stamp.log_id, True
                return _believed(frame, chained=True)
        return self._damaged.get(number, "no frame begins there")

    def _found(self, place: Place) -> Blocks | None:
        """The blocks without the index: only where the chain is known up to the first of them."""
        segment, self._without_index = self._without_index, None
        if segment is None or place.offset_bytes != SEGMENT_HEADER_BYTES:
            return None
        try:
            found = FoundBlocks(self._source, segment.summary(), self._stamp, place)
        except NotAHeader:
            return None
        if found.entries:
            self._blocks, self.cut = found, None
        return self._blocks

    def find(self, place: Place, bounds: Bounds) -> Frame | None:
        """See Frames."""
        if self._blocks is None:
            return None
        if self._hit is None or not _is_later(self._hit, place, bounds):
            self._hit = self._next(place, bounds)
        return None if self._hit is None else _believed(self._hit[1], chained=False)

    def _next(self, place: Place, bounds: Bounds) -> tuple[Place, Unpacked] | None:
        assert self._blocks is not None
        number = max(self._searched, self._number(place))
        while number < len(self._blocks.entries):
            self._searched = number
            for found in self._block(number):
                if _is_later(found, place, bounds):
                    return found
            number += 1
        return None

    def used_bytes(self, offset: int, stop_bytes: int) -> int:
        """See Frames."""
        end = 0 if self._blocks is None else min(stop_bytes, self._blocks.summary.end.offset_bytes)
        return max(0, end - offset)

    def unread(self, offset: int) -> str | None:  # noqa: ARG002 - its offsets are not those of the file
        """See Frames."""
        found = self._source.unread(0)
        return None if found is None else found.why

    def _number(self, place: Place) -> int:
        """The block that a place in the plain segment lies in."""
        assert self._blocks is not None
        offsets = self._blocks.entries
        return max(0, bisect_right(offsets, place.offset_bytes, key=lambda entry: entry.offset_bytes) - 1)

    def _block(self, number: int) -> list[tuple[Place, Unpacked]]:
        """The frames of a block, each with the place before it; none if it is damaged."""
        assert self._blocks is not None
        if number in self._damaged:
            return []
        if self._unpacked[0] != number:
            try:
                self._unpacked = (number, self._unpack(number))
            except Damaged as error:
                self._damaged[number] = str(error)
                return []
        return self._unpacked[1]

    def _unpack(self, number: int) -> list[tuple[Place, Unpacked]]:
        assert self._blocks is not None
        if number == len(self._blocks.entries):
            end = self._blocks.end_of_commits
            return [(end, seal_frame(self._stamp, end))] if self._blocks.summary.sealed else []
        before, found = self._blocks.entries[number].start, []
        for frame in self._blocks.decode(number, self._stamp):
            found.append((before, frame))
            before = frame[2]
        return found


def _is_later(found: tuple[Place, Unpacked], place: Place, bounds: Bounds) -> bool:
    header, _, after = found[1]
    return (
        header.kind != SEAL
        and header.offset_bytes >= place.offset_bytes
        and header.first_sequence >= max(place.sequence + 1, bounds.lowest)
        and after.sequence <= bounds.highest
        and after.offset_bytes <= bounds.stop_bytes
    )


def _believed(frame: Unpacked, *, chained: bool) -> Frame:
    header, body, _ = frame
    return Frame(header, body, chained=chained, salted=True, flaw=None)
