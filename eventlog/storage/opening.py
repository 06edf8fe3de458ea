"""Opening a log for writing: lock, sync, drop the cache, scan, classify; only then is anything written."""

import errno
import os
from collections.abc import Mapping
from contextlib import suppress

from .appender import remove_temporaries
from .filesystem import FileSystem
from .lock import Lock, take_lock
from .reader import drop_last_cache, sync_last_segment
from .recovery import examine
from .survey import Survey
from .verdict import Verdict, refusal

_NOT_OURS = frozenset({errno.EACCES, errno.EPERM, errno.EROFS, errno.EINVAL, errno.ENOSYS, errno.ENOTSUP})


def open_for_writing(
    filesystem: FileSystem, directory: str, holder: Mapping[str, str]
) -> tuple[Lock, Survey, Verdict]:
    """Take the log over. Nothing of it is changed, but what was found is durable afterwards.

    Raises:
        LogLocked: somebody else holds it.
        LogLost, LogUnreadable, LogUnsupported: it is not whole.
    """
    make_directories(filesystem, directory)
    lock = take_lock(filesystem, directory)
    try:
        # A fenced writer that stands just before naming a segment can no longer do so after this.
        remove_temporaries(filesystem, directory, twins=True)
        # What the last writer left in the page cache becomes durable now, before any header or HEAD vouches
        # for it.
        sync_last_segment(filesystem, directory)
        # After a failed sync the cache may show what the disk never got.
        drop_last_cache(filesystem, directory)
        survey = Survey(filesystem, directory)
        verdict = examine(survey, live=False)
        if not verdict.opens:
            raise refusal(verdict, directory)  # noqa: TRY301 - the lock is given back below
        if not survey.catalog.segments:
            sync_ancestors(filesystem, directory)
        with suppress(OSError):  # on a full disk, for instance; the text is only for people
            lock.write({"session": str(survey.session), **holder, "pid": str(os.getpid())})
    except BaseException:
        lock.release()
        raise
    return lock, survey, verdict


def make_directories(filesystem: FileSystem, directory: str) -> None:
    """Make the directory and its missing parents; `sync_ancestors` makes their names durable."""
    missing = []
    path = directory
    while filesystem.identity(path) is None:
        missing.append(path)
        path = os.path.dirname(path)  # noqa: PTH120 - paths are str at the seam
    for made in reversed(missing):
        try:
            filesystem.make_directory(made)
        except FileExistsError:
            continue


def sync_ancestors(filesystem: FileSystem, directory: str) -> None:
    """Make the whole path to a new log durable.

    An earlier process may have made any of these directories and died before it synced them. One that this
    user may not even list, or whose file system knows no such sync, was not made by evrun.
    """
    path, parent = directory, os.path.dirname(directory)  # noqa: PTH120 - paths are str at the seam
    while parent != path:
        try:
            filesystem.sync_directory(parent)
        except OSError as error:
            if error.errno not in _NOT_OURS:
                raise
        path, parent = parent, os.path.dirname(parent)  # noqa: PTH120 - paths are str at the seam
