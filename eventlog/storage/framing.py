"""A commit <-> the bytes of its frame."""

from collections.abc import Sequence
from hashlib import sha256
from itertools import accumulate, pairwise
from struct import pack, unpack_from
from typing import NamedTuple

from xxhash import xxh3_64_intdigest

from ..errors import LogUnsupported
from .format import (
    COMMIT,
    FRAME_FIELDS,
    FRAME_HEADER_BYTES,
    FRAME_MAGIC,
    FRAME_VERSION,
    KNOWN_FRAME_FLAGS,
    LOGICAL_FIELDS,
    MAX_COMMIT_BYTES,
    SEAL,
    SEAL_BYTES,
    SECTOR_BYTES,
    U32,
    U64,
    padded,
)

_JOINED_BYTES = 2048
_PADDING = bytes(SECTOR_BYTES)


class Place(NamedTuple):
    """Where a walk along the chain stands: after the commit that ends at `sequence`, at `offset_bytes`."""

    sequence: int
    chain: bytes
    time_ns: int
    offset_bytes: int


class Stamp(NamedTuple):
    """What the frames of one segment have in common."""

    log_id: bytes
    epoch: int
    salt: int


class FrameHeader(NamedTuple):
    """A frame's header, its checksum already found right."""

    magic: bytes
    version: int
    kind: int
    flags: int
    stored_bytes: int
    raw_bytes: int
    events: int
    epoch: int
    first_sequence: int
    watermark: int
    offset_bytes: int
    time_ns: int
    chain: bytes
    body_checksum: int

    @property
    def end_bytes(self) -> int:
        """The place after this frame and its padding."""
        return self.offset_bytes + padded(FRAME_HEADER_BYTES + self.stored_bytes)


def body_bytes(payloads: Sequence[bytes]) -> int:
    """The raw size of the commit that these payloads make."""
    if len(payloads) == 1:
        return len(payloads[0])
    return U32.size * len(payloads) + sum(map(len, payloads))


def join_body(payloads: Sequence[bytes]) -> bytes:
    """The events' end offsets when there is more than one, then the events."""
    count = len(payloads)
    if count == 1:
        return payloads[0]
    table = pack(f"<{count}I", *accumulate(map(len, payloads)))
    return b"".join((table, *payloads))


def split_body(body: bytes, count: int) -> list[bytes] | None:
    """The events of a body, or None when its table of offsets does not describe it."""
    if count == 1:
        return [body]
    ends = _event_ends(body, count)
    if ends is None:
        return None
    events = body[U32.size * count :]
    return [events[low:high] for low, high in pairwise((0, *ends))]


def table_is_sound(body: bytes, count: int) -> bool:
    """Whether the table of end offsets describes the body exactly."""
    return count == 1 or _event_ends(body, count) is not None


def _event_ends(body: bytes, count: int) -> tuple[int, ...] | None:
    table = U32.size * count
    if table > len(body):
        return None
    ends: tuple[int, ...] = unpack_from(f"<{count}I", body)
    # Sorting what is sorted is one pass in C, many times faster than a loop here.
    return ends if ends[-1] == len(body) - table and sorted(ends) == list(ends) else None


def next_chain(stamp: Stamp, before: Place, count: int, time_ns: int, body: bytes) -> bytes:
    """SHA-256 over the previous chain value, the logical header and the raw body."""
    logical = LOGICAL_FIELDS.pack(stamp.log_id, stamp.epoch, count, len(body), before.sequence + 1, time_ns)
    if len(body) < _JOINED_BYTES:  # copying so little costs less than another call
        return sha256(before.chain + logical + body).digest()
    digest = sha256(before.chain + logical)
    digest.update(body)
    return digest.digest()


def pack_header(fields: FrameHeader, salt: int) -> bytes:
    """The header's bytes with its checksum, which is seeded with the segment's salt."""
    packed = FRAME_FIELDS.pack(*fields)
    return packed + U64.pack(xxh3_64_intdigest(packed, salt))


def commit_header(stamp: Stamp, before: Place, count: int, time_ns: int, body: bytes) -> FrameHeader:
    """The header of the frame at `before` that holds this body.

    The watermark is the sequence before: whatever precedes a frame was synced before the frame is written.
    """
    size = len(body)
    return FrameHeader._make(
        (
            FRAME_MAGIC,
            FRAME_VERSION,
            COMMIT,
            0,
            size,
            size,
            count,
            stamp.epoch,
            before.sequence + 1,
            before.sequence,
            before.offset_bytes,
            time_ns,
            next_chain(stamp, before, count, time_ns, body),
            xxh3_64_intdigest(body),
        )
    )


def seal_header(stamp: Stamp, before: Place) -> FrameHeader:
    """The header of the seal at `before`, which closes a full segment and repeats its chain value."""
    return FrameHeader(
        FRAME_MAGIC,
        FRAME_VERSION,
        SEAL,
        0,
        0,
        0,
        0,
        stamp.epoch,
        before.sequence + 1,
        before.sequence,
        before.offset_bytes,
        before.time_ns,
        before.chain,
        xxh3_64_intdigest(b""),
    )


