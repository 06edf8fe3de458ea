"""Reading a log: only what is durable, everything verified, damage never skipped."""

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from itertools import repeat
from pathlib import Path
from typing import Self

from ..errors import EventLogError, LogLost, LogUnreadable, Problem
from .filesystem import FileSystem, RealFileSystem
from .format import COMMIT, HEAD_NAME, LOCK_NAME
from .framing import FrameHeader, Place, split_body
from .index import Catalog, SegmentMap
from .lock import read_holder
from .recovery import examine
from .segment_file import SegmentFile, open_segment
from .segments import segment_names, twin_name
from .source import unreadable
from .survey import Survey
from .verdict import EMPTY, Position, Record, Verdict, lost_message, refusal

_new_record = tuple.__new__


class LogReader:
    """A log to read. It takes no lock and changes nothing; any thread may use it.

    It shows what was durable when it last looked: at `open`, and at each `refresh`.
    """

    def __init__(
        self,
        filesystem: FileSystem,
        directory: str,
        catalog: Catalog,
        look: Callable[[], tuple[Position, bytes]],
    ) -> None:
        self._filesystem = filesystem
        self._directory = directory
        self._catalog = catalog
        self._look = look
        self._closed = False
        self._end, self.log_id = look()

    @property
    def end(self) -> Position:
        """The last event that this reader shows, and the chain there."""
        return self._end

    @classmethod
    def open(cls, directory: Path, *, filesystem: FileSystem | None = None, allow_lost: bool = False) -> Self:
        """Open the log in `directory` for reading.

        While another process holds the lock, what is shown is what HEAD or a later frame promises durable.
        With the lock free the last segment is synced first, then all is shown. `allow_lost` shows a lost log
        up to its last good event.

        Raises:
            EventLogError: there is no log.
            LogLost, LogUnreadable, LogUnsupported: see there.
        """
        disk = filesystem or RealFileSystem()
        path = os.path.abspath(directory)  # noqa: PTH100 - a str at the seam, without resolving links
        follower = Follower(disk, path, allow_lost=allow_lost)
        return cls(disk, path, follower.survey.catalog, follower.look)

    def refresh(self) -> Position:
        """Look again, and return the new end. Follow a log with `refresh` and `read` in turn.

        Raises:
            LogLost, LogUnreadable, LogUnsupported: as in `open`.
        """
        self._check_open()
        self._end, self.log_id = self._look()
        return self._end

    def read(self, from_sequence: int = 1, to_sequence: int | None = None) -> Iterator[Record]:
        """The events from `from_sequence` to `to_sequence`, both included, as far as they are durable.

        Raises:
            LogLost: what is read is not what was written; the message names the range.
            LogUnreadable: the disk did not give the bytes.
        """
        return self.search(None, from_sequence, to_sequence)

    def search(
        self, may_hold: Callable[[bytes], bool] | None, from_sequence: int = 1, to_sequence: int | None = None
    ) -> Iterator[Record]:
        """As `read`, but only the events of those commits for whose bytes `may_hold` is true.

        It is asked once a commit, when its turn comes, with bytes that have each of its events in one piece.
        All commits are read and verified, also those that are not wanted.
        """
        self._check_open()
        if from_sequence < 1:
            raise ValueError(f"Events are numbered from 1; {from_sequence} was asked for.")
        last = self.end.sequence if to_sequence is None else min(to_sequence, self.end.sequence)
        return self._records(from_sequence, last, may_hold)

    def _records(self, first: int, last: int, may_hold: Callable[[bytes], bool] | None) -> Iterator[Record]:
        for header, body, _ in self._frames(first, last):
            if may_hold is not None and not may_hold(body):
                continue
            if header.events == 1:
                yield Record(header.first_sequence, header.time_ns, header.epoch, body)
                continue
            payloads = split_body(body, header.events)
            assert payloads is not None  # the walk has looked at the table
            start = header.first_sequence
            low, high = max(0, first - start), min(header.events, last - start + 1)
            if low or high < header.events:
                payloads = payloads[low:high]
            sequences = range(start + low, start + high)
            fields = zip(sequences, repeat(header.time_ns), repeat(header.epoch), payloads, strict=False)
            # The same as calling Record, in C: this is the loop that every replay runs.
            yield from map(_new_record, repeat(Record), fields)

    def read_one(self, sequence: int) -> Record:
        """The event with this number.

        Raises:
            EventLogError: the log does not reach that far.
        """
        for record in self.read(sequence, sequence):
            return record
        raise EventLogError(
            f"The log {self._directory} ends at event {self.end.sequence}; {sequence} is not there."
        )

    def chain_at(self, sequence: int) -> bytes:
        """The chain value of the commit that ends at `sequence`.

        Raises:
            EventLogError: no commit ends there.
        """
        self._check_open()
        if sequence == 0:
            return EMPTY.chain
        # Asked once: a writer beside it moves the end.
        end = self.end
        if sequence == end.sequence:
            return end.chain
        if 0 < sequence < end.sequence:
            for _, _, place in self._frames(sequence, sequence):
                if place.sequence == sequence:
                    return place.chain
        raise EventLogError(
            f"No commit of the log {self._directory} ends at event {sequence}; it ends at {end.sequence}."
        )

    def _frames(self, first: int, last: int) -> Iterator[tuple[FrameHeader, bytes, Place]]:
        """The commits that hold the events from `first` to `last`."""
        at = self._catalog.find(first)
        while first <= last:
            segment = self._catalog.segments[at]
            for header, body, place in self._segment_frames(segment, first, last):
                if place.sequence >= first and header.kind == COMMIT:
                    yield header, body, place
                    first = place.sequence + 1
            at += 1
            if first <= last and at >= len(self._catalog.segments):
                self._raise_lost(segment.name, segment.stop_bytes, first, last, "the segment ends before")

    def _segment_frames(
        self, segment: SegmentMap, first: int, last: int
    ) -> Iterator[tuple[FrameHeader, bytes, Place]]:
        """The commits of one segment, from the one that holds `first` to the one that holds `last`."""
        place = segment.index.find(first)
        stop = segment.stop_bytes
        with self._open(segment, place) as file:
            place = file.nearest(place, first)
            frames = file.walk(segment.header.stamp, place, stop)
            while place.sequence < last and place.offset_bytes != segment.end_bytes:
                try:
                    header, body, place = next(frames)
                except StopIteration as ended:
                    self._raise_lost(
                        segment.name, place.offset_bytes, place.sequence + 1, last, str(ended.value)
                    )
                yield header, body, place

    @contextmanager
    def _open(self, segment: SegmentMap, place: Place) -> Iterator[SegmentFile]:
        """Open a segment, by its twin's name if compression has taken the plain one away since."""
        try:
            with ExitStack() as stack:
                try:
                    file = stack.enter_context(open_segment(self._filesystem, self._directory, segment.name))
                except FileNotFoundError:
                    twin = twin_name(segment.name)
                    file = stack.enter_context(open_segment(self._filesystem, self._directory, twin))
                    segment.is_replaced_by(twin)
                yield file
        except FileNotFoundError as error:
            raise unreadable(segment.name, place.offset_bytes, error) from error

    def _raise_lost(self, name: str, offset: int, first: int, last: int, why: str) -> None:
        what = f"events {first} to {last} cannot be read, {why}"
        problem = Problem(name, offset, first - 1, self.end.sequence, what)
        raise LogLost(lost_message(self._directory, problem), problem)

    def close(self) -> None:
        """Give the reader up. It holds nothing open between calls."""
        self._closed = True

    def _check_open(self) -> None:
        if self._closed:
            raise EventLogError(f"This reader of the log {self._directory} is closed.")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class LiveReader(LogReader):
    """The reader of a log's own writer: it always shows all that is durable, without a `refresh`."""

    @property
    def end(self) -> Position:
        """The last durable event, and the chain there."""
        return self._look()[0]


