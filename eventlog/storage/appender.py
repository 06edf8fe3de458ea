"""Putting frames on the disk: the current segment, rolling to the next, and what a failed write leaves."""

import errno
import os
from collections.abc import Callable, Sequence

from .filesystem import FileSystem
from .format import (
    CODEC_PLAIN,
    FRAME_HEADER_BYTES,
    MEBIBYTE,
    SALT_BYTES,
    SEAL_BYTES,
    SEGMENT_HEADER_BYTES,
    TEMPORARY_SUFFIX,
    U64,
    padded,
)
from .framing import Place, Stamp, build_commit, build_seal
from .header import SegmentHeader, pack_segment_header
from .index import Catalog, SegmentMap
from .segments import segment_name, temporary_names

NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
_ZEROS = bytes(MEBIBYTE)


class NothingWritten(Exception):
    """There was no room; what had been put is gone again and the segment can go on. `args[0]` says why."""


def no_room(error: OSError) -> NothingWritten:
    """The outcome that an errno of `NO_ROOM` is."""
    return NothingWritten(f"{error.strerror} (errno {error.errno})")


class FenceBroken(Exception):
    """LOCK no longer is the file that was locked: another writer may be at work."""


class SyncFailed(Exception):
    """A sync failed: what was written may be gone while the page cache still shows it. Never sync again."""


