"""The fixed parts of a compressed segment <-> their bytes: the summary, and the index of its blocks."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from ..errors import LogUnsupported
from .format import (
    BLOCK_BYTES,
    TWIN_CONTENT_OFFSET,
    TWIN_ENTRY,
    TWIN_FIELDS,
    TWIN_MAGIC,
    TWIN_VERSION,
)
from .framing import Place
from .header import NotAHeader, block_is_whole, pack_block


@dataclass(frozen=True, slots=True)
class TwinSummary:
    """What a compressed segment holds: where the plain one ended, and where its own parts lie.

    `end` is the place in the plain segment after its last frame; with `sealed` that frame is a SEAL. The
    dictionary, if its size is not 0, lies behind the summary; the index takes the rest of the file.
    """

    end: Place
    sealed: bool
    dictionary_bytes: int
    dictionary_checksum: int
    blocks: int
    index_offset_bytes: int
    index_checksum: int

    @property
    def index_bytes(self) -> int:
        """The size of the index."""
        return self.blocks * TWIN_ENTRY.size

    @property
    def file_bytes(self) -> int:
        """The size of the whole file."""
        return self.index_offset_bytes + self.index_bytes


class BlockEntry(NamedTuple):
    """One block: where it is stored, and the place in the plain segment before its first frame."""

    file_offset_bytes: int
    stored_bytes: int
    plain_bytes: int
    offset_bytes: int
    sequence: int
    time_ns: int
    chain: bytes
    checksum: int

    @property
    def start(self) -> Place:
        """The place before the block's first frame."""
        return Place(self.sequence, self.chain, self.time_ns, self.offset_bytes)


def pack_summary(summary: TwinSummary) -> bytes:
    """The summary's block."""
    end = summary.end
    fields = TWIN_FIELDS.pack(
        TWIN_MAGIC,
        TWIN_VERSION,
        0,
        summary.sealed,
        end.sequence,
        end.offset_bytes,
        end.chain,
        end.time_ns,
        summary.dictionary_bytes,
        summary.dictionary_checksum,
        summary.blocks,
        summary.index_offset_bytes,
        summary.index_checksum,
    )
    return pack_block(fields)


def parse_summary(block: bytes) -> TwinSummary:
    """The summary in a block.

    Raises:
        LogUnsupported: it is whole and of a version that this program does not know.
        NotAHeader: it is not whole.
    """
    if len(block) != BLOCK_BYTES or not block.startswith(TWIN_MAGIC) or not block_is_whole(block):
        raise NotAHeader("the compressed segment's summary does not match its checksum")
    _, version, _, sealed, sequence, offset, chain, time_ns, *parts = TWIN_FIELDS.unpack_from(block)
    if version != TWIN_VERSION:
        raise LogUnsupported(
            f"The compressed segment is of version {version}; this program knows {TWIN_VERSION}. "
            "Upgrade evrun to read this log."
        )
    summary = TwinSummary(Place(sequence, chain, time_ns, offset), bool(sealed), *parts)
    if summary.index_offset_bytes < TWIN_CONTENT_OFFSET + summary.dictionary_bytes:
        raise NotAHeader("the compressed segment's summary says that its parts overlap")
    return summary


def pack_index(entries: Iterable[BlockEntry]) -> bytes:
    """The index of these blocks."""
    return b"".join(TWIN_ENTRY.pack(*entry) for entry in entries)


class BlockIndex:
    """The blocks of an index, whose checksum was found right; each is read when it is asked for."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    def __len__(self) -> int:
        return len(self._data) // TWIN_ENTRY.size

    def __getitem__(self, number: int) -> BlockEntry:
        if not 0 <= number < len(self):
            raise IndexError(number)
        return BlockEntry._make(TWIN_ENTRY.unpack_from(self._data, number * TWIN_ENTRY.size))
