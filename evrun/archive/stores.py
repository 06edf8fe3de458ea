"""Where an archive can be: a directory, or a bucket that speaks S3. What either of them can do."""

import contextlib
import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final, Protocol

from eventlog.storage import RealFileSystem, replace_file

from ..errors import RunFailed, UsageFault
from .manifest import FILES, MANIFEST, Manifest, parse_manifest

PIECE_BYTES: Final = 1 << 20
S3: Final = "s3://"

_OBJECT = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*\.[0-9a-f]{64}(\.\d+\.partial)?")
_OF_A_DISK = {"lost+found"}  # what an empty one has


class StoreFault(RunFailed):
    """The store did not do what it was asked for, after its library has tried again."""


class ObjectMissing(Exception):
    """There is no object of that name."""


class Store(Protocol):
    """Objects by name. One is there whole or not at all; all else is a StoreFault or an OSError."""

    place: str

    def sizes(self) -> dict[str, int]:
        """The objects under `files/`, each with its size."""

    def read(self, name: str) -> Iterator[bytes]:
        """An object's bytes, in pieces, as they are stored and not as somebody remembers them.

        Raises:
            ObjectMissing: it is not there.
        """

    def write(self, name: str, pieces: Iterable[bytes], size_bytes: int) -> None:
        """Store an object of so many bytes; on return it is kept."""

    def remove(self, names: list[str]) -> None:
        """Remove objects; those that are gone already are none of its business."""

    def path(self, name: str) -> Path | None:
        """The object as a file of this machine; null where it is none."""


def is_archive(text: str) -> bool:
    """Whether somebody who typed this means an archive: a bucket, or a directory that holds one."""
    return text.startswith(S3) or (Path(text) / MANIFEST).is_file()


def open_store(place: str) -> Store:
    """The store that `place` names; nothing is asked of it yet.

    Raises:
        UsageFault: it is neither a directory nor a bucket, or the library for buckets is not installed.
    """
    if place.startswith(S3):
        from .bucket import Bucket  # noqa: PLC0415 - its library is an extra

        return Bucket(place)
    if "://" in place:
        raise UsageFault(f"{shown(place)}: an archive is in a directory or in s3://BUCKET/PREFIX")
    return Directory(place)


def shown(place: str) -> str:
    """The place as it may be repeated: without what somebody has written before an @ of its host."""
    scheme, mark, rest = place.partition("://")
    return f"{scheme}{mark}…{rest[rest.rindex('@') :]}" if mark and "@" in rest else place


def reason_of(error: OSError) -> str:
    """What the disk has refused, and where."""
    return ": ".join(filter(None, (error.filename, error.strerror or str(error))))


def is_begun(place: str) -> bool:
    """Whether a directory holds what an archiving leaves that was killed before its first manifest."""
    root = Path(place)
    try:
        stored = [path.name for path in (root / FILES).iterdir()]
        others = {path.name for path in root.iterdir()} - {FILES.rstrip("/")} - _OF_A_DISK
    except OSError:
        return False
    return any(map(_OBJECT.fullmatch, stored)) if stored else not others


def refuse_foreign(place: str) -> None:
    """Refuse a directory in which something else is kept.

    Raises:
        UsageFault: it is not empty, and holds neither an archive nor the beginnings of one.
    """
    root = Path(place).resolve()
    if not root.is_dir() or is_archive(str(root)) or is_begun(str(root)):
        return
    there = sorted({path.name for path in root.iterdir()} - _OF_A_DISK)
    if there:
        raise UsageFault(
            f"{place} is not empty and holds no archive: there is {there[0]}",
            "give the archive a directory of its own",
        )


@contextlib.contextmanager
def naming(path: Path) -> Iterator[None]:
    """Let an error of the disk that names no file name this one."""
    try:
        yield
    except OSError as error:
        if error.filename is None:
            error.filename = str(path)
        raise


def read_manifest(store: Store) -> Manifest | None:
    """What the store holds; null where there is no archive.

    Raises:
        LogLost, LogUnsupported: it cannot be believed, or not be read by this evrun.
    """
    try:
        data = b"".join(store.read(MANIFEST))
    except ObjectMissing:
        return None
    return parse_manifest(data, store.place)


def need_manifest(store: Store) -> Manifest:
    """The same, where there has to be one.

    Raises:
        UsageFault: there is none.
    """
    manifest = read_manifest(store)
    if manifest is None:
        raise no_archive(store.place, begun=_has_objects(store))
    return manifest


def no_archive(place: str, *, begun: bool) -> UsageFault:
    """What to say where there is no manifest, whether or not an archiving has begun there."""
    missing = f"no archive in {place}: there is no {MANIFEST}"
    if begun:
        return UsageFault(
            f"{missing} yet: an archiving was begun there and has not ended",
            f"the same `evrun archive RUN {place}` goes on where it stopped",
        )
    return UsageFault(missing, "`evrun archive RUN DEST` makes one")


def _has_objects(store: Store) -> bool:
    try:
        return bool(store.sizes())
    except (StoreFault, OSError):
        return False  # whoever may read need not be allowed to list


class Directory:
    """A store in a directory: an object is a file of that name."""

    def __init__(self, place: str) -> None:
        self.place = place
        self._root = Path(place).resolve()
        self._disk = RealFileSystem()

    def sizes(self) -> dict[str, int]:
        """See Store."""
        folder = self._root / FILES
        if not folder.is_dir():
            return {}
        return {f"{FILES}{entry.name}": entry.stat().st_size for entry in folder.iterdir() if entry.is_file()}

    def read(self, name: str) -> Iterator[bytes]:
        """See Store. What is read comes from the disk, not from memory, as far as the system lets us ask."""
        try:
            fd = self._disk.open(str(self._root / name), os.O_RDONLY)
        except (FileNotFoundError, NotADirectoryError) as error:
            raise ObjectMissing(name) from error
        try:
            self._disk.drop_cache(fd)
            offset = 0
            while piece := self._read(fd, name, offset):
                yield piece
                offset += len(piece)
        finally:
            self._disk.close(fd)

    def _read(self, fd: int, name: str, offset: int) -> bytes:
        with naming(self._root / name):
            return self._disk.pread(fd, PIECE_BYTES, offset)

    def write(self, name: str, pieces: Iterable[bytes], size_bytes: int) -> None:
        """See Store."""
        del size_bytes
        path = self._root / name
        with naming(path):
            self._make(path.parent)
            replace_file(path, pieces, durable=True)

    def _make(self, directory: Path) -> None:
        """Make a directory and its missing parents, and their names durable."""
        if directory.is_dir():
            return
        self._make(directory.parent)
        with contextlib.suppress(FileExistsError):
            self._disk.make_directory(str(directory))
        self._disk.sync_directory(str(directory.parent))

    def remove(self, names: list[str]) -> None:
        """See Store."""
        for name in names:
            with contextlib.suppress(FileNotFoundError):
                self._disk.unlink(str(self._root / name))

    def path(self, name: str) -> Path | None:
        """See Store."""
        return self._root / name
