"""Appending to a log: what a caller sees of it. The work is done by `committer`."""

import asyncio
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Self

from ..errors import EventLogError, EventTooLarge
from .committer import Committer
from .filesystem import FileSystem, RealFileSystem
from .format import LOG_ID_BYTES, MAX_COMMIT_BYTES, MEBIBYTE, U32
from .framing import body_bytes
from .lock import Lock
from .opening import open_for_writing
from .queue import CommitQueue
from .reader import LiveReader, LogReader
from .survey import Survey
from .tickets import Ticket
from .verdict import Position, Verdict

GROUP_BYTES = 4 * MEBIBYTE  # one frame takes no more of what waits; a larger commit goes alone
QUEUE_BYTES = 32 * MEBIBYTE  # `submit` waits while more than this is queued


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
        compress_sealed: bool,
    ) -> None:
        self.epoch = survey.session
        self.log_id = survey.log_id if survey.catalog.segments else random_bytes(LOG_ID_BYTES)
        self.found = found
        self._filesystem = survey.filesystem
        self._directory = survey.directory
        self._catalog = survey.catalog
        self._queue = CommitQueue(group_bytes=GROUP_BYTES, room_bytes=QUEUE_BYTES)
        self._committer = Committer(
            lock,
            survey,
            self._queue,
            log_id=self.log_id,
            clock_ns=clock_ns,
            random_bytes=random_bytes,
            warn=warn,
            first_segment_bytes=first_segment_bytes,
            largest_segment_bytes=largest_segment_bytes,
            compress_sealed=compress_sealed,
        )

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
        compress_sealed: bool = False,
    ) -> "LogWriter":
        """Open the log in `directory` for writing; make it, and missing parents, if there is none.

        `holder` is what LOCK says for people beside the pid. `warn` gets one plain sentence about each slow
        sync, torn tail or note that could not be made; it is called from a thread of the writer. With
        `compress_sealed` a segment that got a successor is compressed meanwhile, as `compact` does.

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
            compress_sealed=compress_sealed,
        )

    @property
    def durable(self) -> Position:
        """The last position that survives a power loss."""
        return self._committer.durable

    def submit(self, payloads: Sequence[bytes]) -> Ticket:
        """Queue the events of one commit; wait only while too much is queued. For threads.

        Raises:
            EventTooLarge: they are more than 256 MiB; nothing was written.
            LogClosed: the handle takes nothing more; certainly absent.
        """
        ticket = self._ticket(payloads, None, None)
        self._queue.put(ticket)
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
        loop = asyncio.get_running_loop()
        ticket = self._ticket(payloads, loop, on_durable)
        if self._queue.put_soon(ticket, loop):
            loop.call_soon(self._wake, loop)
        return ticket

    def _wake(self, loop: asyncio.AbstractEventLoop) -> None:
        """Wake the writer once all were told of the commits before: what they queue then comes along."""
        if self._committer.wakers.busy(loop):
            loop.call_soon(self._wake, loop)
        else:
            loop.call_soon(self._queue.wake)  # in the next turn, in which those told in this one answer

    def append(self, payloads: Sequence[bytes]) -> int:
        """Submit and wait; return the sequence of the last event. Raises as `submit` and `Ticket.wait` do."""
        return self.submit(payloads).wait()

    def reader(self) -> LogReader:
        """A reader that sees what is durable, through this writer's index."""
        return LiveReader(
            self._filesystem, self._directory, self._catalog, lambda: (self.durable, self.log_id)
        )

    def close(self) -> None:
        """Write what is queued, sync HEAD, release the lock. Closing again does nothing."""
        self._committer.close()

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
        size = len(events[0]) if len(events) == 1 else body_bytes(events)
        if size > MAX_COMMIT_BYTES:
            raise EventTooLarge(
                f"A commit of {len(events)} events with {size} bytes is more than {MAX_COMMIT_BYTES}; "
                "nothing was written. Store large content beside the log and record its digest."
            )
        return Ticket(events, size + U32.size, loop, on_durable)


def _say_nothing(_: str) -> None:
    """For whoever does not want to be warned."""
