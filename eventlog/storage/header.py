"""A segment's header <-> its 4,096 bytes."""

from dataclasses import dataclass

from xxhash import xxh3_64_intdigest

from ..errors import LogUnsupported
from .format import (
    CHECKSUM_XXH3_64,
    CODEC_PLAIN,
    CODEC_ZSTD,
    FORMAT_MAJOR,
    FORMAT_MINOR,
    HASH_SHA_256,
    KNOWN_FLAGS,
    SEGMENT_CHECKSUM_OFFSET,
    SEGMENT_FIELDS,
    SEGMENT_HEADER_BYTES,
    SEGMENT_MAGIC,
    SEGMENT_VERSION,
    U64,
)
from .framing import Stamp


@dataclass(frozen=True, slots=True)
class SegmentHeader:
    """What a segment says about itself and about where its predecessor ended.

    `previous_number` is 0 in the first segment; its previous end is sequence 0 and the zero chain. `salt`
    seeds the header checksums of the segment's frames. Nothing of the log lies behind `allocated_bytes`,
    which counts plain bytes in a compressed segment too.
    """

    log_id: bytes
    number: int
    base_sequence: int
    epoch: int
    codec: int
    preallocated: bool
    salt: int
    allocated_bytes: int
    previous_number: int
    previous_sequence: int
    previous_offset_bytes: int
    previous_chain: bytes
    created_ns: int

    @property
    def stamp(self) -> Stamp:
        """What this segment's frames have in common."""
        return Stamp(self.log_id, self.epoch, self.salt)


class NotAHeader(ValueError):
    """The block is no segment header: damage, for a segment is named only after its header is synced."""


def pack_segment_header(header: SegmentHeader) -> bytes:
    """The header's block."""
    fields = SEGMENT_FIELDS.pack(
        SEGMENT_MAGIC,
        FORMAT_MAJOR,
        FORMAT_MINOR,
        KNOWN_FLAGS,
        header.log_id,
        header.number,
        header.base_sequence,
        header.epoch,
        CHECKSUM_XXH3_64,
        HASH_SHA_256,
        header.codec,
        header.preallocated,
        header.salt,
        header.allocated_bytes,
        header.previous_number,
        header.previous_sequence,
        header.previous_offset_bytes,
        header.previous_chain,
        header.created_ns,
    )
    return pack_block(fields)


def pack_block(fields: bytes) -> bytes:
    """The block that begins with these fields and ends with its own checksum."""
    block = fields.ljust(SEGMENT_CHECKSUM_OFFSET, b"\0")
    return block + U64.pack(xxh3_64_intdigest(block))


def block_is_whole(block: bytes) -> bool:
    """Whether a block ends with its own checksum. It must have its full size."""
    (found,) = U64.unpack_from(block, SEGMENT_CHECKSUM_OFFSET)
    return bool(found == xxh3_64_intdigest(block[:SEGMENT_CHECKSUM_OFFSET]))


def parse_segment_header(block: bytes) -> SegmentHeader:
    """The header in a block.

    Raises:
        LogUnsupported: the magic is right and the version, a flag or an algorithm is unknown.
        NotAHeader: anything else is wrong.
    """
    if len(block) < SEGMENT_HEADER_BYTES or not block.startswith(SEGMENT_MAGIC):
        raise NotAHeader("the file does not begin with a segment header")
    whole = block_is_whole(block)
    _, major, minor, flags = SEGMENT_VERSION.unpack_from(block)
    _refuse_unknown(f"format {major}.{minor} with feature flags {flags:#x}", major, flags, whole=whole)
    if not whole:
        raise NotAHeader("the segment header does not match its checksum")
    _, _, _, _, log_id, number, base, epoch, checksum, digest, codec, preallocated, *rest = (
        SEGMENT_FIELDS.unpack_from(block)
    )
    if (checksum, digest) != (CHECKSUM_XXH3_64, HASH_SHA_256) or codec not in (CODEC_PLAIN, CODEC_ZSTD):
        raise LogUnsupported(
            f"The segment uses checksum {checksum}, hash {digest} and codec {codec}; this program knows "
            f"{CHECKSUM_XXH3_64}, {HASH_SHA_256}, and {CODEC_PLAIN} or {CODEC_ZSTD}. "
            "Upgrade evrun to read this log."
        )
    return SegmentHeader(log_id, number, base, epoch, codec, bool(preallocated), *rest)


def _refuse_unknown(found: str, major: int, flags: int, *, whole: bool) -> None:
    if major == FORMAT_MAJOR and not flags & ~KNOWN_FLAGS:
        return
    doubt = (
        ""
        if whole
        else " (or the header is damaged: its checksum is not that of a version this program knows)"
    )
    raise LogUnsupported(
        f"The segment is of {found}{doubt}; this program knows format {FORMAT_MAJOR}.x and no flags. "
        "Upgrade evrun to read this log."
    )