class Follower:
    """How a reader outside the writer looks: each time from where the log was durable last."""

    def __init__(self, filesystem: FileSystem, directory: str, *, allow_lost: bool) -> None:
        self.survey = Survey(filesystem, directory)
        self._filesystem = filesystem
        self._directory = directory
        self._allow_lost = allow_lost
        self._complete: list[str] | None = None

    def look(self) -> tuple[Position, bytes]:
        """What is durable now, and the log's id.

        Raises:
            EventLogError: there is no log.
            LogLost, LogUnreadable, LogUnsupported: see there.
        """
        try:
            names = list_log(self._filesystem, self._directory)
            if names != self._complete:
                self._examine(names)
        except OSError as error:
            raise unreadable(self._directory, 0, error) from error
        survey = self.survey
        return Position(survey.durable.sequence, survey.durable.chain), survey.log_id

    def _examine(self, names: list[str]) -> None:
        # A writer never writes into a segment of an earlier session: once a free log was read to its end,
        # nothing can come but new segments.
        verdict, live = self._classify()
        if verdict.kind == "lost":
            # A writer that came after the lock was found free looks like damage for a moment: look once more.
            verdict, live = self._classify()
        if verdict.kind == "lost" and self._allow_lost:
            self.survey.settle_at(self.survey.end)
        elif not verdict.opens:
            raise refusal(verdict, self._directory)
        if not live:
            # A writer may have come and gone since the first sync: what was read is made durable before it is
            # shown.
            sync_last_segment(self._filesystem, self._directory)
            self._complete = names

    def _classify(self) -> tuple[Verdict, bool]:
        live = read_holder(self._filesystem, self._directory) is not None
        if not live:
            sync_last_segment(self._filesystem, self._directory)
            # After a writer's failed sync the cache may show what the disk never got: it must not be shown.
            drop_last_cache(self._filesystem, self._directory)
        return examine(self.survey, live=live), live


