"""Bringing a run back from its archive, so that it can go on."""

import shutil
from pathlib import Path

import msgspec

from eventlog.storage import RealFileSystem, log_exists, verify

from ..errors import RunFailed, UsageFault
from .fetching import fetch
from .manifest import Manifest, damage
from .stores import Store, StoreFault, need_manifest, open_store, reason_of

_UNFINISHED = "log.restoring"


class Restored(msgspec.Struct):
    """What was brought back."""

    place: str
    directory: str
    manifest: Manifest


def restore(place: str, directory: Path) -> Restored:
    """Make a run directory of the archive at `place`; its log gets its name when all of it is there.

    Raises:
        UsageFault: there is no archive, or something is in the way.
        LogLost, LogUnsupported: the archive is damaged, or a newer evrun wrote it; there is no run then.
        RunFailed: the store, or the disk here, failed; do it again.
    """
    store = open_store(place)
    target = directory.resolve()  # a/../b is b also where there is no a
    if log_exists(target / "log"):
        raise UsageFault(f"{directory} holds a run already", "give another directory, or move it away")
    if target.is_dir() and {entry.name for entry in target.iterdir()} - {_UNFINISHED}:
        raise UsageFault(f"{directory} is not empty", "give another directory")
    manifest = need_manifest(store)
    try:
        _bring_back(store, manifest, target)
    except (StoreFault, OSError) as error:
        raise _stopped(error, store.place, directory) from error
    return Restored(store.place, str(directory), manifest)


def _bring_back(store: Store, manifest: Manifest, directory: Path) -> None:
    unfinished = directory / _UNFINISHED
    if unfinished.is_dir():
        shutil.rmtree(unfinished)  # of a restoring that was killed
    unfinished.mkdir(parents=True, mode=0o700)
    faults = fetch(store, manifest, unfinished, link=False, check=True)
    if faults:
        raise damage(store.place, faults[0].entry.object, faults[0].what, manifest.sequence)
    verdict = verify(unfinished)
    if not verdict.opens or verdict.position != manifest.position:
        what = (
            verdict.problem.what if verdict.problem is not None else f"it ends at {verdict.position.sequence}"
        )
        raise damage(store.place, "the log in it", f"is not whole: {what}", manifest.sequence)
    disk = RealFileSystem()
    disk.sync_directory(str(unfinished))
    disk.rename(str(unfinished), str(directory / "log"))
    disk.sync_directory(str(directory))
    disk.sync_directory(str(directory.parent))


def _stopped(error: StoreFault | OSError, place: str, directory: Path) -> RunFailed:
    why, mend = (
        (str(error), error.hint)
        if isinstance(error, StoreFault)
        else (reason_of(error), "make room, if the disk is full")
    )
    unfinished = directory / _UNFINISHED
    left = f"; there is no run yet, and {unfinished} is left" if unfinished.resolve().is_dir() else ""
    again = f"`evrun archive --restore {place} {directory}` again begins anew"
    return RunFailed(f"{why}{left}", f"{mend}; {again}" if mend else again)
