"""SQLite in the fault table: WAL mode with synchronous=FULL, records in the -wal file or in the database."""

import sqlite3
from collections.abc import Sequence
from pathlib import Path
from struct import unpack_from
from typing import NamedTuple

from benchmarks._stores import Append, Extent, Sizes, Store, find_once

FILE = "log.db"
WAL_HEADER_BYTES = 32
FRAME_HEADER_BYTES = 24


class Sqlite(Store):
    """The process was killed before any checkpoint: the records lie in the -wal file."""

    name = "SQLite WAL, FULL"
    family = "sqlite"
    beside = (f"{FILE}-shm",)

    def version(self) -> str:
        """The library's version."""
        return f"SQLite {sqlite3.sqlite_version}"

    def appender(self, directory: Path) -> Append:
        """A transaction each, on one connection."""
        directory.mkdir()
        connection = _connect(directory)
        connection.execute("CREATE TABLE log (number INTEGER PRIMARY KEY, payload BLOB NOT NULL)")

        def append(number: int, payload: bytes) -> None:
            connection.execute("INSERT INTO log VALUES (?, ?)", (number, payload))

        return append

    def extents(self, directory: Path, payloads: Sequence[bytes], sizes: Sizes) -> list[Extent]:
        """The frame that each commit added to the -wal file, or the record's bytes in the database file."""
        del sizes
        return locate(directory, FILE, payloads)

    def read(self, directory: Path) -> list[tuple[int, bytes]]:
        """The rows in order; opening recovers the -wal file."""
        connection = _connect(directory)
        return connection.execute("SELECT number, payload FROM log ORDER BY number").fetchall()

    def check(self, directory: Path) -> str:
        """PRAGMA integrity_check."""
        return integrity_check(directory / FILE)


class SqliteCheckpointed(Sqlite):
    """The connection was closed, which checkpoints: the records lie in the database file; no -wal is left."""

    name = "SQLite, checkpointed"
    family = "sqlite checkpointed"

    def appender(self, directory: Path) -> Append:
        """As in WAL mode, and the connection can be closed."""
        directory.mkdir()
        self._directory = directory
        self._connection = _connect(directory)
        self._connection.execute("CREATE TABLE log (number INTEGER PRIMARY KEY, payload BLOB NOT NULL)")
        return self._append

    def settle(self, append: Append) -> Append:
        """Close; the next append opens again."""
        self._connection.close()

        def reopen_and_append(number: int, payload: bytes) -> None:
            self._connection = _connect(self._directory)
            append(number, payload)

        return reopen_and_append

    def _append(self, number: int, payload: bytes) -> None:
        self._connection.execute("INSERT INTO log VALUES (?, ?)", (number, payload))


class WalFrame(NamedTuple):
    """A frame of the -wal file that belongs to the present generation."""

    page: int
    commits: bool
    offset: int


def live_frames(wal: bytes) -> tuple[list[WalFrame], int]:
    """The frames that recovery would replay, by their salt, up to the last commit; and the size of a page."""
    if len(wal) < WAL_HEADER_BYTES:
        return [], 0
    page_bytes = unpack_from(">I", wal, 8)[0]
    frames, offset = [], WAL_HEADER_BYTES
    while (
        offset + FRAME_HEADER_BYTES + page_bytes <= len(wal) and wal[offset + 8 : offset + 16] == wal[16:24]
    ):
        page, size_after_commit = unpack_from(">II", wal, offset)
        frames.append(WalFrame(page, size_after_commit != 0, offset))
        offset += FRAME_HEADER_BYTES + page_bytes
    while frames and not frames[-1].commits:
        frames.pop()
    return frames, page_bytes


def locate(directory: Path, name: str, payloads: Sequence[bytes]) -> list[Extent]:
    """Where a SQLite database in WAL mode keeps each payload.

    That is the first live frame of the -wal file with it, if there is one (later frames with the same page
    replay after it, so recovery needs all of them), else the database file.
    """
    database = (directory / name).read_bytes()
    wal_path = directory / f"{name}-wal"
    wal = wal_path.read_bytes() if wal_path.exists() else b""
    frames, page_bytes = live_frames(wal)
    stop = frames[-1].offset + FRAME_HEADER_BYTES + page_bytes if frames else 0
    found = []
    for number, payload in enumerate(payloads, 1):
        at = wal.find(payload, 0, stop)
        if at < 0:
            start = find_once(database, payload, f"record {number}")
            end = start + len(payload)
            found.append(Extent(name, start, end, -(-end // 4096) * 4096))
            continue
        index = (at - WAL_HEADER_BYTES) // (FRAME_HEADER_BYTES + page_bytes)
        start = frames[index].offset
        commit = next(frame for frame in frames[index:] if frame.commits)
        end = start + FRAME_HEADER_BYTES + page_bytes
        found.append(Extent(wal_path.name, start, end, commit.offset + FRAME_HEADER_BYTES + page_bytes))
    return found


def integrity_check(path: Path) -> str:
    """What PRAGMA integrity_check says in one line."""
    try:
        rows = sqlite3.connect(path).execute("PRAGMA integrity_check").fetchall()
    except sqlite3.Error as error:
        return str(error)
    return "; ".join(str(row[0]) for row in rows)[:200]


def _connect(directory: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(directory / FILE, isolation_level=None)
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=FULL")
    return connection
