"""A new log that repeats the proven beginning of a damaged one, commit by commit.

It has the old log's id, sessions and times, and so its chain values: an anchor that was taken from the old
log proves the new one too, as far as it reaches.
"""

import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

from ..errors import EventLogError
from .appender import Appender
from .filesystem import RealFileSystem
from .format import LOG_ID_BYTES, MEBIBYTE
from .framing import body_bytes
from .head import Head
from .head_file import HeadFile
from .index import Catalog
from .lock import take_lock
from .opening import make_directories, sync_ancestors
from .salvage import Salvaged
from .survey import START
from .verdict import Position
from .verify import verify

_FIRST_SEGMENT_BYTES = 1 * MEBIBYTE
_LARGEST_SEGMENT_BYTES = 64 * MEBIBYTE


class _Unhurried(RealFileSystem):
    """Syncs nothing: a copy is acknowledged once, as a whole, and synced before that."""

    def fdatasync(self, fd: int) -> None:
        """Do nothing yet."""

    def fsync(self, fd: int) -> None:
        """Do nothing yet."""

    def sync_directory(self, path: str) -> None:
        """Do nothing yet."""


class SalvageCopy:
    """The new log while it is being written. It gets the name `log` only in `finish`, whole and durable."""

    def __init__(
        self, directory: Path, *, random_bytes: Callable[[int], bytes], holder: Mapping[str, str]
    ) -> None:
        """Begin in `directory`, which is made if it is not there.

        Raises:
            OSError: it cannot be.
        """
        self._final = os.path.abspath(directory / "log")  # noqa: PTH100 - a str at the seam
        self._path = f"{self._final}.unfinished"
        self._disk = _Unhurried()
        self._random_bytes = random_bytes
        self._catalog = Catalog()
        self._place = START
        self._epoch = 0
        self._log_id = bytes(LOG_ID_BYTES)
        self._appender: Appender | None = None
        make_directories(self._disk, self._path)
        self._lock = take_lock(self._disk, self._path)
        self._lock.write({**holder, "pid": str(os.getpid())})

    def append(self, commit: Salvaged) -> None:
        """Repeat one proven commit; they come in order.

        Raises:
            OSError: the disk did not take it.
            EventLogError: it does not continue what is there.
        """
        payloads = [record.payload for record in commit.records]
        time_ns, epoch = commit.records[0].time_ns, commit.records[0].epoch
        if self._appender is None or epoch != self._epoch:
            self._begin_session(epoch, commit.log_id or self._log_id)
        assert self._appender is not None
        self._place = self._appender.commit(payloads, body_bytes(payloads), time_ns)
        if self._place.chain != commit.chain:
            last = commit.records[-1].sequence
            raise EventLogError(
                f"The copy {self._path} has another chain value at event {last} than the log it is made "
                "from. That is a fault of this program: keep both and report it."
            )

    def _begin_session(self, epoch: int, log_id: bytes) -> None:
        if self._appender is not None:
            self._appender.close()
        self._epoch, self._log_id = epoch, log_id
        self._appender = Appender(
            self._disk,
            self._path,
            self._catalog,
            self._place,
            log_id=log_id,
            epoch=epoch,
            random_bytes=self._random_bytes,
            is_fenced=lambda: False,
            timed=lambda call: call(),
            first_segment_bytes=_FIRST_SEGMENT_BYTES,
            largest_segment_bytes=_LARGEST_SEGMENT_BYTES,
        )

    def finish(self) -> Position:
        """Make the copy durable, read it again, and only then give it its name; the end of it.

        Raises:
            OSError: a sync failed.
            EventLogError: what can be read is not what was written.
        """
        self._write_head()
        self.close()
        disk = RealFileSystem()
        for name in disk.names(self._path):
            fd = disk.open(f"{self._path}/{name}", os.O_RDWR)
            try:
                disk.fsync(fd)
                disk.drop_cache(fd)
            finally:
                disk.close(fd)
        disk.sync_directory(self._path)
        end = Position(self._place.sequence, self._place.chain)
        verdict = verify(Path(self._path))
        if verdict.kind != "clean" or verdict.position != end:
            raise EventLogError(
                f"The copy {self._path} is {verdict.kind} up to event {verdict.position.sequence}, expected "
                f"clean up to {end.sequence}. Check the disk that it was written to."
            )
        disk.rename(self._path, self._final)
        sync_ancestors(disk, self._final)
        return end

    def _write_head(self) -> None:
        place, number = self._place, len(self._catalog.segments)
        if self._appender is None:
            return
        head = HeadFile(self._disk, self._path, newest_slot=1)
        try:
            found = Head(self._log_id, self._epoch, number, place.offset_bytes, place.sequence, place.chain)
            head.finish(found, lambda call: call())
        finally:
            head.close()

    def close(self) -> None:
        """Give files and lock back. Closing again does nothing."""
        if self._appender is not None:
            self._appender.close()
        self._lock.release()

    def discard(self) -> None:
        """Take away what was written, as far as that is possible."""
        self.close()
        with suppress(OSError):
            for name in self._disk.names(self._path):
                self._disk.unlink(f"{self._path}/{name}")
            Path(self._path).rmdir()
