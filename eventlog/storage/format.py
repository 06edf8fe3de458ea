"""Every number of the format, once. FORMAT.md beside this package says the same in prose.

All integers are little-endian and unsigned. Sizes are the sizes of the structs, or sums of them.
"""

from struct import Struct
from typing import Final

KIBIBYTE: Final = 1024
MEBIBYTE: Final = 1024 * KIBIBYTE

# What both segment headers and HEAD slots sit in, so that no two of them share a sector of any disk.
BLOCK_BYTES: Final = 4 * KIBIBYTE
# What a disk writes as a whole. A frame begins at a sector of its own: while it is being written, a power
# loss may leave garbage in any sector it touches, and none of them may hold a byte that is durable already.
SECTOR_BYTES: Final = 512

U32: Final = Struct("<I")
U64: Final = Struct("<Q")
U32_MAX: Final = 2**32 - 1
U64_MAX: Final = 2**64 - 1
CHAIN_BYTES: Final = 32
LOG_ID_BYTES: Final = 16
SALT_BYTES: Final = U64.size
ZERO_CHAIN: Final = bytes(CHAIN_BYTES)

# A high byte shows a transfer that lost its eighth bit, CR LF one that translated line ends, the control-Z
# stops a listing on a terminal that knows it.
SEGMENT_MAGIC: Final = b"\xe5EVL\r\n\x1a\n"
HEAD_MAGIC: Final = b"\xe5EVH\r\n\x1a\n"
FRAME_MAGIC: Final = b"\xe5EVF"

FORMAT_MAJOR: Final = 1
FORMAT_MINOR: Final = 0
KNOWN_FLAGS: Final = 0
CHECKSUM_XXH3_64: Final = 1
HASH_SHA_256: Final = 1
CODEC_PLAIN: Final = 0
CODEC_ZSTD: Final = 1

# magic, major, minor, incompatible flags, log id, number, base sequence, epoch, checksum id, hash id, codec
# id, preallocated, salt, allocated size, previous number, previous end sequence, previous end offset,
# previous chain, creation time
SEGMENT_FIELDS: Final = Struct("<8sHHI16sQQIBBBBQQQQQ32sQ")
SEGMENT_VERSION: Final = Struct("<8sHHI")
SEGMENT_CHECKSUM_OFFSET: Final = BLOCK_BYTES - U64.size
SEGMENT_HEADER_BYTES: Final = BLOCK_BYTES

FRAME_VERSION: Final = 1
COMMIT: Final = 1
SEAL: Final = 2
KNOWN_FRAME_FLAGS: Final = 0
# magic, version, type, flags, stored length, raw length, event count, epoch, first sequence, watermark, own
# offset, time, chain, body checksum
FRAME_FIELDS: Final = Struct("<4sBBHIIIIQQQQ32sQ")
FRAME_HEADER_BYTES: Final = FRAME_FIELDS.size + U64.size
SEAL_BYTES: Final = SECTOR_BYTES
# log id, epoch, event count, raw length, first sequence, time: what the chain covers beside the body
LOGICAL_FIELDS: Final = Struct("<16sIIIQQ")
MAX_COMMIT_BYTES: Final = 256 * MEBIBYTE

HEAD_VERSION: Final = 1
# magic, version, reserved, epoch, log id, segment number, end offset, sequence, chain
HEAD_FIELDS: Final = Struct("<8sHHI16sQQQ32s")
HEAD_SLOT_BYTES: Final = HEAD_FIELDS.size + U64.size
HEAD_SLOTS: Final = (0, BLOCK_BYTES)
HEAD_BYTES: Final = 2 * BLOCK_BYTES

# A compressed segment: the header's block, the block that sums up, the dictionary, blocks, the index of them.
TWIN_MAGIC: Final = b"\xe5EVZ\r\n\x1a\n"
TWIN_VERSION: Final = 1
# magic, version, reserved, sealed, end sequence, end offset, end chain, end time, dictionary's size and
# checksum, blocks, the index's place and checksum
TWIN_FIELDS: Final = Struct("<8sHHIQQ32sQQQQQQ")
TWIN_SUMMARY_OFFSET: Final = SEGMENT_HEADER_BYTES
TWIN_CONTENT_OFFSET: Final = TWIN_SUMMARY_OFFSET + BLOCK_BYTES
# place, stored size, plain size; then where in the plain segment the block begins: offset, sequence, time,
# chain; checksum of what is stored
TWIN_ENTRY: Final = Struct("<QIIQQQ32sQ")

LOCK_NAME: Final = "LOCK"
HEAD_NAME: Final = "HEAD"
SEGMENT_SUFFIX: Final = ".evl"
COMPRESSED_SUFFIX: Final = ".evz"
TEMPORARY_SUFFIX: Final = ".new"
TORN_DIRECTORY: Final = "torn"

# How the program reads and indexes; not part of the format.
INDEX_STEP_BYTES: Final = 64 * KIBIBYTE
FIRST_READ_BYTES: Final = 64 * KIBIBYTE
LARGEST_READ_BYTES: Final = MEBIBYTE


def padded(size_bytes: int) -> int:
    """The size of a frame up to the next place where one may begin."""
    return -(-size_bytes // SECTOR_BYTES) * SECTOR_BYTES
