"""The writer's thread: group commit, and everything that ends a handle."""

import os
import threading
import weakref
from collections.abc import Callable
from contextlib import suppress

from ..errors import AppendError, LogClosed, NotWritten, OutcomeUnknown
from .appender import NO_ROOM, Appender, FenceBroken, NothingWritten, no_room
from .compact import SCRATCH_BYTES
from .compactor import Compactor
from .framing import Place
from .head import Head
from .head_file import HeadFile
from .lock import Lock
from .queue import CommitQueue
from .survey import Survey
from .tickets import Ticket
from .verdict import Position
from .wakers import Wakers

SLOW_SYNC_NS = 1_000_000_000
HEAD_SYNC_NS = 1_000_000_000
HEAD_SYNC_S = HEAD_SYNC_NS / 1_000_000_000
ONE_SECOND_NS = 1_000_000_000


class Committer:
    """Takes what waits in the queue, makes it durable, and tells everybody; until closed, poisoned or buried.

    Its thread alone uses the descriptors. `durable` moves only after sync and fence.
    """

    def __init__(
        self,
        lock: Lock,
        survey: Survey,
        queue: CommitQueue,
        *,
        log_id: bytes,
        clock_ns: Callable[[], int],
        random_bytes: Callable[[int], bytes],
        warn: Callable[[str], None],
        first_segment_bytes: int,
        largest_segment_bytes: int,
        compress_sealed: bool,
    ) -> None:
        self.durable = Position(survey.durable.sequence, survey.durable.chain)
        self._directory = survey.directory
        self._catalog = survey.catalog
        self._log_id = log_id
        self._epoch = survey.session
        self._clock_ns = clock_ns
        self._warn = _never_raising(warn)
        self._lock = lock
        newest_slot = survey.heads[-1][0] if survey.heads else 1
        self._head = HeadFile(survey.filesystem, survey.directory, newest_slot)
        self._head_synced_ns = clock_ns()
        self._compactor = Compactor(
            survey.filesystem,
            survey.directory,
            scratch=random_bytes(SCRATCH_BYTES).hex(),
            is_fenced=lambda: not lock.is_ours(),
            warn=self._warn,
        )
        self._appender = Appender(
            survey.filesystem,
            survey.directory,
            survey.catalog,
            survey.end,
            log_id=log_id,
            epoch=survey.session,
            random_bytes=random_bytes,
            is_fenced=lambda: not lock.is_ours(),
            timed=self._timed,
            on_successor=self._compactor.offer if compress_sealed else None,
            first_segment_bytes=first_segment_bytes,
            largest_segment_bytes=largest_segment_bytes,
        )
        if compress_sealed:
            names = frozenset(survey.filesystem.names(survey.directory))
            self._compactor.offer_all(survey.catalog.sealed(), names)
        self.wakers = Wakers()
        self._queue = queue
        self._group: list[Ticket] = []
        self._poisoned = False
        self._buried = False  # in the child of a fork
        self._thread = threading.Thread(target=self._run, name="eventlog-writer", daemon=True)
        self._thread.start()
        _committers.add(self)

    def close(self) -> None:
        """Write what is queued, sync HEAD, release the lock. Closing again does nothing."""
        if not self._buried:
            self._queue.close(f"The log {self._directory} was closed.")
            self._thread.join()

    # From here on: the writer's thread.

    def _run(self) -> None:
        try:
            self._write_groups()
        except Exception as error:  # noqa: BLE001 - nobody may wait for ever because this thread has ended
            self._poison(self._group, f"the writer's thread failed: {error}", error)
        self._finish()

    def _write_groups(self) -> None:
        while not self._poisoned:
            # Looks by itself now and then: the loop that promised to wake it may have ended before it did.
            group = self._queue.gather(HEAD_SYNC_S)
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
        first = self.durable.sequence + 1
        try:
            if self._head.fd is None:
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
            self.durable = Position(place.sequence, place.chain)
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
            self._log_id, self._epoch, self._appender.number, place.offset_bytes, place.sequence, place.chain
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
        self.wakers.decide(group)

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
        except Exception as error:  # noqa: BLE001 - HEAD is only evidence, and the thread ends here anyway
            self._warn(f"HEAD of {self._directory} could not be written: {error}. The events are durable.")
        finally:
            # Before the lock is given back: the next writer finds nobody else at work on the files.
            self._compactor.close()
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


_committers: "weakref.WeakSet[Committer]" = weakref.WeakSet()


def _bury_all() -> None:
    for committer in list(_committers):
        committer.bury()


def _never_raising(warn: Callable[[str], None]) -> Callable[[str], None]:
    """A warning that cannot be given is no reason to stop writing."""

    def say(text: str) -> None:
        with suppress(Exception):
            warn(text)

    return say


os.register_at_fork(after_in_child=_bury_all)
