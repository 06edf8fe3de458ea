"""SQLite as a log: WAL, synchronous=FULL, checkpoints as they come."""

import asyncio
import queue
import sqlite3
import threading
from collections.abc import Sequence
from pathlib import Path

INSERT = "INSERT INTO log (payload) VALUES (?)"


def connect(path: Path) -> sqlite3.Connection:
    """A database with one table; transactions only where they are asked for."""
    connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=FULL")
    connection.execute("CREATE TABLE log (number INTEGER PRIMARY KEY, payload BLOB NOT NULL)")
    return connection


def insert_group(connection: sqlite3.Connection, payloads: Sequence[bytes]) -> None:
    """One transaction."""
    connection.execute("BEGIN")
    connection.executemany(INSERT, [(payload,) for payload in payloads])
    connection.execute("COMMIT")


class GroupCommit:
    """SQLite behind the same promise as the log: a future for each event, a transaction for all that wait."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._handed: queue.SimpleQueue[list[tuple[bytes, asyncio.Future[None]]] | None] = queue.SimpleQueue()
        self._waiting: list[tuple[bytes, asyncio.Future[None]]] = []
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._thread.start()

    def append(self, payload: bytes) -> "asyncio.Future[None]":
        """Queue one event; the future is done once it is durable."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[None] = loop.create_future()
        self._waiting.append((payload, future))
        if len(self._waiting) == 1:
            loop.call_soon(loop.call_soon, self._hand_over)
        return future

    def _hand_over(self) -> None:
        self._handed.put(self._waiting)
        self._waiting = []

    def _work(self) -> None:
        while (group := self._handed.get()) is not None:
            insert_group(self._connection, [payload for payload, _ in group])
            group[0][1].get_loop().call_soon_threadsafe(_tell, group)

    def close(self) -> None:
        """End the thread."""
        self._handed.put(None)
        self._thread.join()


def _tell(group: list[tuple[bytes, "asyncio.Future[None]"]]) -> None:
    for _, future in group:
        if not future.done():
            future.set_result(None)
