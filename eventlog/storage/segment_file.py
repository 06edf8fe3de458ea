"""One segment file, plain or compressed, behind one face: header, frames, and what lies behind them."""

from collections.abc import Iterator
from contextlib import contextmanager

from .filesystem import FileSystem
from .format import CODEC_PLAIN, COMPRESSED_SUFFIX, SEGMENT_HEADER_BYTES
from .framing import Place, Stamp
from .header import NotAHeader, SegmentHeader, parse_segment_header
from .scan import Evidence, Walk, look_behind, walk
from .source import Source, open_source
from .twin_reader import CompressedSegment


class PlainSegment:
    """An open `.evl` file. Methods raise LogUnreadable when a read fails."""

    def __init__(self, source: Source) -> None:
        self.size_bytes = source.size_bytes
        self._source = source

    def header(self) -> SegmentHeader:
        """The header.

        Raises:
            NotAHeader: there is none, or it is a compressed segment's.
            LogUnsupported: it is of a newer version.
        """
        header = parse_segment_header(self._source.read(0, SEGMENT_HEADER_BYTES))
        if header.codec != CODEC_PLAIN:
            raise NotAHeader("the file holds a compressed segment, unlike its name")
        return header

    def cut(self, header: SegmentHeader) -> str | None:
        """Why the file is shorter than it was made, or None when it is not."""
        if header.preallocated and self.size_bytes < header.allocated_bytes:
            allocated = header.allocated_bytes
            return f"the file has {self.size_bytes} bytes, and {allocated} were allocated: it was cut"
        return None

    def promised_sequence(self) -> int:
        """What the file as a whole promises: nothing. Its frames do."""
        return 0

    def walk(self, stamp: Stamp, place: Place, stop_bytes: int) -> Walk:
        """See `scan.walk`."""
        return walk(self._source, stamp, place, stop_bytes)

    def nearest(self, place: Place, sequence: int) -> Place:  # noqa: ARG002 - it has no index of its own
        """`place`: only the catalog knows more of a plain segment."""
        return place

    def sound_end(self, start: Place) -> Place | None:  # noqa: ARG002 - as in a compressed segment
        """None: a plain segment has to be walked."""
        return None

    def look_behind(self, stamp: Stamp, end_bytes: int) -> Evidence:
        """See `scan.look_behind`."""
        return look_behind(self._source, stamp, end_bytes)


SegmentFile = PlainSegment | CompressedSegment


@contextmanager
def open_segment(filesystem: FileSystem, directory: str, name: str) -> Iterator[SegmentFile]:
    """Open a segment by its file name, and close it at the end.

    Raises:
        FileNotFoundError: the name has gone.
        LogUnreadable: any other error.
    """
    with open_source(filesystem, directory, name) as source:
        # In the middle of the name while it is a temporary one.
        yield CompressedSegment(source) if COMPRESSED_SUFFIX in name else PlainSegment(source)