def build_commit(stamp: Stamp, before: Place, time_ns: int, payloads: Sequence[bytes]) -> tuple[bytes, Place]:
    """The frame that makes these events durable together, and the place after it."""
    body = join_body(payloads)
    count = len(payloads)
    header = commit_header(stamp, before, count, time_ns, body)
    used = FRAME_HEADER_BYTES + len(body)
    frame = b"".join((pack_header(header, stamp.salt), body, bytes(padded(used) - used)))
    return frame, Place(before.sequence + count, header.chain, time_ns, before.offset_bytes + len(frame))


def build_seal(stamp: Stamp, before: Place) -> tuple[bytes, Place]:
    """The frame that closes a full segment, and the place after it."""
    frame = pack_header(seal_header(stamp, before), stamp.salt).ljust(SEAL_BYTES, b"\0")
    return frame, before._replace(offset_bytes=before.offset_bytes + len(frame))


def parse_header(data: bytes, at: int, offset_bytes: int, stamp: Stamp) -> FrameHeader | None:
    """The header at `data[at:]`, which stands at `offset_bytes` of its segment; None when none stands there.

    Raises:
        LogUnsupported: the checksum is right, and version, type or flags are from a newer program.
    """
    if not data.startswith(FRAME_MAGIC, at) or len(data) - at < FRAME_HEADER_BYTES:
        return None
    end = at + FRAME_FIELDS.size
    if U64.unpack_from(data, end)[0] != xxh3_64_intdigest(data[at:end], stamp.salt):
        return None
    header = FrameHeader._make(FRAME_FIELDS.unpack_from(data, at))
    if (
        header.version != FRAME_VERSION
        or header.kind not in (COMMIT, SEAL)
        or header.flags & ~KNOWN_FRAME_FLAGS
    ):
        raise LogUnsupported(
            f"A frame at byte {offset_bytes} has version {header.version}, type {header.kind} and flags "
            f"{header.flags:#06x}; this program knows version {FRAME_VERSION}, types {COMMIT} and {SEAL}, "
            "no flags. Upgrade evrun to read this log."
        )
    if header.offset_bytes != offset_bytes or header.epoch != stamp.epoch:
        return None
    return header


def header_problem(header: FrameHeader, place: Place, stop_bytes: int) -> str | None:
    """Why a header does not continue the chain at `place`, or None when it does."""
    if header.first_sequence != place.sequence + 1:
        return f"the frame begins at event {header.first_sequence}, expected {place.sequence + 1}"
    if header.watermark > place.sequence:
        return f"the frame says that event {header.watermark} was durable before it"
    if header.time_ns < place.time_ns:
        return "the frame is older than the one before it"
    if header.stored_bytes != header.raw_bytes or header.raw_bytes > MAX_COMMIT_BYTES:
        return f"the frame says it holds {header.raw_bytes} bytes"
    if header.end_bytes > stop_bytes:
        return f"the frame reaches over byte {stop_bytes}, where its segment ends"
    empty = header.events == 0 and header.raw_bytes == 0
    if empty != (header.kind == SEAL):
        return "the frame's event count does not fit its type"
    return None


def body_problem(header: FrameHeader, body: bytes, padding: bytes, place: Place, stamp: Stamp) -> str | None:
    """Why a body is not the one that the header describes, or None when it is."""
    if len(body) != header.stored_bytes or xxh3_64_intdigest(body) != header.body_checksum:
        return "the frame's body does not match its checksum"
    if padding.strip(b"\0"):
        return "the bytes that fill up the frame are not zero"
    if header.kind == SEAL:
        return None if header.chain == place.chain else "the seal's chain value does not continue the chain"
    if header.chain != next_chain(stamp, place, header.events, header.time_ns, body):
        return "the frame's chain value does not continue the chain"
    if not table_is_sound(body, header.events):
        return "the frame's table of events does not fit its body"
    return None


def take_commit(
    data: bytes, at: int, place: Place, stamp: Stamp, stop_bytes: int
) -> tuple[FrameHeader, bytes, Place] | None:
    """The commit at `data[at:]` if it is exactly what a writer at `place` makes of its body; else None.

    The quick way through a whole log: one comparison with the header that is made anew instead of a question
    for each field. None says nothing; `parse_header`, `header_problem` and `body_problem` do.
    """
    start = at + FRAME_HEADER_BYTES
    if start > len(data):
        return None
    checksum_at = start - U64.size
    if U64.unpack_from(data, checksum_at)[0] != xxh3_64_intdigest(data[at:checksum_at], stamp.salt):
        return None
    header = FrameHeader._make(FRAME_FIELDS.unpack_from(data, at))
    size, count, time_ns = header.raw_bytes, header.events, header.time_ns
    used = start + size
    after = at + padded(FRAME_HEADER_BYTES + size)
    end_bytes = place.offset_bytes + after - at
    if after > len(data) or end_bytes > stop_bytes or size > MAX_COMMIT_BYTES:
        return None
    body = data[start:used]
    if (
        count == 0
        or time_ns < place.time_ns
        or header != commit_header(stamp, place, count, time_ns, body)
        or data[used:after] != _PADDING[: after - used]
        or not table_is_sound(body, count)
    ):
        return None
    return header, body, Place(place.sequence + count, header.chain, time_ns, end_bytes)
