"""Making a log's directory again of what an archive holds."""

import hashlib
import os
from pathlib import Path
from typing import NamedTuple

from eventlog.storage import RealFileSystem

from .manifest import Entry, Manifest
from .stores import ObjectMissing, Store, naming


class Fault(NamedTuple):
    """A file of the archive that is not what the manifest says."""

    entry: Entry
    what: str


def fetch(store: Store, manifest: Manifest, target: Path, *, link: bool, check: bool) -> list[Fault]:
    """Bring the files of the log into `target`, and say what is wrong with them; HEAD comes first.

    With `link` whole files of this machine are not copied but linked to; then their digests are looked at
    only to `check` them, for whoever reads a log looks at every byte of it anyway.
    """
    head_first = sorted(manifest.files, key=lambda entry: entry.name != "HEAD")
    found = [(entry, _fetch(store, entry, target, link=link, check=check)) for entry in head_first]
    return [Fault(entry, what) for entry, what in found if what is not None]


def _fetch(store: Store, entry: Entry, target: Path, *, link: bool, check: bool) -> str | None:
    local = store.path(entry.object) if link and entry.bytes == entry.file_bytes else None
    try:
        if local is None:
            return _fault_of(entry, *_copy(store, entry, target / entry.name))
        return _link(store, entry, local, target / entry.name, check=check)
    except (ObjectMissing, FileNotFoundError):
        return "is missing"


def _link(store: Store, entry: Entry, local: Path, target: Path, *, check: bool) -> str | None:
    size = local.stat().st_size
    target.symlink_to(local)
    if not check:
        return None if size == entry.bytes else f"has {size} bytes, and {entry.bytes} were stored"
    digest = hashlib.sha256()
    for piece in store.read(entry.object):
        digest.update(piece)
    return _fault_of(entry, digest.hexdigest(), size)


def _copy(store: Store, entry: Entry, target: Path) -> tuple[str, int]:
    """Copy an object into a file, durable, with its zeros; return digest and size of what came."""
    disk = RealFileSystem()
    digest, size = hashlib.sha256(), 0
    fd = disk.open(str(target), os.O_WRONLY | os.O_CREAT | os.O_EXCL)
    try:
        for piece in store.read(entry.object):
            digest.update(piece)
            with naming(target):
                size = _write(disk, fd, piece, size)
        with naming(target):
            disk.truncate(fd, max(size, entry.file_bytes))
            disk.fsync(fd)
    finally:
        disk.close(fd)
    return digest.hexdigest(), size


def _write(disk: RealFileSystem, fd: int, piece: bytes, offset: int) -> int:
    rest = memoryview(piece)
    while rest:
        taken = disk.pwrite(fd, rest, offset)
        rest, offset = rest[taken:], offset + taken
    return offset


def _fault_of(entry: Entry, sha256: str, size: int) -> str | None:
    if size != entry.bytes:
        return f"has {size} bytes, and {entry.bytes} were stored"
    return None if sha256 == entry.sha256 else "holds other bytes than were stored"
