"""Bringing a run back from its archive, so that it can go on."""

import shutil
from pathlib import Path

import msgspec

from eventlog.storage import RealFileSystem, log_exists, verify

from ..errors import UsageFault
from .fetching import fetch
from .manifest import Manifest, damage
from .stores import need_manifest, open_store

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
        RunFailed, OSError: the store, or the disk here, failed; do it again.
    """
    store = open_store(place)
    if log_exists(directory / "log"):
        raise UsageFault(f"{directory} holds a run already", "give another directory, or move it away")
    if directory.is_dir() and {entry.name for entry in directory.iterdir()} - {_UNFINISHED}:
        raise UsageFault(f"{directory} is not empty", "give another directory")
    manifest = need_manifest(store)
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
    disk.sync_directory(str(directory.resolve().parent))
    return Restored(store.place, str(directory), manifest)
