"""Compression beside the writer: in a thread of its own, each segment that got a successor."""

import threading
from collections import deque
from collections.abc import Callable, Iterable

from ..errors import EventLogError
from .compaction import Compaction, Stopped
from .filesystem import FileSystem
from .framing import Place
from .index import SegmentMap
from .segments import plain_name


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
        self._work = Compaction(filesystem, directory, scratch, self._check)
        self._is_fenced = is_fenced
        self._warn = warn
        self._offered: deque[tuple[SegmentMap, Place]] = deque()
        self._there_is_work = threading.Semaphore(0)
        self._stopped = False
        self._thread: threading.Thread | None = None

    def offer(self, segment: SegmentMap, end: Place) -> None:
        """Compress this segment some time; its last frame ends at `end` and it has a successor."""
        if self._stopped or segment.name != plain_name(segment.name):
            return  # a segment of an earlier session may be compressed already
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="eventlog-compactor", daemon=True)
            self._thread.start()
        self._offered.append((segment, end))
        self._there_is_work.release()

    def offer_all(self, sealed: Iterable[tuple[SegmentMap, Place]]) -> None:
        """The same for what earlier sessions have left plain: killed, perhaps, before its turn came."""
        for segment, end in sealed:
            self.offer(segment, end)

    def close(self) -> None:
        """Stop at the next frame; a segment that is half done stays plain."""
        self._stopped = True
        if self._thread is not None:
            self._there_is_work.release()
            self._thread.join()

    def _check(self) -> None:
        if self._stopped or self._is_fenced():
            raise Stopped

    def _run(self) -> None:
        try:
            while True:
                self._there_is_work.acquire()
                self._check()
                self._work.compact(*self._offered.popleft())
        except Stopped:
            return
        except (EventLogError, OSError) as error:
            self._warn(f"{error} Segments stay plain from here on.")
        finally:
            self._stopped = True
            self._offered.clear()
