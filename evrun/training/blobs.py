"""Contents of files and the log: into it by digest, out of it into a directory."""

import hashlib
import os
import stat
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from eventlog.events import BlobStored, Event, FileEntry, HistoryStored, decode_event
from eventlog.storage import LogReader
from projections import TrainingState

from ..errors import RunFailed

LARGEST_FILE = 64 * 1024 * 1024
"""A larger file is refused: a commit of the log holds 256 MiB at most."""
LARGEST_COMMIT = 192 * 1024 * 1024
LARGEST_AT_HAND = 16 * 1024 * 1024


class Content(NamedTuple):
    """A file's bytes, and whether it may be run."""

    data: bytes
    executable: bool = False


Files = Mapping[str, Content]
"""A tree of files: paths with slashes, relative to its root."""


class Refused(Exception):
    """A directory holds what cannot be kept: `path` and what is wrong with it."""

    def __init__(self, path: str, problem: str) -> None:
        super().__init__(f"{path}: {problem}")
        self.path = path
        self.problem = problem


def entries_of(files: Files) -> list[FileEntry]:
    """The files by digest, sorted by path."""
    return [
        FileEntry(path, hashlib.sha256(one.data).digest(), len(one.data), one.executable)
        for path, one in sorted(files.items())
    ]


def read_files(directory: Path) -> dict[str, Content]:
    """Every file below a directory; an empty mapping where it is not there.

    Raises:
        Refused: a link, something that is no file, a name that is no text, or a file that is too large.
    """
    found: dict[str, Content] = {}
    for place, folders, names in os.walk(directory):
        for name in [*folders, *names]:
            path = Path(place, name)
            if path.is_symlink():
                raise Refused(path.relative_to(directory).as_posix(), "is a link")
        for name in names:
            path = Path(place, name)
            relative = path.relative_to(directory).as_posix()
            found[_checked(relative)] = _content(path, relative)
    return dict(sorted(found.items()))


def write_files(directory: Path, files: Files) -> None:
    """Put files below a directory that is there or is made; others that are there stay."""
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    for path, content in files.items():
        target = directory / path
        target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        target.write_bytes(content.data)
        target.chmod(0o700 if content.executable else 0o600)


class Blobs:
    """The contents that a run's log holds. Those that were used last are kept at hand, up to a bound.

    A step reads the adapter, the template and the learner's state again and again, mostly unchanged.
    """

    def __init__(self, state: TrainingState, reader: LogReader) -> None:
        self._state = state
        self._reader = reader
        self._at_hand: OrderedDict[bytes, bytes] = OrderedDict()
        self._bytes = 0

    def missing(self, *trees: Files) -> list[BlobStored]:
        """What is to be recorded, so that all these files' contents are in the log; each content once."""
        events: dict[bytes, BlobStored] = {}
        for files in trees:
            for content in files.values():
                digest = hashlib.sha256(content.data).digest()
                if digest not in self._state.blobs:
                    events[digest] = BlobStored(digest, content.data)
        for event in events.values():
            self._keep(event.digest, event.data)
        return list(events.values())

    def read(self, digest: bytes) -> bytes:
        """A content that is durable.

        Raises:
            RunFailed: the log does not hold it.
        """
        sequence = self._state.blobs.get(digest)
        if sequence is None:
            raise RunFailed(f"the log holds no content with the digest {digest.hex()}")
        known = self._at_hand.get(digest)
        if known is not None:
            self._at_hand.move_to_end(digest)
            return known
        event = self.event(sequence)
        assert isinstance(event, BlobStored)
        self._keep(digest, event.data)
        return event.data

    def _keep(self, digest: bytes, data: bytes) -> None:
        if digest not in self._at_hand and len(data) <= LARGEST_AT_HAND // 4:
            self._at_hand[digest] = data
            self._bytes += len(data)
        while self._bytes > LARGEST_AT_HAND:
            self._bytes -= len(self._at_hand.popitem(last=False)[1])

    def event(self, sequence: int) -> Event:
        """A durable event."""
        if self._reader.end.sequence < sequence:
            self._reader.refresh()
        return decode_event(self._reader.read_one(sequence).payload)

    def files(self, entries: Iterable[FileEntry]) -> dict[str, Content]:
        """The files that these entries tell of."""
        return {entry.path: Content(self.read(entry.digest), entry.executable) for entry in entries}


def fitting(events: Sequence[Event]) -> list[list[Event]]:
    """Events, the contents among them, in parts that fit into a commit of the log each; one part mostly."""
    parts: list[list[Event]] = [[]]
    size = 0
    for event in events:
        more = _size(event)
        if parts[-1] and size + more > LARGEST_COMMIT:
            parts.append([])
            size = 0
        parts[-1].append(event)
        size += more
    return parts


def _size(event: Event) -> int:
    if isinstance(event, BlobStored):
        return len(event.data)
    return sum(len(data) for _, data in event.objects) if isinstance(event, HistoryStored) else 0


def _checked(path: str) -> str:
    try:
        path.encode()
    except UnicodeEncodeError:
        raise Refused(path.encode("utf-8", "replace").decode(), "its name is no text") from None
    return path


def _content(path: Path, relative: str) -> Content:
    found = path.stat()
    if not stat.S_ISREG(found.st_mode):
        raise Refused(relative, "is no file")
    if found.st_size > LARGEST_FILE:
        raise Refused(relative, f"has {found.st_size} bytes; at most {LARGEST_FILE} are kept")
    return Content(path.read_bytes(), bool(found.st_mode & stat.S_IXUSR))
