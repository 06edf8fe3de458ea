"""Looking at a log from outside: is it whole, and who holds it."""

import os
from pathlib import Path

from ..errors import EventLogError, Problem
from .filesystem import FileSystem, RealFileSystem
from .lock import read_holder
from .reader import list_log
from .recovery import examine
from .survey import Survey
from .verdict import EMPTY, Position, Verdict


def verify(
    directory: Path, *, anchor: Position | None = None, filesystem: FileSystem | None = None
) -> Verdict:
    """Read the whole log and say what it is. Damage is an answer, never an error; nothing is changed.

    `anchor` is a position kept elsewhere: any change at or before it gives "tampered".

    Raises:
        EventLogError: there is no log in the directory.
    """
    disk = filesystem or RealFileSystem()
    path = os.path.abspath(directory)  # noqa: PTH100 - a str at the seam, without resolving links
    try:
        list_log(disk, path)
        verdict = _examine(disk, path, anchor)
        # A writer that came in between looks like damage for a moment: look once more.
        return _examine(disk, path, anchor) if verdict.kind == "lost" else verdict
    except OSError as error:
        what = f"{path} cannot be read: {error}"
        return Verdict("unreadable", EMPTY, 0, 0, 0, Problem("", 0, 0, 0, what))


def _examine(filesystem: FileSystem, path: str, anchor: Position | None) -> Verdict:
    live = read_holder(filesystem, path) is not None
    return examine(Survey(filesystem, path, thorough=True), live=live, anchor=anchor)


def lock_holder(directory: Path, *, filesystem: FileSystem | None = None) -> dict[str, str] | None:
    """What the process that holds the log says of itself (pid, host, started_at…); None when it is free."""
    disk = filesystem or RealFileSystem()
    try:
        return read_holder(disk, os.path.abspath(directory))  # noqa: PTH100 - a str at the seam
    except OSError as error:
        raise EventLogError(f"LOCK in {directory} cannot be read: {error}.") from error
