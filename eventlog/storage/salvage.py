"""Salvage: everything that can still be found in a damaged log, in order, with its gaps marked.

An explicit act and never the way a log is opened: a reader refuses what this goes through. Nothing is
changed. A whole log comes out as it is, without gaps.
"""

import os
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, NamedTuple

from ..errors import LogUnreadable
from .filesystem import FileSystem, RealFileSystem
from .format import SEAL, SEGMENT_HEADER_BYTES, U64_MAX
from .framing import Place, split_body
from .reader import list_log
from .salvage_files import Group, SegmentFile, by_number, look_at_files, whose_log
from .salvage_frames import Bounds, Frame, Frames, PlainFrames
from .salvage_source import open_tolerant
from .salvage_twin import TwinFrames
from .survey import START
from .verdict import Record

Proof = Literal["chain", "stretch", "checksums", "body"]
"""How far an event can be believed.

- "chain": it is on the SHA-256 chain that begins with the log's first event, unbroken up to here.
- "stretch": it continues the chain of the one before it, but somewhere before that the chain is broken.
- "checksums": the first behind a gap; both checksums of its frame are right.
- "body": the same where the salt of the header checksums is lost: only what it holds could be checked.
"""

_REASONS = 4  # a gap gives no more of them


class Gap(NamedTuple):
    """A place where the log is not what it was; events from `from_sequence` to `to_sequence` are missing.

    `to_sequence` is None when nobody knows how many, and `from_sequence - 1` when none is: the damage hit no
    event, or what follows has another history. The gap begins at `offset_bytes` of `segment`; `size_bytes`
    of segments were passed over.
    """

    from_sequence: int
    to_sequence: int | None
    segment: str
    offset_bytes: int
    size_bytes: int
    why: str

    @property
    def missing(self) -> int | None:
        """How many events are missing; None when nobody knows."""
        return None if self.to_sequence is None else self.to_sequence - self.from_sequence + 1


class Salvaged(NamedTuple):
    """The events of one commit that was found whole."""

    records: list[Record]
    proof: Proof
    log_id: bytes | None
    chain: bytes

    @property
    def proven(self) -> bool:
        """Whether the chain reaches it, unbroken, from the log's first event."""
        return self.proof == "chain"


def salvage(directory: Path, *, filesystem: FileSystem | None = None) -> Iterator[Salvaged | Gap]:
    """Find all that is left of the log in `directory`, in order.

    Raises:
        EventLogError: there is no log.
        LogUnreadable: the directory cannot be listed. A file that cannot be read is a gap, no error.
        LogUnsupported: a newer evrun wrote it.
    """
    disk = filesystem or RealFileSystem()
    path = os.path.abspath(directory)  # noqa: PTH100 - a str at the seam, without resolving links
    walk = _Walk(disk, path)
    if not walk.has_segments:
        list_log(disk, path)
    return walk.items()


@dataclass(slots=True)
class _Open:
    """A gap whose end has not been found yet."""

    from_sequence: int
    segment: str
    offset_bytes: int
    size_bytes: int = 0
    whys: list[str] = field(default_factory=list)

    def close(self, to_sequence: int | None) -> Gap:
        why = "; ".join(dict.fromkeys(self.whys))
        return Gap(self.from_sequence, to_sequence, self.segment, self.offset_bytes, self.size_bytes, why)


