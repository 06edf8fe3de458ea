"""Writing a compressed segment: the frames of a plain one in, the file's bytes out."""

from collections.abc import Iterable
from dataclasses import replace

from xxhash import xxh3_64_intdigest
from zstandard import ZstdCompressionDict

from .appender import write_fully
from .blocks import BlockCommit, Frame, join_block
from .dictionary import BLOCK_PLAIN_BYTES, compressor
from .filesystem import FileSystem
from .format import CODEC_ZSTD, SEAL, TWIN_CONTENT_OFFSET, TWIN_SUMMARY_OFFSET
from .framing import Place
from .header import SegmentHeader, pack_segment_header
from .twin import BlockEntry, TwinSummary, pack_index, pack_summary


def write_twin(
    filesystem: FileSystem,
    fd: int,
    header: SegmentHeader,
    start: Place,
    frames: Iterable[Frame],
    *,
    dictionary: ZstdCompressionDict | None,
) -> TwinSummary:
    """Fill an empty file with the compressed twin of the segment that has these frames, from `start` on.

    Nothing is synced. Holds one block, or one commit if that is larger, and the index.
    """
    trained = dictionary.as_bytes() if dictionary else b""
    if trained:
        write_fully(filesystem, fd, trained, TWIN_CONTENT_OFFSET)
    writer = _BlockWriter(filesystem, fd, start, TWIN_CONTENT_OFFSET + len(trained), dictionary)
    sealed = False
    for frame in frames:
        sealed = frame[0].kind == SEAL
        writer.add(frame)
    writer.flush()
    index = pack_index(writer.entries)
    summary = TwinSummary(
        end=writer.end,
        sealed=sealed,
        dictionary_bytes=len(trained),
        dictionary_checksum=xxh3_64_intdigest(trained),
        blocks=len(writer.entries),
        index_offset_bytes=writer.offset_bytes,
        index_checksum=xxh3_64_intdigest(index),
    )
    write_fully(filesystem, fd, index, writer.offset_bytes)
    write_fully(filesystem, fd, pack_summary(summary), TWIN_SUMMARY_OFFSET)
    write_fully(filesystem, fd, pack_segment_header(replace(header, codec=CODEC_ZSTD)), 0)
    return summary


class _BlockWriter:
    """Gathers commits into blocks, and writes each that is full at `offset_bytes`."""

    def __init__(
        self,
        filesystem: FileSystem,
        fd: int,
        start: Place,
        offset_bytes: int,
        dictionary: ZstdCompressionDict | None,
    ) -> None:
        self.entries: list[BlockEntry] = []
        self.end = start
        self.offset_bytes = offset_bytes
        self._filesystem = filesystem
        self._fd = fd
        self._compressor = compressor(dictionary)
        self._start = start
        self._commits: list[BlockCommit] = []
        self._bytes = 0

    def add(self, frame: Frame) -> None:
        """Take the next frame in. A seal is no part of any block: the summary tells of it."""
        header, body, after = frame
        if header.kind == SEAL:
            self.flush()
            self.end = after
            return
        self._commits.append(BlockCommit(header.events, after.time_ns - self.end.time_ns, body))
        self._bytes += len(body)
        self.end = after
        if self._bytes >= BLOCK_PLAIN_BYTES:
            self.flush()

    def flush(self) -> None:
        """Write the block of what was gathered; it ends at `end`."""
        if not self._commits:
            return
        plain = join_block(self._commits)
        stored = self._compressor.compress(plain)
        write_fully(self._filesystem, self._fd, stored, self.offset_bytes)
        start = self._start
        entry = BlockEntry(
            self.offset_bytes,
            len(stored),
            len(plain),
            start.offset_bytes,
            start.sequence,
            start.time_ns,
            start.chain,
            xxh3_64_intdigest(stored),
        )
        self.entries.append(entry)
        self.offset_bytes += len(stored)
        self._start = self.end
        self._commits = []
        self._bytes = 0
