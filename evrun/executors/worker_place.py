"""A worker's private directory on its node, and those of workers that are gone.

A directory is locked as long as its worker lives; the kernel gives the lock back whatever ends the worker.
Its owner is written into it only under the lock. So one that has an owner and no lock is nobody's any more.
"""

import fcntl
import os
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Self

from ..effects.clock import random_bytes
from ..effects.orphans import kill_orphans
from ..effects.processes_table import marked_processes
from ..effects.secrets import MARKER_VARIABLE

PREFIX = "evrun-worker-"
OWNER = "owner"
_LONGEST = 1000


class WorkerPlace:
    """The directory of the worker of this marker, gone with the context. `path` is there after `make`.

    It is made late, so that a worker that is ended before it had anything to do leaves nothing.
    """

    def __init__(self, marker: str) -> None:
        self.path = Path(tempfile.gettempdir(), f"{PREFIX}{random_bytes(8).hex()}")
        self._marker = marker
        self._lock: int | None = None

    def make(self) -> None:
        """Make it, where that was not done.

        Raises:
            OSError: this node has no room for it.
        """
        if self._lock is None:
            self.path.mkdir(mode=0o700)
            self._lock = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY)
            fcntl.flock(self._lock, fcntl.LOCK_EX)
            (self.path / OWNER).write_text(self._marker)

    def __enter__(self) -> Self:
        """The place, not yet made."""
        return self

    def __exit__(self, *_: object) -> None:
        """Remove it."""
        if self._lock is not None:
            remove(self.path)
            os.close(self._lock)


def clear_dead(run: str) -> None:
    """Remove the directories of this user's workers on this node that are gone.

    What those of the run of this marker have started is ended first. Where a process of another run's worker
    is still there, its directory stays for whoever ends that.
    """
    for place in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        with suppress(OSError, UnicodeDecodeError):
            _clear(place, run)


def remove(place: Path) -> None:
    """Remove a directory with all that is in it, also where something may not be written to."""
    for root, names, _ in os.walk(place):
        for path in (Path(root, name) for name in names):
            with suppress(OSError):
                if not path.is_symlink():
                    path.chmod(0o700)
    shutil.rmtree(place, ignore_errors=True)


def _clear(place: Path, run: str) -> None:
    lock = os.open(place, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        marker = _owner(place) if os.fstat(lock).st_uid == os.getuid() else ""
        if not marker:
            return
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if marker.startswith(f"{run}/"):
            kill_orphans(marker)
        elif _has_processes(marker):
            return
        remove(place)
    finally:
        os.close(lock)


def _owner(place: Path) -> str:
    """Whose a directory is; empty where its worker has only just made it, or it is no worker's."""
    file = place / OWNER
    return file.read_text()[:_LONGEST] if file.is_file() else ""


def _has_processes(marker: str) -> bool:
    found = [process.marker for process in marked_processes(MARKER_VARIABLE)]
    return any(each == marker or each.startswith(f"{marker}/") for each in found)
