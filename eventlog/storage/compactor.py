"""Compression beside the writer: in a thread of its own, each segment that got a successor.

The thread shares the interpreter with the run, so it works in short pieces and rests in between: who waits
for the interpreter waits a millisecond and not five. Only when segments come faster than that does it hurry.
"""

import threading
from collections import deque
from collections.abc import Callable, Collection, Iterable

from ..errors import EventLogError
from .compaction import Compaction, Stopped
from .filesystem import FileSystem
from .framing import Place
from .index import SegmentMap
from .segments import plain_name

PIECE_BYTES = 96 * 1024  # of frames: about a millisecond
REST_S = 0.004
HURRY_AT = 3  # so many segments waiting


class Compactor:
    """Compresses what it is offered until it is closed. Whatever fails is a warning and the end of it.

    The log does not depend on it: a segment that it did not come to, or left, stays plain.
    """

    def __init__(
        self,
        filesystem: FileSystem,
        directory: str,
        *,
        scratch: str,
        is_fenced: Callable[[], bool],
        warn: Callable[[str], None],
    ) -> None:
        self._work = Compaction(filesystem, directory, scratch, self._check, self._pace)
        self._is_fenced = is_fenced
        self._warn = warn
        self._offered: deque[tuple[SegmentMap, Place]] = deque()
        self._there_is_work = threading.Semaphore(0)
        self._stopped = False
        self._closing = threading.Event()
        self._since_rest_bytes = 0
        self._thread: threading.Thread | None = None

    def offer(self, segment: SegmentMap, end: Place) -> None:
        """Compress this segment some time; its last frame ends at `end` and it has a successor."""
        if self._stopped or segment.name != plain_name(segment.name):
            return  # a segment of an earlier session may be compressed already
        self._queue(segment, end)

    def _queue(self, segment: SegmentMap, end: Place) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="eventlog-compactor", daemon=True)
            self._thread.start()
        self._offered.append((segment, end))
        self._there_is_work.release()

    def offer_all(self, sealed: Iterable[tuple[SegmentMap, Place]], names: Collection[str]) -> None:
        """The same for what earlier sessions have left plain: killed, perhaps, before its turn came.

        `names` are the files of the log: of a pair, whose twin was found whole, the plain segment is removed.
        """
        for segment, end in sealed:
            if segment.name in names and segment.name != plain_name(segment.name) in names:
                self._queue(segment, end)
            self.offer(segment, end)

    def close(self) -> None:
        """Stop at the next frame; a segment that is half done stays plain."""
        self._stopped = True
        self._closing.set()
        if self._thread is not None:
            self._there_is_work.release()
            self._thread.join()

    def _check(self) -> None:
        if self._stopped or self._is_fenced():
            raise Stopped

    def _pace(self, size_bytes: int) -> None:
        """Rest after each piece of work; no longer than until somebody closes the log."""
        self._since_rest_bytes += size_bytes
        if self._since_rest_bytes >= PIECE_BYTES and len(self._offered) < HURRY_AT:
            self._since_rest_bytes = 0
            self._closing.wait(REST_S)

    def _run(self) -> None:
        try:
            while True:
                self._there_is_work.acquire()
                self._check()
                segment, end = self._offered.popleft()
                if segment.name == plain_name(segment.name):
                    self._work.compact(segment, end)
                else:
                    self._work.remove_plain(plain_name(segment.name))
        except Stopped:
            return
        except (EventLogError, OSError) as error:
            self._warn(f"{error} Segments stay plain from here on.")
        finally:
            self._stopped = True
            self._offered.clear()
