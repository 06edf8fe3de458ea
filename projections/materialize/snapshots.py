"""Snapshots of a run's fold on disk: so that a resume need not fold the log from its beginning.

They are a cache and nothing else: whoever removes them loses some time. One is used only if everything about
it agrees with the log and with the code that reads it; the log alone is the truth.
"""

import hashlib
import struct
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO, Final, NamedTuple

import msgspec

from eventlog.errors import EventLogError, LogRefused
from eventlog.storage import replace_file

from ..load import Log, collector_paused, recorded
from ..snapshot import PROJECTION, Parts, thaw
from ..state import RunState
from .fingerprint import fingerprint

DIRECTORY: Final = "snapshots"
LEAST_EVENTS = 50_000
"""So many new events are worth a snapshot: fewer are folded in less than a second."""
KEPT = 2
_MAGIC = b"\x89evsnap\n"
_SUFFIX = ".snapshot"
_DIGEST_BYTES = 32
_LENGTH = struct.Struct("<I")
_HEAD_AT = len(_MAGIC) + _DIGEST_BYTES + _LENGTH.size


class _Head(msgspec.Struct, array_like=True):
    """What a snapshot is of, and the names and lengths of its parts."""

    log_id: bytes
    projection: str
    fingerprint: bytes
    sequence: int
    chain: bytes
    parts: list[tuple[str, int]]


class Snapshot(NamedTuple):
    """A state, and the parts that it was made of, with whatever else was saved beside it."""

    state: RunState
    parts: Parts


class Snapshots:
    """The snapshots of one log, in a directory of their own inside the log's.

    `least_events`: how many events there have to be since the newest one for another.
    """

    def __init__(self, log_directory: Path, least_events: int = LEAST_EVENTS) -> None:
        self.directory = log_directory / DIRECTORY
        self.least_events = least_events
        self._newest = 0

    def worth_while(self, sequence: int) -> bool:
        """Whether a snapshot at this sequence would save anybody much time."""
        return sequence - self._newest >= self.least_events

    def newest(self, log: Log, to_sequence: int | None = None) -> Snapshot | None:
        """The newest that fits the log, up to a sequence; null where none does.

        Raises:
            LogRefused: the log is damaged there.
        """
        end = log.end.sequence if to_sequence is None else min(to_sequence, log.end.sequence)
        for path in self._files():
            found = _read(path, log, end)
            if found is not None:
                self._newest = found.state.sequence
                return found
        return None

    def save(self, log: Log, sequence: int, parts: Mapping[str, bytes]) -> bool:
        """Keep the parts of a state at a sequence, and only the newest few; false where no commit ends there.

        Raises:
            OSError: it could not be written; those before it are there.
        """
        code = fingerprint()
        try:
            chain = log.chain_at(sequence)
        except LogRefused:
            raise
        except EventLogError:
            return False
        if code is None:
            return False
        head = _Head(
            log.log_id, PROJECTION, code, sequence, chain, [(name, len(data)) for name, data in parts.items()]
        )
        self.directory.mkdir(mode=0o700, exist_ok=True)
        replace_file(self.directory / _name_of(sequence), _chunks(head, parts))
        self._newest = sequence
        self._tidy(log, sequence)
        return True

    def _tidy(self, log: Log, sequence: int) -> None:
        """Leave the snapshot of `sequence`, which was saved just now, and the newest others that fit the log.

        Names prove nothing: a snapshot of another log or of older code may have any, and would take the place
        of one that is of use.
        """
        kept = 1
        for path in self._files():
            if path.name == _name_of(sequence):
                continue
            if kept < KEPT and _is_of_use(path, log, sequence):
                kept += 1
                continue
            with suppress(OSError):
                path.unlink()

    def _files(self) -> list[Path]:
        """The newest first."""
        with suppress(OSError):
            found = sorted(self.directory.glob(f"*{_SUFFIX}"), reverse=True)
            # Whatever else has such a name, a pipe for example, is not to be waited for.
            return [path for path in found if path.is_file()]
        return []


def _name_of(sequence: int) -> str:
    return f"{sequence:020}{_SUFFIX}"


def fold_from_snapshot(log: Log, snapshots: Snapshots, to_sequence: int | None = None) -> RunState:
    """As `fold_log`, from the newest snapshot that fits.

    For those who look at a run while something else proves the log: what is before the snapshot is not read.
    """
    found = snapshots.newest(log, to_sequence)
    state = RunState() if found is None else found.state
    with collector_paused():
        for record in recorded(log, state.sequence + 1, to_sequence):
            state.apply(record)
    return state


def _chunks(head: _Head, parts: Mapping[str, bytes]) -> Iterator[bytes]:
    text = msgspec.msgpack.encode(head)
    begin = _LENGTH.pack(len(text)) + text
    digest = hashlib.sha256(begin)
    for data in parts.values():
        digest.update(data)
    yield _MAGIC + digest.digest() + begin
    yield from parts.values()


def _read(path: Path, log: Log, end: int) -> Snapshot | None:
    """A snapshot, if it is whole, of this log and code, and not ahead of `end`."""
    try:
        with path.open("rb") as file:
            found = _head_of(file)
            if found is None or not _fits(found[2], log, end):
                return None
            begin, text, head = found
            body = file.read()
    except (OSError, msgspec.DecodeError):
        return None
    if not _is_whole(begin, text, body):
        return None
    parts = dict(_cut(head.parts, memoryview(body)))
    try:
        with collector_paused():
            state = thaw(parts)
    except (KeyError, ValueError, msgspec.MsgspecError):
        return None
    return Snapshot(state, parts) if state.sequence == head.sequence else None


def _head_of(file: BinaryIO) -> tuple[bytes, bytes, _Head] | None:
    """How a snapshot begins, the text of its head, and the head; null: it is none."""
    begin = file.read(_HEAD_AT)
    if len(begin) < _HEAD_AT or not begin.startswith(_MAGIC):
        return None
    text = file.read(_LENGTH.unpack_from(begin, _HEAD_AT - _LENGTH.size)[0])
    return begin, text, msgspec.msgpack.decode(text, type=_Head)


def _is_of_use(path: Path, log: Log, end: int) -> bool:
    """Whether a snapshot's head fits the log; its body is not read."""
    try:
        with path.open("rb") as file:
            found = _head_of(file)
    except (OSError, msgspec.DecodeError):
        return False
    return found is not None and _fits(found[2], log, end)


def _is_whole(begin: bytes, text: bytes, body: bytes) -> bool:
    digest = hashlib.sha256(begin[_HEAD_AT - _LENGTH.size :] + text)
    digest.update(body)
    return digest.digest() == begin[len(_MAGIC) : len(_MAGIC) + _DIGEST_BYTES]


def _fits(head: _Head, log: Log, end: int) -> bool:
    if (head.log_id, head.projection, head.fingerprint) != (log.log_id, PROJECTION, fingerprint()):
        return False
    if not 0 < head.sequence <= end:
        return False
    try:
        return log.chain_at(head.sequence) == head.chain
    except LogRefused:
        raise
    except EventLogError:
        return False


def _cut(parts: list[tuple[str, int]], body: memoryview) -> Iterator[tuple[str, Any]]:
    start = 0
    for name, length in parts:
        yield name, body[start : start + length]
        start += length