class Appender:
    """The writing end of a log's segments. Only the writer's thread uses it.

    `place` is the end of the chain; every frame before it is synced. `timed` makes a call and minds how long
    it takes; `on_successor` hears of each segment that is over, and where it ended. Any OSError or SyncFailed
    out of here is final: nothing is known about the bytes any more.
    """

    def __init__(
        self,
        filesystem: FileSystem,
        directory: str,
        catalog: Catalog,
        place: Place,
        *,
        log_id: bytes,
        epoch: int,
        random_bytes: Callable[[int], bytes],
        is_fenced: Callable[[], bool],
        timed: Callable[[Callable[[], None]], None],
        on_successor: Callable[[SegmentMap, Place], None] | None = None,
        first_segment_bytes: int,
        largest_segment_bytes: int,
    ) -> None:
        self.place = place
        self.fd: int | None = None
        self._making: int | None = None  # a segment that has no name yet, for the child of a fork
        self._filesystem = filesystem
        self._directory = directory
        self._catalog = catalog
        self._log_id = log_id
        self._epoch = epoch
        self._random_bytes = random_bytes
        self._is_fenced = is_fenced
        self._timed = timed
        self._on_successor = on_successor
        self._next_bytes = min(first_segment_bytes, largest_segment_bytes)
        self._largest_bytes = largest_segment_bytes
        self._stamp = Stamp(log_id, epoch, 0)
        self._stop_bytes = 0
        self._preallocated = False

    @property
    def number(self) -> int:
        """The number of the newest segment (0: none yet)."""
        return len(self._catalog.segments)

    def commit(self, payloads: Sequence[bytes], size_bytes: int, time_ns: int) -> Place:
        """Write the frame of these events and sync it; return the place after it.

        Raises:
            NothingWritten: no room; certainly absent, and the next commit may be tried.
            FenceBroken: another writer may have made the next segment; nothing was written.
            OSError, SyncFailed: unknown.
        """
        needed = padded(FRAME_HEADER_BYTES + size_bytes) + SEAL_BYTES
        if self.fd is None or self.place.offset_bytes + needed > self._stop_bytes:
            self._roll(needed, time_ns)
        frame, after = build_commit(self._stamp, self.place, time_ns, payloads)
        self._put(frame)
        self._catalog.segments[-1].index.note(self.place)
        self.place = after
        return after

    def _put(self, frame: bytes) -> None:
        assert self.fd is not None
        try:
            write_fully(self._filesystem, self.fd, frame, self.place.offset_bytes)
        except OSError as error:
            if error.errno not in NO_ROOM:
                raise
            self._take_back(len(frame))
            raise no_room(error) from error
        self._sync_data(self.fd)

    def _sync_data(self, fd: int) -> None:
        self._sync(lambda: self._filesystem.fdatasync(fd))

    def _sync(self, call: Callable[[], None]) -> None:
        try:
            self._timed(call)
        except OSError as error:
            raise SyncFailed(f"a sync failed: {error.strerror} (errno {error.errno})") from error

    def _take_back(self, size_bytes: int) -> None:
        """Put the zeros back that the frame was written over, and sync them."""
        assert self.fd is not None
        start = self.place.offset_bytes
        if self._preallocated:
            for done in range(0, size_bytes, len(_ZEROS)):
                zeros = memoryview(_ZEROS)[: size_bytes - done]
                write_fully(self._filesystem, self.fd, zeros, start + done)
        else:
            self._filesystem.truncate(self.fd, start)
        self._sync_data(self.fd)

    def _roll(self, needed_bytes: int, time_ns: int) -> None:
        """Seal the segment that is full, and make the next one."""
        if self.fd is not None:
            seal, after = build_seal(self._stamp, self.place)
            self._put(seal)
            self.place = after
            fd, self.fd = self.fd, None
            self._filesystem.close(fd)
        size = max(self._next_bytes, SEGMENT_HEADER_BYTES + needed_bytes)
        self._make_segment(size, time_ns)
        self._next_bytes = min(2 * self._next_bytes, self._largest_bytes)

    def _make_segment(self, size_bytes: int, time_ns: int) -> None:
        """Temporary file, allocate, header, fsync, rename, directory sync: in this order and no other."""
        if self._is_fenced():
            raise FenceBroken
        name = segment_name(self.place.sequence + 1, self.number + 1)
        path = f"{self._directory}/{name}"
        temporary = path + TEMPORARY_SUFFIX
        self._remove_temporaries()
        self._making = fd = self._open_new(temporary)
        try:
            header = self._write_header(fd, size_bytes, time_ns)
            self._sync(lambda: self._filesystem.fsync(fd))
            # Asked again, because making a file takes long: a second writer removes our temporary name when
            # it opens.
            if self._is_fenced() or self._filesystem.identity(path) is not None:
                raise FenceBroken  # noqa: TRY301 - the descriptor is closed below
            self._filesystem.rename(temporary, path)
            self._sync(lambda: self._filesystem.sync_directory(self._directory))
        except BaseException as error:
            self._making = None
            self._filesystem.close(fd)
            if isinstance(error, OSError) and error.errno in NO_ROOM:
                self._remove_temporaries()
                raise no_room(error) from error
            raise
        self.fd, self._making = fd, None
        self._stamp = header.stamp
        self._stop_bytes = header.allocated_bytes
        self._preallocated = header.preallocated
        self._catalog.add(name, header, self.place)
        if self._on_successor is not None and self.number > 1:
            self._on_successor(self._catalog.segments[-2], self.place)
        self.place = self.place._replace(offset_bytes=SEGMENT_HEADER_BYTES)

    def _open_new(self, path: str) -> int:
        try:
            return self._filesystem.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL)
        except OSError as error:
            if error.errno in NO_ROOM:
                raise no_room(error) from error
            raise

    def _write_header(self, fd: int, size_bytes: int, time_ns: int) -> SegmentHeader:
        preallocated = self._filesystem.allocate(fd, size_bytes)
        first = self.number == 0
        header = SegmentHeader(
            log_id=self._log_id,
            number=self.number + 1,
            base_sequence=self.place.sequence + 1,
            epoch=self._epoch,
            codec=CODEC_PLAIN,
            preallocated=preallocated,
            salt=U64.unpack(self._random_bytes(SALT_BYTES))[0],
            allocated_bytes=size_bytes,
            previous_number=self.number,
            previous_sequence=self.place.sequence,
            previous_offset_bytes=0 if first else self.place.offset_bytes,
            previous_chain=self.place.chain,
            created_ns=time_ns,
        )
        write_fully(self._filesystem, fd, pack_segment_header(header), 0)
        return header

    def _remove_temporaries(self) -> None:
        # Not the compressed ones: this writer's own compactor may be at work on one.
        remove_temporaries(self._filesystem, self._directory, twins=False)

    def close(self) -> None:
        """Close the current segment's descriptor, and in the child of a fork also one that is being made."""
        for fd in (self.fd, self._making):
            if fd is not None:
                self._filesystem.close(fd)
        self.fd = self._making = None


def write_fully(filesystem: FileSystem, fd: int, data: bytes | memoryview, offset: int) -> None:
    """Write all of `data` at `offset`; go on after short writes and interrupted calls."""
    rest = data
    while rest:
        try:
            done = filesystem.pwrite(fd, rest, offset)
        except InterruptedError:
            continue
        if done == len(rest):
            return
        if done <= 0:
            raise OSError(errno.EIO, "a write took nothing and gave no error")
        rest = memoryview(rest)[done:]
        offset += done


def remove_temporaries(filesystem: FileSystem, directory: str, *, twins: bool) -> None:
    """Remove segments that never got their names; compressed ones only with `twins`.

    A writer does so as soon as it has the lock: from then on an older, fenced writer that stands between
    making a segment and naming it can no longer name it.
    """
    for name in temporary_names(filesystem.names(directory), twins=twins):
        try:
            filesystem.unlink(f"{directory}/{name}")
        except FileNotFoundError:
            continue  # the other writer has just named it, and is fenced when it writes
