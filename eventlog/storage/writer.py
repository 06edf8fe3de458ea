"""Appending to a log: group commit by one thread that owns the descriptors."""

import asyncio
import os
import threading
import weakref
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Self

from ..errors import AppendError, EventLogError, EventTooLarge, LogClosed, NotWritten, OutcomeUnknown
from .appender import NO_ROOM, Appender, FenceBroken, NothingWritten, no_room
from .filesystem import FileSystem, RealFileSystem
from .format import LOG_ID_BYTES, MAX_COMMIT_BYTES, MEBIBYTE, U32
from .framing import Place, body_bytes
from .head import Head
from .head_file import HeadFile
from .lock import Lock
from .opening import open_for_writing
from .queue import CommitQueue
from .reader import LiveReader, LogReader
from .survey import Survey
from .tickets import Ticket, decide_all
from .verdict import Position, Verdict

GROUP_BYTES = 4 * MEBIBYTE  # one frame takes no more of what waits; a larger commit goes alone
QUEUE_BYTES = 32 * MEBIBYTE  # `submit` waits while more than this is queued
SLOW_SYNC_NS = 1_000_000_000
HEAD_SYNC_NS = 1_000_000_000
HEAD_SYNC_S = HEAD_SYNC_NS / 1_000_000_000
ONE_SECOND_NS = 1_000_000_000


