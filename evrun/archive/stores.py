"""Where an archive can be: a directory, or a bucket that speaks S3. What either of them can do."""

import contextlib
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final, Protocol

from eventlog.storage import RealFileSystem, replace_file

from ..errors import RunFailed, UsageFault
from .manifest import FILES, MANIFEST, Manifest, parse_manifest

PIECE_BYTES: Final = 1 << 20
S3: Final = "s3://"


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
        raise UsageFault(f"{place}: an archive is in a directory or in s3://BUCKET/PREFIX")
    return Directory(place)


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
        raise UsageFault(
            f"no archive in {store.place}: there is no {MANIFEST}", "`evrun archive RUN DEST` makes one"
        )
    return manifest


class Directory:
    """A store in a directory: an object is a file of that name."""

    def __init__(self, place: str) -> None:
        self.place = place
        self._root = Path(place)
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
            while piece := self._disk.pread(fd, PIECE_BYTES, offset):
                yield piece
                offset += len(piece)
        finally:
            self._disk.close(fd)

    def write(self, name: str, pieces: Iterable[bytes], size_bytes: int) -> None:
        """See Store."""
        del size_bytes
        path = self._root / name
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
        return self._root.resolve() / name
