"""Reading a compressed segment: the frames of the plain one, at the same offsets, just as verified."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator

from xxhash import xxh3_64_intdigest
from zstandard import ZstdCompressionDict, ZstdDecompressor, ZstdError

from .blocks import Frame, frames_of, seal_frame, split_block
from .format import (
    BLOCK_BYTES,
    CODEC_ZSTD,
    MAX_COMMIT_BYTES,
    MEBIBYTE,
    SEAL_BYTES,
    SEGMENT_HEADER_BYTES,
    TWIN_CONTENT_OFFSET,
    TWIN_SUMMARY_OFFSET,
)
from .framing import Place, Stamp
from .header import NotAHeader, SegmentHeader, parse_segment_header
from .scan import Evidence, Walk
from .source import Source
from .twin import BlockEntry, BlockIndex, TwinSummary, parse_summary

LARGEST_BLOCK_BYTES = MAX_COMMIT_BYTES + MEBIBYTE


class Damaged(ValueError):
    """A part of a compressed segment is not what its checksum, or the chain, says; `args[0]` says which."""


class CompressedSegment:
    """An open `.evz` file. Nothing of it is believed before its checksum was found right.

    Methods raise LogUnreadable when a read fails.
    """

    def __init__(self, source: Source) -> None:
        self.size_bytes = source.size_bytes
        self._source = source
        self._blocks: Blocks | None = None

    def header(self) -> SegmentHeader:
        """The header, which is the plain segment's but for the codec.

        Raises:
            NotAHeader: there is none, or it is a plain segment's.
            LogUnsupported: it is of a newer version.
        """
        header = parse_segment_header(self._source.read(0, SEGMENT_HEADER_BYTES))
        if header.codec != CODEC_ZSTD:
            raise NotAHeader("the file holds a plain segment, unlike its name")
        return header

    def summary(self) -> TwinSummary:
        """What the segment says that it holds.

        Raises:
            NotAHeader: the summary is not whole.
            LogUnsupported: it is of a newer version.
        """
        return parse_summary(self._source.read(TWIN_SUMMARY_OFFSET, BLOCK_BYTES))

    def cut(self, header: SegmentHeader) -> str | None:
        """Why the file is not as long as it was made, or None when it is."""
        try:
            summary = self.summary()
        except NotAHeader as error:
            return str(error)
        if not SEGMENT_HEADER_BYTES <= summary.end.offset_bytes <= header.allocated_bytes:
            return f"the summary says that the segment ended at byte {summary.end.offset_bytes}"
        if self.size_bytes == summary.file_bytes:
            return None
        return f"the file has {self.size_bytes} bytes, and {summary.file_bytes} were written"

    def promised_sequence(self) -> int:
        """The last event that was in the segment when it was compressed; 0 when the summary is not whole."""
        try:
            return self.summary().end.sequence
        except NotAHeader:
            return 0

    def blocks(self) -> "Blocks":
        """The blocks, once the index and the dictionary were found whole.

        Raises:
            Damaged: they are not.
            LogUnsupported: a newer version.
        """
        if self._blocks is None:
            try:
                self._blocks = Blocks(self._source, self.summary())
            except NotAHeader as error:
                raise Damaged(str(error)) from error
        return self._blocks

    def walk(self, stamp: Stamp, place: Place, stop_bytes: int) -> Walk:
        """Yield each frame as `scan.walk` does for the plain segment; return why it ended."""
        try:
            for frame in self.blocks().frames(stamp, place):
                if frame[2].offset_bytes > stop_bytes:
                    return f"the frame reaches over byte {stop_bytes}, where its segment ends"
                yield frame
        except Damaged as error:
            return str(error)
        return "the compressed segment ends there"

    def nearest(self, place: Place, sequence: int) -> Place:
        """The last place, not before `place`, from which a walk comes to the frame that holds `sequence`."""
        try:
            entries = self.blocks().entries
        except Damaged:
            return place  # the walk says what is wrong
        number = bisect_left(entries, sequence, key=_sequence) - 1
        if number < 0 or entries[number].offset_bytes <= place.offset_bytes:
            return place
        return entries[number].start

    def sound_end(self, start: Place) -> Place | None:
        """The place after the last frame, if every byte of the file is still the one that was written.

        Each byte is under a checksum, and what was written was decoded and proved before it got its name: so
        nothing has to be unpacked to know that no accident has happened to it. None: not so, or not from
        `start` on; a walk says what is wrong.
        """
        try:
            blocks = self.blocks()
        except Damaged:
            return None
        first = blocks.entries[0].start if blocks.entries else blocks.end_of_commits
        return blocks.summary.end if first == start and blocks.are_sound() else None

    def look_behind(self, _stamp: Stamp, _end_bytes: int) -> Evidence:
        """Nothing lies behind the end: what a crash left there was put aside before compression."""
        return Evidence()


class Blocks:
    """The blocks of a compressed segment; each can be decoded alone.

    Raises:
        Damaged: the index or the dictionary is not what its checksum says.
    """

    def __init__(self, source: Source, summary: TwinSummary) -> None:
        self.summary = summary
        self._source = source
        index = source.read(summary.index_offset_bytes, summary.index_bytes)
        if len(index) != summary.index_bytes or xxh3_64_intdigest(index) != summary.index_checksum:
            raise Damaged("the index of the blocks does not match its checksum")
        self.entries: BlockIndex | list[BlockEntry] = BlockIndex(index)
        self._decompressor = decompressor_of(source, summary)

    def frames(self, stamp: Stamp, place: Place) -> Iterator[Frame]:
        """The frames that continue the chain from `place` on, the seal included.

        Raises:
            Damaged: a block is not whole, or does not continue the chain.
        """
        first = bisect_right(self.entries, place.offset_bytes, key=_offset) - 1
        for number in range(max(0, first), len(self.entries)):
            before = self.entries[number].start
            for frame in self.decode(number, stamp):
                if before == place:
                    yield frame
                    place = frame[2]
                before = frame[2]
        if place != self.end_of_commits:
            if place != self.summary.end:
                raise Damaged("the compressed segment does not continue the chain")
        elif self.summary.sealed:
            yield seal_frame(stamp, place)

    def are_sound(self) -> bool:
        """Whether the blocks lie without gaps between dictionary and index, each as its checksum says."""
        at = TWIN_CONTENT_OFFSET + self.summary.dictionary_bytes
        for number in range(len(self.entries)):
            entry = self.entries[number]
            stored = self._source.read(entry.file_offset_bytes, entry.stored_bytes)
            if entry.file_offset_bytes != at or xxh3_64_intdigest(stored) != entry.checksum:
                return False
            at += entry.stored_bytes
        return at == self.summary.index_offset_bytes

    def decode(self, number: int, stamp: Stamp) -> list[Frame]:
        """The frames of one block, verified from its recorded start to the recorded start of the next.

        Raises:
            Damaged: it is not whole.
        """
        entry = self.entries[number]
        frames = self._decode(entry, stamp)
        last = number + 1 == len(self.entries)
        end = self.end_of_commits if last else self.entries[number + 1].start
        if frames is None or frames[-1][2] != end:
            raise Damaged(f"what block {number + 1} holds does not continue the chain")
        return frames

    def _decode(self, entry: BlockEntry, stamp: Stamp) -> list[Frame] | None:
        stored = self._source.read(entry.file_offset_bytes, entry.stored_bytes)
        if xxh3_64_intdigest(stored) != entry.checksum or entry.plain_bytes > LARGEST_BLOCK_BYTES:
            raise Damaged(f"the block at byte {entry.file_offset_bytes} does not match its checksum")
        try:
            plain = self._decompressor.decompress(stored, max_output_size=entry.plain_bytes)
        except ZstdError as error:
            raise Damaged(
                f"the block at byte {entry.file_offset_bytes} cannot be unpacked: {error}"
            ) from error
        commits = split_block(plain) if len(plain) == entry.plain_bytes else None
        return None if commits is None else frames_of(commits, stamp, entry.start)

    @property
    def end_of_commits(self) -> Place:
        """The place in the plain segment after its last commit."""
        end = self.summary.end
        return end._replace(offset_bytes=end.offset_bytes - SEAL_BYTES) if self.summary.sealed else end


def decompressor_of(source: Source, summary: TwinSummary) -> ZstdDecompressor:
    """What unpacks the blocks of a compressed segment: with its dictionary, if it has one.

    Raises:
        Damaged: the dictionary is not what its checksum says.
    """
    dictionary = source.read(TWIN_CONTENT_OFFSET, summary.dictionary_bytes)
    if xxh3_64_intdigest(dictionary) != summary.dictionary_checksum:
        raise Damaged("the dictionary does not match its checksum")
    return ZstdDecompressor(dict_data=ZstdCompressionDict(dictionary) if dictionary else None)


def _offset(entry: BlockEntry) -> int:
    return entry.offset_bytes


def _sequence(entry: BlockEntry) -> int:
    return entry.sequence
