"""Finding frames in a segment that may be damaged, and saying how far each of them can be believed.

What continues the chain is believed whatever else is wrong with it: SHA-256 outranks the checksums. What
stands behind a gap is believed for its checksums. With the segment's header its salt is lost too; then a
frame's header is held to what it must say, and its body to its checksum.

Every byte is looked at a bounded number of times, whatever the bytes are.
"""

from dataclasses import dataclass
from typing import NamedTuple, Protocol

from xxhash import xxh3_64_intdigest

from .format import (
    COMMIT,
    FRAME_FIELDS,
    FRAME_HEADER_BYTES,
    FRAME_MAGIC,
    FRAME_VERSION,
    MAX_COMMIT_BYTES,
    MEBIBYTE,
    SEAL,
    SECTOR_BYTES,
    U64_MAX,
    padded,
)
from .framing import FrameHeader, Place, Stamp, header_problem, next_chain, parse_header, table_is_sound
from .salvage_source import TolerantSource

_ALWAYS_TRIED_BYTES = 8 * SECTOR_BYTES
_TRIES = 4  # so many times the file's size may be hashed in vain


@dataclass(slots=True)
class Identity:
    """The log's id, which every chain value covers. Not `sure`: taken from a damaged header; None: lost."""

    log_id: bytes | None
    sure: bool


class Frame(NamedTuple):
    """A frame that is believed.

    `chained` says that it continues the chain of what is before it, `salted` that its header's checksum is
    right. `flaw` is what is wrong with it all the same.
    """

    header: FrameHeader
    body: bytes
    chained: bool
    salted: bool
    flaw: str | None


class Bounds(NamedTuple):
    """What a frame that is looked for must lie within: a place in the file, and event numbers."""

    stop_bytes: int
    lowest: int
    highest: int


class Frames(Protocol):
    """The frames of one file of the log.

    `promised` is the last event that anything seen in it promises; `cut` says why its end is not there.
    """

    promised: int
    cut: str | None

    def at(self, place: Place, stop_bytes: int) -> Frame | str:
        """The frame that stands at `place` and continues what is before it, or why there is none."""

    def find(self, place: Place, bounds: Bounds) -> Frame | None:
        """The next frame from `place` on whose events come later, whatever is before it."""

    def used_bytes(self, offset: int, stop_bytes: int) -> int:
        """How many bytes lie between `offset` and the last that is not zero."""

    def unread(self, offset: int) -> str | None:
        """Why bytes behind `offset` could not be read; None if all that was looked at could."""


