"""The `eventsourcing` library in the fault table: an application that saves an aggregate, on SQLite."""

import sqlite3
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from uuid import NAMESPACE_URL, UUID, uuid5

from eventsourcing.application import Application
from eventsourcing.domain import Aggregate, event

from benchmarks._stores import Append, Extent, Sizes, Store
from benchmarks._stores_sqlite import integrity_check, locate

FILE = "events.db"
LOG_ID = uuid5(NAMESPACE_URL, "/log")


class Log(Aggregate):
    """An aggregate with one event for each record."""

    @event("Started")
    def __init__(self) -> None:
        self.records: list[tuple[int, str]] = []

    @staticmethod
    def create_id() -> UUID:
        """There is one log."""
        return LOG_ID

    @event("Appended")
    def append(self, number: int, text: str) -> None:
        """One record."""
        self.records.append((number, text))


class Eventsourcing(Store):
    """The process was killed; the newest events lie in the -wal file, older ones in the database."""

    name = "eventsourcing, SQLite"
    family = "eventsourcing"
    beside = (f"{FILE}-shm",)

    def version(self) -> str:
        """Of the library and of SQLite below it, where synchronous=FULL must be the compiled default."""
        default = sqlite3.connect(":memory:").execute("PRAGMA synchronous").fetchone()[0]
        if default != 2:
            raise RuntimeError(
                "this SQLite does not default to synchronous=FULL, which the library relies on"
            )
        return f"eventsourcing {version('eventsourcing')}"

    def appender(self, directory: Path) -> Append:
        """One event, one save each."""
        directory.mkdir()
        application = _open(directory)
        log = Log()
        application.save(log)

        def append(number: int, payload: bytes) -> None:
            log.append(number, payload.decode())
            application.save(log)

        return append

    def extents(self, directory: Path, payloads: Sequence[bytes], sizes: Sizes) -> list[Extent]:
        """As in SQLite; the payload stands in the event as a JSON string."""
        del sizes
        return locate(directory, FILE, [payload.replace(b'"', rb"\"") for payload in payloads])

    def read(self, directory: Path) -> list[tuple[int, bytes]]:
        """The aggregate as rebuilt from its events, and the same from the log of notifications."""
        application = _open(directory)
        rebuilt = application.repository.get(LOG_ID).records
        noted = []
        start: int | None = 1
        while start is not None:
            section = application.notification_log.select(start=start, limit=10)
            noted += map(application.mapper.to_domain_event, section)
            start = section[-1].id + 1 if section else None
        if len(noted) != len(rebuilt) + 1:
            raise RuntimeError("the aggregate and the notifications differ")
        return [(number, text.encode()) for number, text in rebuilt]

    def check(self, directory: Path) -> str:
        """The library has no check of its own; SQLite's."""
        return integrity_check(directory / FILE)


def _open(directory: Path) -> Application:
    return Application({"PERSISTENCE_MODULE": "eventsourcing.sqlite", "SQLITE_DBNAME": str(directory / FILE)})
