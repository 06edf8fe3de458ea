"""The index of a compressed segment made again from its blocks, when it was damaged and they were not."""

from contextlib import suppress

from xxhash import xxh3_64_intdigest
from zstandard import ZstdError

from .blocks import frames_of, split_block
from .format import FIRST_READ_BYTES, TWIN_CONTENT_OFFSET
from .framing import Place, Stamp
from .salvage_source import TolerantSource
from .twin import BlockEntry, TwinSummary
from .twin_reader import LARGEST_BLOCK_BYTES, Blocks, Damaged, decompressor_of


class FoundBlocks(Blocks):
    """Blocks without their index, which lie one behind the other from `start` of the chain on.

    `entries` is empty unless all of them lead to the place where the summary says that the segment ended: the
    chain value there proves each of them.
    """

    def __init__(self, source: TolerantSource, summary: TwinSummary, stamp: Stamp, start: Place) -> None:
        self.summary = summary
        self.entries = []
        self._source = source
        with suppress(Damaged):
            self._decompressor = decompressor_of(source, summary)
            self.entries = self._find(source, stamp, start)

    def _find(self, source: TolerantSource, stamp: Stamp, place: Place) -> list[BlockEntry]:
        entries: list[BlockEntry] = []
        offset = TWIN_CONTENT_OFFSET + self.summary.dictionary_bytes
        while place.offset_bytes < self.end_of_commits.offset_bytes:
            stored, plain = self._unpack(source, offset)
            commits = split_block(plain)
            frames = None if commits is None else frames_of(commits, stamp, place)
            if not frames:
                return []
            checksum = xxh3_64_intdigest(stored)
            start = (place.offset_bytes, place.sequence, place.time_ns, place.chain)
            entries.append(BlockEntry(offset, len(stored), len(plain), *start, checksum))
            offset, place = offset + len(stored), frames[-1][2]
        return entries if place == self.end_of_commits else []

    def _unpack(self, source: TolerantSource, offset: int) -> tuple[bytes, bytes]:
        """The block that begins at `offset`, as it is stored and as it was; nothing if none does."""
        unpacker = self._decompressor.decompressobj()
        stored, plain = bytearray(), bytearray()
        try:
            while not unpacker.eof and len(plain) <= LARGEST_BLOCK_BYTES:
                piece = source.read(offset + len(stored), FIRST_READ_BYTES)
                if not piece:
                    return b"", b""
                stored += piece
                plain += unpacker.decompress(piece)
        except ZstdError:
            return b"", b""
        return bytes(stored[: len(stored) - len(unpacker.unused_data)]), bytes(plain)
