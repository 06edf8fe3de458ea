"""Replacing a plain segment by its compressed twin, so that no crash can come between an event and its copy.

The order is the promise: verify the plain segment; put aside what a crash left behind its end; write the twin
under a temporary name and sync it; read it back from the disk, decode every event and recheck the chain; give
it its name; sync the directory; only then unlink the plain segment, and sync the directory again. Until then
the plain segment is there, and whatever fails leaves the log as it was.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from typing import NamedTuple

from zstandard import ZstdCompressionDict

from ..errors import LogLost, LogRefused, NotCompressed, Problem
from .appender import NO_ROOM, write_fully
from .blocks import Frame
from .dictionary import Samples
from .filesystem import FileSystem
from .format import COMMIT, LARGEST_READ_BYTES, TORN_DIRECTORY
from .framing import Place, split_body
from .header import NotAHeader
from .index import SegmentMap
from .segment_file import open_segment
from .segments import plain_name, temporary_twin, twin_name
from .source import open_source
from .twin_writer import write_twin
from .verdict import lost_message


class Compacted(NamedTuple):
    """One segment that was compressed: its file's size before and after.

    `torn_bytes` were put aside into torn/: what a crash had left behind the segment's end.
    """

    number: int
    before_bytes: int
    after_bytes: int
    torn_bytes: int


class Stopped(Exception):
    """Somebody wants compression to end; the plain segment is still there."""


class Compaction:
    """How the segments of one log are compressed. Use it from one thread.

    `check` is asked before each frame and each change of a name; it raises to end the work (`Stopped`, or
    that the lock is gone). `pace` is told of so many bytes of frames when they were worked on, and may wait.
    `scratch` are eight hexadecimal digits that no other compaction uses.
    """

    def __init__(
        self,
        filesystem: FileSystem,
        directory: str,
        scratch: str,
        check: Callable[[], None],
        pace: Callable[[int], None] | None = None,
    ) -> None:
        self._filesystem = filesystem
        self._directory = directory
        self._scratch = scratch
        self._check = check
        self._pace = pace or _at_full_speed

    def compact(self, segment: SegmentMap, end: Place) -> Compacted:
        """Replace the plain file of `segment`, whose last frame ends at `end`, by its compressed twin.

        Raises:
            LogLost: the plain segment is not what it was.
            LogUnreadable: the disk did not give the bytes.
            NotCompressed: the twin could not be made, or is not the same when it is read back.
            What `check` raises. In all these cases the plain segment is still there.
        """
        name = segment.name
        if name != plain_name(name):
            raise ValueError(
                f"{name} is compressed already; its twin would be unlinked as its own plain file."
            )
        temporary = temporary_twin(name, self._scratch)
        try:
            before_bytes, dictionary = self._learn(segment, end)
            torn_bytes = self._put_aside(segment, end)
            self._write(segment, end, temporary, dictionary)
            after_bytes = self._prove(segment, end, temporary)
            self._check()
            self._filesystem.rename(self._path(temporary), self._path(twin_name(name)))
        except OSError as error:
            self._forget(temporary)
            raise _not_compressed(name, error) from error
        except BaseException:
            self._forget(temporary)
            raise
        segment.is_replaced_by(twin_name(name))
        self.remove_plain(name)
        return Compacted(segment.header.number, before_bytes, after_bytes, torn_bytes)

    def remove_plain(self, name: str) -> None:
        """Unlink a plain segment whose twin is whole; the twin's name is made durable before.

        Raises:
            NotCompressed: it is still there. What `check` raises.
        """
        self._check()
        try:
            self._filesystem.sync_directory(self._directory)
            self._filesystem.unlink(self._path(name))
            self._filesystem.sync_directory(self._directory)
        except OSError as error:
            raise NotCompressed(
                f"The compressed twin of {self._path(name)} is made, but the plain segment could not be "
                f"removed: {error}. The log is whole; compact it again."
            ) from error

    def _path(self, name: str) -> str:
        return f"{self._directory}/{name}"

    def _forget(self, temporary: str) -> None:
        with suppress(OSError):
            self._filesystem.unlink(self._path(temporary))

    def _learn(self, segment: SegmentMap, end: Place) -> tuple[int, ZstdCompressionDict | None]:
        """Read the whole plain segment; return its size, and the dictionary that it deserves."""
        samples = Samples()
        for header, body, _ in self._frames(segment, segment.name, end):
            for event in (split_body(body, header.events) or ()) if header.kind == COMMIT else ():
                samples.see(event)
        with open_source(self._filesystem, self._directory, segment.name) as source:
            return source.size_bytes, samples.dictionary()

    def _frames(self, segment: SegmentMap, name: str, end: Place) -> Iterator[Frame]:
        """Every frame of a file of this segment, which has to end at `end`.

        Raises:
            LogLost: it does not.
        """
        place = segment.index.start
        with open_segment(self._filesystem, self._directory, name) as file:
            frames = file.walk(segment.header.stamp, place, end.offset_bytes)
            while True:
                self._check()
                try:
                    frame = next(frames)
                except StopIteration as ended:
                    why = str(ended.value)
                    break
                size = frame[2].offset_bytes - place.offset_bytes
                place = frame[2]
                yield frame
                self._pace(size)
        if place != end:
            problem = Problem(name, place.offset_bytes, place.sequence, end.sequence, why)
            raise LogLost(lost_message(self._directory, problem), problem)

    def _put_aside(self, segment: SegmentMap, end: Place) -> int:
        """Copy what lies behind the end to torn/, durable; return how many bytes that were."""
        with open_segment(self._filesystem, self._directory, segment.name) as file:
            size = file.look_behind(segment.header.stamp, end.offset_bytes).torn_bytes
        if not size:
            return 0
        folder = self._path(TORN_DIRECTORY)
        with suppress(FileExistsError):
            self._filesystem.make_directory(folder)
        self._filesystem.sync_directory(self._directory)
        copy = f"{folder}/{segment.name}.{end.offset_bytes}"
        fd = self._filesystem.open(copy, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        try:
            self._copy_behind(segment.name, end.offset_bytes, size, fd)
            self._filesystem.fsync(fd)
        finally:
            self._filesystem.close(fd)
        self._filesystem.sync_directory(folder)
        return size

    def _copy_behind(self, name: str, start: int, size: int, fd: int) -> None:
        with open_source(self._filesystem, self._directory, name) as source:
            for at in range(0, size, LARGEST_READ_BYTES):
                piece = source.read(start + at, min(LARGEST_READ_BYTES, size - at))
                write_fully(self._filesystem, fd, piece, at)

    def _write(
        self, segment: SegmentMap, end: Place, temporary: str, dictionary: ZstdCompressionDict | None
    ) -> None:
        fd = self._filesystem.open(self._path(temporary), os.O_RDWR | os.O_CREAT | os.O_EXCL)
        try:
            frames = self._frames(segment, segment.name, end)
            write_twin(
                self._filesystem, fd, segment.header, segment.index.start, frames, dictionary=dictionary
            )
            self._filesystem.fsync(fd)
            # What is read back comes from the disk, not from the memory that was just written.
            self._filesystem.drop_cache(fd)
        finally:
            self._filesystem.close(fd)

    def _prove(self, segment: SegmentMap, end: Place, temporary: str) -> int:
        """Decode the twin to its end; return its size. The chain there covers every event before it.

        Raises:
            NotCompressed: it is not the same.
        """
        try:
            with open_segment(self._filesystem, self._directory, temporary) as file:
                if replace(file.header(), codec=segment.header.codec) != segment.header:
                    raise NotAHeader("its header is another one")  # noqa: TRY301 - one place says what it means
                size = file.size_bytes
            for _ in self._frames(segment, temporary, end):
                continue
        except (LogRefused, NotAHeader) as error:
            raise NotCompressed(
                f"The compressed twin of {self._path(segment.name)} is not the same when it is read back: "
                f"{error}. It was thrown away and nothing is lost. Check this machine's disk and memory."
            ) from error
        return size


def _at_full_speed(_: int) -> None:
    """For whoever works alone."""


def _not_compressed(name: str, error: OSError) -> NotCompressed:
    hint = "Make room" if error.errno in NO_ROOM else "Check the disk"
    return NotCompressed(
        f"The segment {name} was not compressed: {error}. It is as it was, and nothing is lost. {hint}, then "
        "compact again."
    )