class _Walk:
    """One walk over all that is there. `place` is behind the newest event that was found."""

    def __init__(self, filesystem: FileSystem, directory: str) -> None:
        self._filesystem = filesystem
        self._directory = directory
        files, heads = look_at_files(filesystem, directory)
        self._identity = whose_log(files, heads)
        self._heads = [head for head in heads if head.log_id == self._identity.log_id]
        self._groups = by_number(files, self._identity.log_id)
        self._highest = _highest(self._groups)
        self._promised = max([0, *(head.sequence for head in self._heads)])
        self._place = START
        self._segment = ""
        self._proven = True
        self._gap: _Open | None = None
        self._tail = ("nothing follows", 0)

    @property
    def has_segments(self) -> bool:
        """Whether there is a file named like one."""
        return bool(self._groups)

    def items(self) -> Iterator[Salvaged | Gap]:
        """What was found, in order."""
        number = 0
        for at, group in enumerate(self._groups):
            self._enter(group, number)
            number = group.number
            if group.files:
                yield from self._segment_items(at, group)
        yield from self._ending()

    def _enter(self, group: Group, before: int) -> None:
        """What is wrong already before a frame of this segment is looked at."""
        if group.number != before + 1:
            missing = f"segment {before + 1}"
            self._break(
                missing + (f" to {group.number - 1}" if group.number > before + 2 else "") + " is missing"
            )
        header = group.header
        for why in group.whys if header is None else ():
            self._break(why)
        if header is not None:
            self._promised = max(self._promised, header.previous_sequence)
            if (self._place.sequence, self._place.chain) != (header.previous_sequence, header.previous_chain):
                self._break(f"{group.name} says that event {header.previous_sequence} was the last before it")
        elif group.files:
            self._break(group.files[0].why or "")
        self._place = self._place._replace(offset_bytes=SEGMENT_HEADER_BYTES)
        self._segment = group.name

    def _segment_items(self, at: int, group: Group) -> Iterator[Salvaged | Gap]:
        """Frame after frame; where none continues, the next that can be found."""
        bounds, is_known = self._bounds(at, group)
        with ExitStack() as opened:
            files = [frames for file in group.files if (frames := self._frames(file, opened)) is not None]
            while not (is_known and self._place.offset_bytes == bounds.stop_bytes):
                frame, why = self._continuing(files, bounds.stop_bytes)
                if frame is None:
                    frame = self._search(files, bounds, why)
                if frame is None:
                    self._end_segment(files, bounds, why, is_known=is_known)
                    break
                yield from self._take(frame)
                if frame.header.kind == SEAL:
                    if is_known and self._place.offset_bytes != bounds.stop_bytes:
                        self._break("the segment is sealed there, and not where its successor says")
                    break
            self._promised = max([self._promised, *(frames.promised for frames in files)])

    def _bounds(self, at: int, group: Group) -> tuple[Bounds, bool]:
        """Where the segment ends and which events it can hold; whether its successor says where it ends."""
        header = group.header
        lowest = 1 if header is None else header.base_sequence
        follower = self._groups[at + 1] if at + 1 < len(self._groups) else None
        if follower is not None and follower.number == group.number + 1 and follower.header is not None:
            return Bounds(follower.header.previous_offset_bytes, lowest, self._highest[at]), True
        return Bounds(U64_MAX if header is None else header.allocated_bytes, lowest, self._highest[at]), False

    def _frames(self, file: SegmentFile, opened: ExitStack) -> Frames | None:
        assert file.stamp is not None
        try:
            source = opened.enter_context(open_tolerant(self._filesystem, self._directory, file.name.name))
        except (OSError, LogUnreadable) as error:
            self._break(f"{file.name.name} cannot be opened: {getattr(error, 'strerror', None) or error}")
            return None
        if file.compressed:
            return TwinFrames(source, file.stamp, self._identity)
        whole = file.header is not None
        return PlainFrames(source, file.stamp, self._identity, whole_header=whole, cut=file.cut)

    def _continuing(self, files: list[Frames], stop: int) -> tuple[Frame | None, str]:
        """The frame that continues the chain here, from the first file that has it."""
        whys = []
        for frames in files:
            frame = frames.at(self._place, stop)
            if isinstance(frame, Frame):
                return frame, ""
            whys.append(frame)
        return None, whys[0] if whys else "no file of it can be read"

    def _search(self, files: list[Frames], bounds: Bounds, why: str) -> Frame | None:
        """The nearest frame behind the break, from any file."""
        found = [frame for frames in files if (frame := frames.find(self._place, bounds)) is not None]
        if not found:
            return None
        frame = min(found, key=lambda frame: frame.header.offset_bytes)
        passed = frame.header.offset_bytes - self._place.offset_bytes
        self._break(_unread(files, self._place.offset_bytes, why), passed)
        return frame

    def _end_segment(self, files: list[Frames], bounds: Bounds, why: str, *, is_known: bool) -> None:
        """No frame follows any more: is that the segment's end, or is something gone?"""
        offset = self._place.offset_bytes
        size = max([0, *(frames.used_bytes(offset, bounds.stop_bytes) for frames in files)])
        seen = _unread(files, offset, why)
        cut = [frames.cut for frames in files if frames.cut is not None]
        if is_known:
            self._break(seen, max(0, bounds.stop_bytes - offset))
        elif seen != why or len(cut) == len(files):
            self._break(seen if seen != why or not cut else cut[0], size)
        elif self._gap is not None:
            self._gap.size_bytes += size
        else:
            self._tail = (why, size)

    def _take(self, frame: Frame) -> Iterator[Salvaged | Gap]:
        """One frame more: close the gap before it, say how far it can be believed."""
        header = frame.header
        if frame.flaw is not None:
            self._break(f"{frame.flaw}, but its chain value is right" if frame.chained else frame.flaw)
        if not frame.chained and self._proven and self._gap is None:
            self._break("the log's id is lost, so no chain value can be checked")
        first = header.first_sequence
        if self._gap is not None and header.kind != SEAL:
            yield self._gap.close(first - 1)
            self._gap = None
        if header.kind == SEAL:
            self._place = self._place._replace(offset_bytes=header.end_bytes)
            return
        self._proven = self._proven and frame.chained
        before = self._place.sequence
        time_ns = max(self._place.time_ns, header.time_ns)
        self._place = Place(first + header.events - 1, header.chain, time_ns, header.end_bytes)
        payloads = split_body(frame.body, header.events) or []
        records = [
            Record(first + n, header.time_ns, header.epoch, payload) for n, payload in enumerate(payloads)
        ]
        yield Salvaged(records, self._proof(frame), self._identity.log_id, header.chain)
        self._ask_head(max(before, first - 1))

    def _proof(self, frame: Frame) -> Proof:
        if self._proven:
            return "chain"
        if frame.chained:
            return "stretch"
        return "checksums" if frame.salted else "body"

    def _ask_head(self, before: int) -> None:
        """What HEAD names must have been met; a log that was rewritten has another history there."""
        end = self._place
        for head in self._heads:
            if before < head.sequence <= end.sequence and (head.sequence, head.chain) != end[:2]:
                self._break(f"HEAD knows another chain value at event {head.sequence}")

    def _break(self, why: str, passed_bytes: int = 0) -> None:
        """Something is wrong here; the gap ends with the next frame that is found."""
        if self._gap is None:
            self._gap = _Open(self._place.sequence + 1, self._segment, self._place.offset_bytes)
        self._gap.size_bytes += passed_bytes
        if len(self._gap.whys) < _REASONS:
            self._gap.whys.append(why)

    def _ending(self) -> Iterator[Gap]:
        """Behind the last event: is more promised than was found?"""
        last = self._place.sequence
        if self._promised > last and self._gap is None:
            why, size = self._tail
            self._break(f"{why}, and event {self._promised} is promised durable", size)
        if self._gap is not None:
            yield self._gap.close(self._promised if self._promised > last else None)


def _highest(groups: list[Group]) -> list[int]:
    """For each segment the last event that it can hold, by the headers behind it."""
    found, highest = [], U64_MAX
    for group in reversed(groups):
        found.append(highest)
        if group.header is not None:
            highest = min(highest, group.header.previous_sequence)
    return found[::-1]


def _unread(files: list[Frames], offset: int, why: str) -> str:
    """Why nothing is found from `offset` on: what could not be read comes before what was read."""
    seen = [unread for frames in files if (unread := frames.unread(offset)) is not None]
    return seen[0] if seen and len(seen) == len(files) else why
