"""Reading a run from its archive: a private directory for as long as somebody reads."""

import os
import tempfile
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from eventlog.errors import LogRefused, LogUnsupported, Problem
from eventlog.storage import Position, Verdict, verify

from ..errors import UsageFault
from .fetching import Fault, fetch
from .manifest import Manifest, damage
from .stores import Store, need_manifest, open_store

_READINGS: Final = 3  # how often an archive may be renewed while it is read


class Borrowed:
    """A run's directory with the log of an archive in it; gone when this is closed."""

    def __init__(self, place: str, *, check: bool = False) -> None:
        store = open_store(place)
        self.place = store.place
        self._folder = tempfile.TemporaryDirectory(prefix="evrun-archive-")
        try:
            self.manifest, self.directory, self.faults = _fill(store, Path(self._folder.name), check=check)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Remove it."""
        self._folder.cleanup()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def borrow(place: str) -> Borrowed:
    """The run in the archive at `place`, for reading.

    Objects of a bucket are copied, one after the other, each with its digest looked at. Of an archive in a
    directory only what is cut off or short is copied, the rest is read where it is.

    Raises:
        UsageFault: there is no archive.
        LogLost, LogUnsupported: it is damaged, or a newer evrun wrote it.
        RunFailed, OSError: the store, or the disk here, failed.
    """
    borrowed = Borrowed(place)
    if borrowed.faults:
        fault = borrowed.faults[0]
        borrowed.close()
        raise damage(borrowed.place, fault.entry.object, fault.what, borrowed.manifest.sequence)
    return borrowed


def verify_archive(place: str, *, anchor: Position | None = None) -> Verdict:
    """Read all of an archive, its objects' digests and the log in them, and say what it is.

    Raises:
        UsageFault: there is no archive.
        RunFailed, OSError: the store, or the disk here, failed.
    """
    try:
        with Borrowed(place, check=True) as borrowed:
            verdict = verify(borrowed.directory / "log", anchor=anchor)
            return verdict if not borrowed.faults else _damaged(verdict, borrowed)
    except LogRefused as error:
        return Verdict(
            "unsupported" if isinstance(error, LogUnsupported) else "lost",
            Position(0, bytes(32)),
            0,
            0,
            0,
            error.problem,
        )


def _damaged(verdict: Verdict, borrowed: Borrowed) -> Verdict:
    """The verdict on a log whose objects are not what was stored, whether that hit an event or not."""
    shown = [f"{fault.entry.object} {fault.what}" for fault in borrowed.faults]
    what = "; ".join([*shown, *([verdict.problem.what] if verdict.problem is not None else [])])
    first = borrowed.faults[0].entry.object
    offset = verdict.problem.offset_bytes if verdict.problem is not None else 0
    good = verdict.position.sequence
    problem = Problem(first, offset, good, borrowed.manifest.sequence, what)
    return replace(verdict, kind="lost", problem=problem)


def _fill(store: Store, folder: Path, *, check: bool) -> tuple[Manifest, Path, list[Fault]]:
    """Fetch the archive; once more if it was renewed meanwhile and what was there is gone."""
    for reading in range(_READINGS):
        manifest = need_manifest(store)
        directory = folder / str(reading) / manifest.run
        log = directory / "log"
        log.mkdir(parents=True, mode=0o700)
        try:
            faults = fetch(store, manifest, log, link=True, check=check)
        except OSError as error:
            raise _no_room(error, folder, manifest) from error
        if not faults or need_manifest(store) == manifest:
            break
    return manifest, directory, faults


def _no_room(error: OSError, folder: Path, manifest: Manifest) -> UsageFault | OSError:
    free = os.statvfs(folder)
    if free.f_bavail * free.f_frsize >= manifest.stored_bytes:
        return error
    return UsageFault(
        f"the archive has {manifest.stored_bytes:,} bytes, and there is no room for them in {folder.parent}",
        "TMPDIR names another place",
    )
