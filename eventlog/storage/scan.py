"""Walking a segment: the longest chain of whole frames, and the evidence that lies behind its end.

Both are O(n) in the bytes looked at, and hold one window and one frame in memory.
"""

from collections.abc import Generator

from .format import (
    FRAME_HEADER_BYTES,
    FRAME_MAGIC,
    SEAL,
    SECTOR_BYTES,
    U64_MAX,
)
from .framing import FrameHeader, Place, Stamp, body_problem, header_problem, parse_header, take_commit
from .source import Source

Walk = Generator[tuple[FrameHeader, bytes, Place], None, str]


def walk(source: Source, stamp: Stamp, place: Place, stop_bytes: int) -> Walk:
    """Yield each frame that continues the chain as (header, body, place after it); return why it ended.

    The walk begins at `place` and never takes a frame that reaches over `stop_bytes`. What it yields is
    verified: both checksums, its own offset, its sequence and its chain value.

    Raises:
        LogUnreadable: a read failed.
        LogUnsupported: a whole frame is of a version, type or flag this program does not know.
    """
    while place.offset_bytes + FRAME_HEADER_BYTES <= stop_bytes:
        offset = place.offset_bytes
        buffer, at = source.window(offset, FRAME_HEADER_BYTES)
        taken = take_commit(buffer, at, place, stamp, stop_bytes)
        if taken is not None:
            place = taken[2]
            yield taken
            continue
        header = parse_header(buffer, at, offset, stamp)
        if header is None:
            return "no whole frame begins there"
        problem = header_problem(header, place, stop_bytes)
        if problem is not None:
            return problem
        end_bytes = header.end_bytes
        size = end_bytes - offset
        buffer, at = source.window(offset, size)
        end = at + FRAME_HEADER_BYTES + header.stored_bytes
        body = buffer[at + FRAME_HEADER_BYTES : end]
        problem = body_problem(header, body, buffer[end : at + size], place, stamp)
        if problem is not None or len(buffer) < at + size:
            return problem or "the file ends inside the frame"
        place = Place(place.sequence + header.events, header.chain, header.time_ns, end_bytes)
        yield header, body, place
        if header.kind == SEAL:
            return "the segment is sealed there"
    return "the segment ends there"


class Evidence:
    """What lies behind the end of the chain in the last segment.

    `promised_sequence` is the largest watermark in any frame header that is whole and belongs there (0:
    none); `torn_bytes` reaches from the end to the last byte that is not zero (0: nothing but zeros).
    """

    def __init__(self) -> None:
        self.promised_sequence = 0
        self.torn_bytes = 0


def look_behind(source: Source, stamp: Stamp, end_bytes: int) -> Evidence:
    """Look at every byte from the end of the chain to the end of the file.

    A body may be torn while its header is whole: the header's watermark counts all the same, because it was
    durable before the header was written.
    """
    evidence = Evidence()
    carry = b""
    for offset, piece in source.pieces(end_bytes, U64_MAX):
        used = len(piece.rstrip(b"\0"))
        if used:
            evidence.torn_bytes = offset + used - end_bytes
        if used or carry:
            _look_at(carry + piece, offset - len(carry), stamp, evidence)
        # A header may lie across two pieces, so the next one is looked at together with the end of this one.
        carry = piece[-(FRAME_HEADER_BYTES - 1) :] if used else b""
    return evidence


def _look_at(data: bytes, offset: int, stamp: Stamp, evidence: Evidence) -> None:
    at = data.find(FRAME_MAGIC)
    while at >= 0:
        if (offset + at) % SECTOR_BYTES == 0:
            header = parse_header(data, at, offset + at, stamp)
            if header is not None:
                evidence.promised_sequence = max(evidence.promised_sequence, header.watermark)
        at = data.find(FRAME_MAGIC, at + 1)