class PlainFrames:
    """The frames of a plain file. `stamp` is what its header says, or what is left of a damaged one."""

    def __init__(
        self, source: TolerantSource, stamp: Stamp, identity: Identity, *, whole_header: bool, cut: str | None
    ) -> None:
        self.promised = 0
        self.cut = cut
        self._source = source
        self._stamp = stamp
        self._identity = identity
        self._salt_is_known = whole_header
        self._cursor = 0
        self._hit: FrameHeader | None = None
        self._to_spare_bytes = _TRIES * source.size_bytes + MEBIBYTE

    def at(self, place: Place, stop_bytes: int) -> Frame | str:
        """See Frames.

        Raises:
            LogUnsupported: a whole frame is of a version this program does not know.
        """
        stop = min(stop_bytes, self._source.size_bytes)
        offset = place.offset_bytes
        if offset + FRAME_HEADER_BYTES > stop:
            return "the segment ends there"
        buffer, at = self._source.window(offset, FRAME_HEADER_BYTES)
        fields = FrameHeader._make(FRAME_FIELDS.unpack_from(buffer, at))
        header = self._parse(buffer, at, offset)
        problem = self._problem(header, place, stop)
        if header is not None and problem is None and header.kind == SEAL:
            chained = header.chain == place.chain
            return Frame(header, b"", chained, self._salt_is_known, None) if chained else _OTHER_CHAIN
        frame = self._by_chain(fields, place, stop, problem)
        if frame is not None or header is None or problem is not None:
            return frame or problem or ""
        if self._identity.sure:
            return _OTHER_CHAIN
        self._identity.log_id = None  # what was left of a damaged header was not the log's id
        return Frame(
            header, self._body(header), chained=False, salted=self._salt_is_known, flaw=self._flaw(header)
        )

    def _problem(self, header: FrameHeader | None, place: Place, stop: int) -> str | None:
        """What is wrong with what stands at `place`, but for the chain."""
        if header is None:
            return "no whole frame begins there"
        return header_problem(header, place, stop) or _body_problem(header, self._body(header))

    def find(self, place: Place, bounds: Bounds) -> Frame | None:
        """See Frames.

        Raises:
            LogUnsupported: as `at`.
        """
        stop = min(bounds.stop_bytes, self._source.size_bytes)
        hit = self._hit
        if hit is None or not (
            hit.offset_bytes >= place.offset_bytes and hit.first_sequence > place.sequence
        ):
            self._cursor = max(self._cursor, place.offset_bytes)
            hit = self._hit = self._next(place.sequence, bounds._replace(stop_bytes=stop))
        if hit is None:
            return None
        return Frame(hit, self._body(hit), chained=False, salted=self._salt_is_known, flaw=self._flaw(hit))

    def used_bytes(self, offset: int, stop_bytes: int) -> int:
        """See Frames."""
        used, at, stop = offset, offset, min(stop_bytes, self._source.size_bytes)
        while at < stop:
            buffer, start = self._source.window(at, min(MEBIBYTE, stop - at))
            piece = buffer[start : start + min(MEBIBYTE, stop - at)]
            kept = len(piece.rstrip(b"\0"))
            used = at + kept if kept else used
            at += len(piece)
        return used - offset

    def unread(self, offset: int) -> str | None:
        """See Frames."""
        found = self._source.unread(offset)
        return None if found is None else found.why

    def _next(self, sequence: int, bounds: Bounds) -> FrameHeader | None:
        """Go on from the cursor to a header, with its body, that may be believed."""
        while self._cursor + FRAME_HEADER_BYTES <= bounds.stop_bytes:
            buffer, at = self._source.window(self._cursor, SECTOR_BYTES)
            start = self._cursor - at
            hit = buffer.find(FRAME_MAGIC, at)
            while hit >= 0 and (start + hit) % SECTOR_BYTES:
                hit = buffer.find(FRAME_MAGIC, hit + 1)
            if hit < 0:
                self._cursor = start + len(buffer) - len(buffer) % SECTOR_BYTES
                self._cursor = max(self._cursor, start + at + SECTOR_BYTES)
                continue
            offset = start + hit
            self._cursor = offset + SECTOR_BYTES
            header = self._parse(buffer, hit, offset)
            if header is not None and self._is_wanted(header, sequence, bounds):
                return header
        return None

    def _is_wanted(self, header: FrameHeader, sequence: int, bounds: Bounds) -> bool:
        last = header.first_sequence + header.events - 1
        return (
            header.kind == COMMIT
            and header.stored_bytes == header.raw_bytes <= MAX_COMMIT_BYTES
            and header.end_bytes <= bounds.stop_bytes
            and max(sequence + 1, bounds.lowest) <= header.first_sequence <= last <= bounds.highest
            and self._may_try(header.stored_bytes)
            and _body_problem(header, self._body(header)) is None
        )

    def _may_try(self, size_bytes: int) -> bool:
        """Whether a body of that size may be hashed, perhaps in vain: bytes made to deceive cost no more."""
        if size_bytes > self._to_spare_bytes:
            return size_bytes <= _ALWAYS_TRIED_BYTES
        self._to_spare_bytes -= size_bytes
        return True

    def _parse(self, buffer: bytes, at: int, offset: int) -> FrameHeader | None:
        """The header at `buffer[at:]`, by its checksum; without the salt, if it says what it must say."""
        if len(buffer) - at < FRAME_HEADER_BYTES or not buffer.startswith(FRAME_MAGIC, at):
            return None
        fields = FrameHeader._make(FRAME_FIELDS.unpack_from(buffer, at))
        stamp = self._stamp if self._salt_is_known else self._stamp._replace(epoch=fields.epoch)
        header = parse_header(buffer, at, offset, stamp)
        if header is not None:
            # One right checksum proves what was left of a damaged header: the salt is the one that was used.
            self._stamp, self._salt_is_known = stamp, True
            self.promised = max(self.promised, header.watermark)
            return header
        plausible = (
            fields.version == FRAME_VERSION
            and fields.kind in (COMMIT, SEAL)
            and fields.flags == 0
            and fields.offset_bytes == offset
            and fields.watermark < fields.first_sequence
            and fields.stored_bytes == fields.raw_bytes <= MAX_COMMIT_BYTES
        )
        return fields if plausible and not self._salt_is_known else None

    def _body(self, header: FrameHeader) -> bytes:
        start = header.offset_bytes + FRAME_HEADER_BYTES
        buffer, at = self._source.window(header.offset_bytes, FRAME_HEADER_BYTES + header.stored_bytes)
        at += start - header.offset_bytes
        return buffer[at : at + header.stored_bytes]

    def _flaw(self, header: FrameHeader) -> str | None:
        """What fills the frame up must be zero; its events are none the worse."""
        used = header.offset_bytes + FRAME_HEADER_BYTES + header.stored_bytes
        end = padded(used)
        buffer, at = self._source.window(header.offset_bytes, end - header.offset_bytes)
        padding = buffer[at + used - header.offset_bytes : at + end - header.offset_bytes]
        return "the bytes that fill up the frame are not zero" if padding.strip(b"\0") else None

    def _by_chain(self, fields: FrameHeader, place: Place, stop: int, problem: str | None) -> Frame | None:
        """What stands at `place`, if it continues the chain, whatever its checksums say."""
        log_id, size = self._identity.log_id, fields.raw_bytes
        end = place.offset_bytes + padded(FRAME_HEADER_BYTES + size)
        if (
            log_id is None
            or fields.first_sequence != place.sequence + 1
            or not 0 < fields.events <= U64_MAX - place.sequence
            or size > MAX_COMMIT_BYTES
            or end > stop
            or not self._may_try(size)
        ):
            return None
        mended = fields._replace(kind=COMMIT, offset_bytes=place.offset_bytes, stored_bytes=size)
        body = self._body(mended)
        epoch = self._stamp.epoch if self._salt_is_known else fields.epoch
        chain = next_chain(Stamp(log_id, epoch, 0), place, fields.events, fields.time_ns, body)
        if chain != fields.chain or not table_is_sound(body, fields.events):
            return None
        self._identity.sure = True
        flaw = problem or self._flaw(mended)
        mended = mended._replace(epoch=epoch)
        return Frame(mended, body, chained=True, salted=self._salt_is_known, flaw=flaw)


_OTHER_CHAIN = "the frame's chain value does not continue the chain"


def _body_problem(header: FrameHeader, body: bytes) -> str | None:
    if len(body) != header.stored_bytes or xxh3_64_intdigest(body) != header.body_checksum:
        return "the frame's body does not match its checksum"
    if not table_is_sound(body, max(header.events, 1)):
        return "the frame's table of events does not fit its body"
    return None