class LogWriter:
    """The one writer of a log. Any thread and any event loop may submit; a thread of its own writes.

    An append has exactly three outcomes: durable, `NotWritten` (certainly absent, the handle goes on), or
    `OutcomeUnknown` (the handle is done for; open the log again to see). What waits while one sync runs
    becomes the next frame, so there is no timer and no setting to tune.
    """

    def __init__(
        self,
        lock: Lock,
        survey: Survey,
        found: Verdict,
        *,
        clock_ns: Callable[[], int],
        random_bytes: Callable[[int], bytes],
        warn: Callable[[str], None],
        first_segment_bytes: int,
        largest_segment_bytes: int,
    ) -> None:
        self.epoch = survey.session
        self.log_id = survey.log_id if survey.catalog.segments else random_bytes(LOG_ID_BYTES)
        self.found = found
        self._durable = found.position
        self._filesystem = survey.filesystem
        self._directory = survey.directory
        self._catalog = survey.catalog
        self._clock_ns = clock_ns
        self._warn = _never_raising(warn)
        self._lock = lock
        newest_slot = survey.heads[-1][0] if survey.heads else 1
        self._head = HeadFile(survey.filesystem, survey.directory, newest_slot)
        self._head_synced_ns = clock_ns()
        self._appender = Appender(
            survey.filesystem,
            survey.directory,
            survey.catalog,
            survey.end,
            log_id=self.log_id,
            epoch=self.epoch,
            random_bytes=random_bytes,
            is_fenced=lambda: not lock.is_ours(),
            timed=self._timed,
            first_segment_bytes=first_segment_bytes,
            largest_segment_bytes=largest_segment_bytes,
        )
        self._queue = CommitQueue(group_bytes=GROUP_BYTES, room_bytes=QUEUE_BYTES)
        self._group: list[Ticket] = []
        self._poisoned = False
        self._buried = False  # in the child of a fork
        self._thread = threading.Thread(target=self._run, name="eventlog-writer", daemon=True)
        self._thread.start()
        _writers.add(self)

    @classmethod
    def open(
        cls,
        directory: Path,
        *,
        clock_ns: Callable[[], int],
        random_bytes: Callable[[int], bytes],
        holder: Mapping[str, str] | None = None,
        filesystem: FileSystem | None = None,
        warn: Callable[[str], None] | None = None,
        first_segment_bytes: int = 1 * MEBIBYTE,
        largest_segment_bytes: int = 64 * MEBIBYTE,
    ) -> "LogWriter":
        """Open the log in `directory` for writing; make it, and missing parents, if there is none.

        `holder` is what LOCK says for people beside the pid. `warn` gets one plain sentence about each slow
        sync, torn tail or note that could not be made; it is called from the writer's thread.

        Raises:
            LogLocked: another handle, here or in another process, holds the log.
            LogLost, LogUnreadable, LogUnsupported: the log is not whole; nothing was changed.
            EventLogError: the directory cannot be made or used.
        """
        disk = filesystem or RealFileSystem()
        path = os.path.abspath(directory)  # noqa: PTH100 - a str at the seam, without resolving links
        say = warn or _say_nothing
        try:
            lock, survey, found = open_for_writing(disk, path, holder or {})
        except OSError as error:
            raise EventLogError(f"The log directory {path} cannot be used: {error}.") from error
        if found.torn_bytes:
            say(
                f"A crash left {found.torn_bytes} bytes of an unfinished commit behind event "
                f"{found.position.sequence} in {path}; they were never acknowledged and stay where they are."
            )
        return cls(
            lock,
            survey,
            found,
            clock_ns=clock_ns,
            random_bytes=random_bytes,
            warn=say,
            first_segment_bytes=first_segment_bytes,
            largest_segment_bytes=largest_segment_bytes,
        )

    @property
    def durable(self) -> Position:
        """The last position that survives a power loss."""
        return self._durable

    def submit(self, payloads: Sequence[bytes]) -> Ticket:
        """Queue the events of one commit; wait only while too much is queued. For threads.

        Raises:
            EventTooLarge: they are more than 256 MiB; nothing was written.
            LogClosed: the handle takes nothing more; certainly absent.
        """
        ticket = self._ticket(payloads, None, None)
        self._queue.put(ticket, block=True)
        return ticket

    def submit_async(
        self, payloads: Sequence[bytes], on_durable: Callable[[Ticket], None] | None = None
    ) -> Ticket:
        """Queue the events of one commit from a running event loop; never blocks. Await the ticket.

        `on_durable` is called on the loop, in sequence order, just before the awaiters wake; only if it is
        durable.

        Raises:
            EventTooLarge, LogClosed: as `submit`.
        """
        ticket = self._ticket(payloads, asyncio.get_running_loop(), on_durable)
        self._queue.put(ticket, block=False)
        return ticket

    def append(self, payloads: Sequence[bytes]) -> int:
        """Submit and wait; return the sequence of the last event. Raises as `submit` and `Ticket.wait` do."""
        return self.submit(payloads).wait()

    def reader(self) -> LogReader:
        """A reader that sees what is durable, through this writer's index."""
        return LiveReader(
            self._filesystem, self._directory, self._catalog, lambda: (self._durable, self.log_id)
        )

    def close(self) -> None:
        """Write what is queued, sync HEAD, release the lock. Closing again does nothing."""
        if self._buried:
            return
        self._queue.close(f"The log {self._directory} was closed.")
        self._thread.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _ticket(
        self,
        payloads: Sequence[bytes],
        loop: asyncio.AbstractEventLoop | None,
        on_durable: Callable[[Ticket], None] | None,
    ) -> Ticket:
        events = tuple(payloads)
        if not events:
            raise ValueError("A commit holds at least one event.")
        for event in events:
            if type(event) is not bytes:
                raise TypeError(f"An event is bytes, not {type(event).__name__}.")
        size = body_bytes(events)
        if size > MAX_COMMIT_BYTES:
            raise EventTooLarge(
                f"A commit of {len(events)} events with {size} bytes is more than {MAX_COMMIT_BYTES}; "
                "nothing was written. Store large content beside the log and record its digest."
            )
        return Ticket(events, size + U32.size, loop, on_durable)

    # From here on: the writer's thread.

    def _run(self) -> None:
        try:
            self._write_groups()
        except Exception as error:  # noqa: BLE001 - nobody may wait for ever because this thread has ended
            self._poison(self._group, f"the writer's thread failed: {error}", error)
        self._finish()

    def _write_groups(self) -> None:
        while not self._poisoned:
            group = self._queue.gather(HEAD_SYNC_S if self._head.unsynced else None)
            if group is None:
                break
            if group:
                self._group = group
                self._commit(group)
            self._sync_head(idle=not group)

    def _commit(self, group: list[Ticket]) -> None:
        """One frame, one sync, one look at the fence; the position moves; only then anybody hears of it."""
        payloads = (
            group[0].payloads if len(group) == 1 else [event for one in group for event in one.payloads]
        )
        size = sum([ticket.size_bytes for ticket in group])
        time_ns = max(self._clock_ns(), self._appender.place.time_ns)
        first = self._durable.sequence + 1
        try:
            self._prepare_head()
            place = self._appender.commit(payloads, size, time_ns)
            if not self._lock.is_ours():
                raise FenceBroken  # noqa: TRY301 - one place decides what a broken fence means
        except NothingWritten as error:
            self._settle(
                group,
                NotWritten(f"Nothing was written to {self._directory}: {error}. Make room, then retry."),
            )
        except FenceBroken:
            self._poison(group, "LOCK was replaced, so another writer may hold the log; this one has stopped")
        except Exception as error:  # noqa: BLE001 - whatever it was, nothing is known about the bytes now
            self._poison(group, f"{error}", error)
        else:
            self._durable = Position(place.sequence, place.chain)
            self._publish(group, first, time_ns, place)

    def _prepare_head(self) -> None:
        try:
            self._head.prepare()
        except OSError as error:
            if error.errno in NO_ROOM:
                raise no_room(error) from error
            raise

    def _publish(self, group: list[Ticket], first: int, time_ns: int, place: Place) -> None:
        trouble = self._write_head(place)
        for ticket in group:
            ticket.first_sequence = first
            ticket.time_ns = time_ns
            first += len(ticket.payloads)
        self._settle(group, None)
        if trouble is not None:
            self._poison([], f"writing HEAD failed: {trouble}", trouble)

    def _head_now(self, place: Place) -> Head:
        return Head(
            self.log_id, self.epoch, self._appender.number, place.offset_bytes, place.sequence, place.chain
        )

    def _write_head(self, place: Place) -> OSError | None:
        """Note the position in HEAD. The events are durable whatever becomes of the note."""
        try:
            self._head.write(self._head_now(place))
        except OSError as error:
            if error.errno not in NO_ROOM:
                return error
            self._warn(f"HEAD of {self._directory} could not be written: {error}. The events are durable.")
        return None

    def _settle(self, group: list[Ticket], error: AppendError | None) -> None:
        if error is not None:
            for ticket in group:
                ticket.error = error
        self._group = []
        decide_all(group)

    def _poison(self, group: list[Ticket], why: str, cause: Exception | None = None) -> None:
        """The end of this handle: nothing is written or synced through it any more."""
        self._poisoned = True
        unknown = OutcomeUnknown(
            f"It is not known whether the events are in the log {self._directory}: {why}."
        )
        unknown.__cause__ = cause
        closed = f"The log {self._directory} takes nothing more through this handle: {why}. Open it again."
        waiting = self._queue.empty(closed)
        self._settle(group, unknown)
        self._settle(waiting, LogClosed(closed))

    def _sync_head(self, *, idle: bool) -> None:
        """Sync HEAD about once a second, after everybody was told, so that it survives a power loss too."""
        if self._poisoned or not self._head.unsynced:
            return
        now = self._clock_ns()
        if idle or abs(now - self._head_synced_ns) >= HEAD_SYNC_NS:
            self._head_synced_ns = now
            try:
                self._timed(self._head.sync)
            except OSError as error:
                self._poison([], f"syncing HEAD failed: {error}", error)

    def _timed(self, call: Callable[[], None]) -> None:
        before = self._clock_ns()
        call()
        took = self._clock_ns() - before
        if took >= SLOW_SYNC_NS:
            self._warn(
                f"A sync of the log {self._directory} took {took / ONE_SECOND_NS:.1f} s; less than "
                f"{SLOW_SYNC_NS / ONE_SECOND_NS:.0f} s is expected. Is the disk overloaded?"
            )

    def _finish(self) -> None:
        try:
            if not self._poisoned and self._catalog.segments and self._lock.is_ours():
                self._head.finish(self._head_now(self._appender.place), self._timed)
        except OSError as error:
            self._warn(f"HEAD of {self._directory} could not be written: {error}. The events are durable.")
        finally:
            self._give_up()

    def _give_up(self) -> None:
        for close in (self._appender.close, self._head.close, self._lock.release):
            try:
                close()
            except OSError as error:
                self._warn(f"Closing a file of {self._directory} failed: {error}.")

    # From here on: the child of a fork.

    def bury(self) -> None:
        """In the child of a fork: this handle is the parent's. Close the child's copies of its files."""
        self._buried = self._poisoned = True
        self._queue.make_locks()
        refusal = f"The log {self._directory} belongs to the process that was forked; open it anew."
        waiting = self._queue.empty(refusal)
        self._give_up()
        for ticket in (*self._group, *waiting):
            ticket.error = OutcomeUnknown(f"{refusal} The parent knows what became of this commit.")
            ticket.decide()
        self._group = []


_writers: "weakref.WeakSet[LogWriter]" = weakref.WeakSet()


def _bury_all() -> None:
    for writer in list(_writers):
        writer.bury()


def _say_nothing(_: str) -> None:
    """For whoever does not want to be warned."""


def _never_raising(warn: Callable[[str], None]) -> Callable[[str], None]:
    """A warning that cannot be given is no reason to stop writing."""

    def say(text: str) -> None:
        with suppress(Exception):
            warn(text)

    return say


os.register_at_fork(after_in_child=_bury_all)