def list_log(filesystem: FileSystem, directory: str) -> list[str]:
    """The names of the log's segments.

    Raises:
        EventLogError: there is no log in the directory.
    """
    try:
        names = filesystem.names(directory)
    except (FileNotFoundError, NotADirectoryError):
        names = []
    segments = [segment.name for segment in segment_names(names)]
    if not segments and LOCK_NAME not in names and HEAD_NAME not in names:
        raise EventLogError(f"There is no log in {directory}: neither segments nor LOCK. Check the path.")
    return segments


def sync_last_segment(filesystem: FileSystem, directory: str) -> None:
    """Make durable what a writer that died may have left in the page cache.

    Raises:
        LogUnreadable: the sync failed, so what can be read now may not be there after a power loss.
    """
    for name in last_files(filesystem, directory):
        try:
            fd = filesystem.open(f"{directory}/{name}", os.O_RDONLY)
        except FileNotFoundError:
            continue  # compressed meanwhile: the twin was synced before
        except OSError as error:
            raise unreadable(name, 0, error) from error
        try:
            filesystem.fdatasync(fd)
            filesystem.sync_directory(directory)
        except OSError as error:
            what = f"Syncing {name} failed: {error.strerror} (errno {error.errno})"
            problem = Problem(name, 0, 0, 0, what)
            raise LogUnreadable(f"{what}. Nothing was changed; check the disk.", problem) from error
        finally:
            filesystem.close(fd)


def last_files(filesystem: FileSystem, directory: str) -> list[str]:
    """The files of the last segment: one, or two while compression is replacing it."""
    names = segment_names(filesystem.names(directory))
    return [name.name for name in names if name.number == names[-1].number]


def drop_last_cache(filesystem: FileSystem, directory: str) -> None:
    """Let the last segment be read from the device."""
    for name in last_files(filesystem, directory):
        try:
            fd = filesystem.open(f"{directory}/{name}", os.O_RDONLY)
        except FileNotFoundError:
            continue
        try:
            filesystem.drop_cache(fd)
        finally:
            filesystem.close(fd)
