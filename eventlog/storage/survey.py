"""What is known of a log's files, gathered step by step; `recovery` puts the steps in order.

A survey can be taken up again: a follower keeps it and looks only at what has come since.
"""

import os
from dataclasses import dataclass, field

from ..errors import LogUnsupported, Problem
from .filesystem import FileSystem
from .format import (
    HEAD_BYTES,
    HEAD_NAME,
    LOG_ID_BYTES,
    SEAL,
    SECTOR_BYTES,
    SEGMENT_HEADER_BYTES,
    ZERO_CHAIN,
)
from .framing import Place
from .head import Head, parse_head
from .header import NotAHeader, SegmentHeader
from .index import Catalog, SegmentMap
from .scan import Evidence
from .segment_file import SegmentFile, open_segment
from .segments import SegmentName, plain_name, segment_names, twin_name
from .source import open_source
from .twins import without_pairs
from .verdict import Position

START = Place(0, ZERO_CHAIN, 0, SEGMENT_HEADER_BYTES)


@dataclass(slots=True)
class Found:
    """One segment file that is new to the survey: its header, or what is wrong with it; what it promises."""

    name: SegmentName
    header: SegmentHeader | None
    problem: str | None
    promised: int = 0


@dataclass(slots=True)
class Survey:
    """All that is known of the log in `directory`.

    `end` is the last complete boundary, `before_end` the place one frame earlier; `durable` is where the next
    look begins. `marks` are positions that somebody vouches for; those met on the way are in `met`. A
    `thorough` survey unpacks every compressed segment; another one trusts the checksums over its bytes.
    """

    filesystem: FileSystem
    directory: str
    thorough: bool = False
    log_id: bytes = bytes(LOG_ID_BYTES)
    epoch: int = 0
    catalog: Catalog = field(default_factory=Catalog)
    end: Place = START
    before_end: Place = START
    durable: Place = START
    durable_segments: int = 0
    sealed: bool = False
    promised: int = 0
    heads: list[tuple[int, Head]] = field(default_factory=list)
    sizes: dict[str, int] = field(default_factory=dict)
    marks: set[Position] = field(default_factory=set)
    met: set[Position] = field(default_factory=set)
    found: list[Found] = field(default_factory=list)

    def read_head(self) -> None:
        """Take HEAD's promises in. An absent, empty or torn HEAD promises nothing."""
        try:
            with open_source(self.filesystem, self.directory, HEAD_NAME) as source:
                self.heads = parse_head(source.read(0, HEAD_BYTES))
        except FileNotFoundError:
            self.heads = []
        self.marks.update(Position(head.sequence, head.chain) for _, head in self.heads)
        self.promised = max([self.promised, *(head.sequence for _, head in self.heads)])

    @property
    def session(self) -> int:
        """The number of the next session. One that appended nothing has left no trace and no number."""
        return self.epoch + 1

    def read_headers(self) -> None:
        """List the segments and read the headers of those that are new; every whole one is evidence."""
        names = segment_names(self.filesystem.names(self.directory))
        here = {name.name for name in names}
        for segment in self.catalog.segments:
            self._find_again(segment, here)
        known = {plain_name(segment.name) for segment in self.catalog.segments}
        new = [name for name in names if plain_name(name.name) not in known]
        self.found = [self._read_header(name) for name in without_pairs(self.filesystem, self.directory, new)]
        for found in self.found:
            self.promised = max(self.promised, found.promised)

    def _find_again(self, segment: SegmentMap, here: set[str]) -> None:
        """Compression may have replaced a segment's file since the last look."""
        if segment.name in here:
            return
        twin = twin_name(segment.name)
        if twin not in here:
            raise FileNotFoundError(segment.name)
        self.sizes.pop(segment.name, None)
        segment.is_replaced_by(twin)

    def compressed_since(self, gone: FileNotFoundError) -> bool:
        """Whether a file that was listed has gone because its compressed twin has taken its place."""
        name = os.path.basename(str(gone.filename or gone))  # noqa: PTH119 - a str at the seam
        here = self.filesystem.names(self.directory)
        return name == plain_name(name) and name not in here and twin_name(name) in here

    def _read_header(self, name: SegmentName) -> Found:
        with open_segment(self.filesystem, self.directory, name.name) as segment:
            self.sizes[name.name] = segment.size_bytes
            try:
                header = segment.header()
                promised = max(header.previous_sequence, segment.promised_sequence())
                problem = own_problem(name, header) or segment.cut(header)
            except NotAHeader as error:
                return Found(name, None, str(error))
            except LogUnsupported as error:
                what = f"{name.name}: {error}"
                raise LogUnsupported(what, self.problem(what, name.name)) from error
        return Found(name, header, problem, promised)

    def next_problem(self, found: Found) -> str | None:
        """Why this file cannot be the next segment, or None when it is."""
        number = len(self.catalog.segments) + 1
        if found.name.number != number:
            fault = "is missing" if found.name.number > number else "is there more than once"
            return f"segment number {min(number, found.name.number)} {fault}"
        if found.header is None or found.problem is not None:
            return found.problem
        if not self.catalog.segments:
            return None
        before = self.catalog.segments[-1].header
        if found.header.log_id != before.log_id:
            return "the segment belongs to another log"
        if found.header.epoch < before.epoch:
            return f"the segment is of session {found.header.epoch}, older than {before.epoch} before it"
        if found.header.previous_offset_bytes > before.allocated_bytes:
            return "the segment says that its predecessor ended behind its own end"
        return None

    def enter(self, found: Found) -> None:
        """Begin the next segment, where its predecessor was found to end."""
        header = found.header
        assert header is not None
        if not self.catalog.segments:
            self.log_id = header.log_id
        self.epoch = max(self.epoch, header.epoch)
        segment = self.catalog.add(found.name.name, header, self.end)
        self.end = self.before_end = segment.index.find(header.base_sequence)
        self.sealed = False

    def walk_last(self, successor: SegmentHeader | None) -> str:
        """Walk the newest segment as far as it is whole, at most to its end; say why it ended."""
        segment = self.catalog.segments[-1]
        stop = segment.header.allocated_bytes if successor is None else successor.previous_offset_bytes
        with open_segment(self.filesystem, self.directory, segment.name) as file:
            self.sizes[segment.name] = file.size_bytes
            if successor is not None and self._pass_by(segment, file):
                return "the compressed segment ends there"
            frames = file.walk(segment.header.stamp, self.end, stop)
            while True:
                try:
                    header, _, place = next(frames)
                except StopIteration as ended:
                    return str(ended.value)
                self._advance(segment, place, sealed=header.kind == SEAL)

    def _pass_by(self, segment: SegmentMap, file: SegmentFile) -> bool:
        """Go to the end of a sound compressed segment without unpacking it, if nobody asks what is in it."""
        start = self.end
        if self.thorough or start != segment.index.start:
            return False
        if any(start.sequence < mark.sequence < file.promised_sequence() for mark in self.marks):
            return False
        end = file.sound_end(start)
        if end is not None:
            self._advance(segment, end, sealed=False)
        return end is not None

    def _advance(self, segment: SegmentMap, place: Place, *, sealed: bool) -> None:
        self.before_end, self.end, self.sealed = self.end, place, sealed
        if segment.name == plain_name(segment.name):
            segment.index.note(place)
        position = Position(place.sequence, place.chain)
        if position in self.marks:
            self.met.add(position)

    def look_behind(self) -> Evidence:
        """Look at what lies behind the end in the last segment."""
        segment = self.catalog.segments[-1]
        with open_segment(self.filesystem, self.directory, segment.name) as file:
            return file.look_behind(segment.header.stamp, self.end.offset_bytes)

    def settle(self, *, live: bool) -> None:
        """Decide what is durable.

        Of a log that nobody writes it is all that was found (the caller has synced it). Of a live one: what
        HEAD says, or what was durable before the newest frame was written.
        """
        head = self.heads[-1][1].sequence if self.heads else 0
        self.settle_at(self.before_end if live and (self.sealed or head < self.end.sequence) else self.end)

    def settle_at(self, place: Place) -> None:
        """Take a place in the newest segment for the end of what is durable."""
        self.durable, self.durable_segments = place, len(self.catalog.segments)

    def resume(self) -> None:
        """Go back to the last durable place, to look again from there; a look may have ended half-way."""
        self.catalog.keep(self.durable_segments)
        self.end = self.before_end = self.durable
        self.sealed = False
        self.marks.clear()
        self.met = {Position(self.end.sequence, self.end.chain)}

    def problem(self, what: str, segment: str = "") -> Problem:
        """A problem at the end of what is whole."""
        name = segment or (self.catalog.segments[-1].name if self.catalog.segments else "")
        offset = 0 if segment else self.end.offset_bytes
        return Problem(name, offset, self.end.sequence, max(self.promised, self.end.sequence), what)


def own_problem(name: SegmentName, header: SegmentHeader) -> str | None:
    """What a segment's header says against its name and itself, or None."""
    if header.number != name.number or header.base_sequence != name.first_sequence:
        return f"the file holds segment {header.number} from event {header.base_sequence}, unlike its name"
    previous = (header.previous_number, header.previous_sequence)
    if previous != (header.number - 1, header.base_sequence - 1):
        return "the header's account of its predecessor does not fit its own numbers"
    offset = header.previous_offset_bytes
    first = header.number == 1
    if (first and offset != 0) or (not first and (offset < SEGMENT_HEADER_BYTES or offset % SECTOR_BYTES)):
        return f"the header says that its predecessor ended at byte {offset}"
    return None
