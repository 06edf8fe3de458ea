"""Compressing a log that nobody writes."""

import os
from collections.abc import Callable, Mapping
from pathlib import Path

from ..errors import EventLogError, LogLocked, NotCompressed
from .compaction import Compacted, Compaction
from .filesystem import FileSystem, RealFileSystem
from .framing import Place
from .lock import Lock
from .opening import open_for_writing
from .reader import list_log
from .segments import plain_name
from .survey import Survey

SCRATCH_BYTES = 4


def compact(
    directory: Path,
    *,
    random_bytes: Callable[[int], bytes],
    holder: Mapping[str, str] | None = None,
    filesystem: FileSystem | None = None,
    on_segment: Callable[[Compacted], None] | None = None,
) -> list[Compacted]:
    """Replace every plain segment by its compressed twin, the last one too: no writer goes on in it.

    Takes the lock as a writer does. Events, sequences, chain values and anchors stay the same. `on_segment`
    hears of each as it is done. Stopped or failing halfway, the log is whole: compact it again.

    Raises:
        LogLocked: a process holds the log.
        LogLost, LogUnreadable, LogUnsupported: the log is not whole; nothing was changed.
        NotCompressed: a segment stays plain (no room, for instance).
        EventLogError: there is no log.
    """
    disk = filesystem or RealFileSystem()
    path = os.path.abspath(directory)  # noqa: PTH100 - a str at the seam, without resolving links
    try:
        list_log(disk, path)
        lock, survey, _ = open_for_writing(disk, path, holder or {})
    except OSError as error:
        raise EventLogError(f"The log directory {path} cannot be used: {error}.") from error
    try:
        work = Compaction(disk, path, random_bytes(SCRATCH_BYTES).hex(), lambda: _check(lock, path))
        return _compact_all(work, survey, on_segment)
    except OSError as error:
        raise NotCompressed(f"{path} cannot be read: {error}. Nothing is lost; compact it again.") from error
    finally:
        lock.release()


def _compact_all(
    work: Compaction, survey: Survey, on_segment: Callable[[Compacted], None] | None
) -> list[Compacted]:
    done = []
    segments = survey.catalog.segments
    names = set(survey.filesystem.names(survey.directory))
    for number, segment in enumerate(segments):
        plain = plain_name(segment.name)
        if segment.name == plain:
            end = survey.end if number + 1 == len(segments) else segments[number + 1].index.start
            done.append(work.compact(segment, _end_of(segment.end_bytes, end)))
            if on_segment is not None:
                on_segment(done[-1])
        elif plain in names:  # a crash came before it could be removed
            work.remove_plain(plain)
    return done


def _end_of(end_bytes: int | None, place: Place) -> Place:
    """Where a segment ends: `place`, at its offset there. The next segment begins at the same commit."""
    return place if end_bytes is None else place._replace(offset_bytes=end_bytes)


def _check(lock: Lock, directory: str) -> None:
    if not lock.is_ours():
        raise LogLocked(f"LOCK of {directory} was replaced, so another process may hold the log.", {})
