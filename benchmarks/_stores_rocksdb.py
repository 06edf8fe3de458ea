"""RocksDB in the fault table, by rocksdict: the same files, reopened in each of its WAL recovery modes."""

import re
import tempfile
from collections.abc import Sequence
from importlib.metadata import version
from itertools import pairwise
from pathlib import Path

from rocksdict import DBRecoveryMode, Options, Rdict, WriteOptions

from benchmarks._stores import Append, Extent, Sizes, Store


class RocksDb(Store):
    """The process was killed before any flush: the records lie in the write-ahead log. The default mode."""

    name = "RocksDB, point in time"
    family = "rocksdb"
    mode = staticmethod(DBRecoveryMode.point_in_time)
    mode_in_options_file = "kPointInTimeRecovery"

    def version(self) -> str:
        """Of the binding and of the library in it, which stands in the OPTIONS file of any database."""
        with tempfile.TemporaryDirectory() as directory:
            self._open(Path(directory)).close()
            options = max(Path(directory).glob("OPTIONS-*")).read_text()
        if f"wal_recovery_mode={self.mode_in_options_file}" not in options:
            raise RuntimeError(f"{self.name}: the recovery mode is not in force")
        library = re.search(r"rocksdb_version=(\S+)", options)
        return f"RocksDB {library[1] if library else '?'} (rocksdict {version('rocksdict')})"

    def appender(self, directory: Path) -> Append:
        """A put each, with WriteOptions.sync."""
        database = self._open(directory)
        synced = WriteOptions()
        synced.sync = True

        def append(number: int, payload: bytes) -> None:
            database.put(number.to_bytes(8, "big"), payload, synced)

        return append

    def extents(self, directory: Path, payloads: Sequence[bytes], sizes: Sizes) -> list[Extent]:
        """What each put added to the write-ahead log."""
        del payloads
        [log] = directory.glob("*.log")
        ends = [size[log.name] for size in sizes]
        return [Extent(log.name, start, end, end) for start, end in pairwise(ends)]

    def read(self, directory: Path) -> list[tuple[int, bytes]]:
        """All keys in order. RocksDB checks checksums on reading by default."""
        database = self._open(directory)
        found = []
        entries = database.iter()
        entries.seek_to_first()
        while entries.valid():
            found.append((int.from_bytes(entries.key(), "big"), entries.value()))
            entries.next()
        entries.status()  # raises if the iteration ended for an error
        return found

    def _open(self, directory: Path) -> Rdict:
        options = Options(raw_mode=True)
        options.set_wal_recovery_mode(self.mode())
        return Rdict(str(directory), options)


class RocksDbAbsolute(RocksDb):
    """Refuses any damage of the log."""

    name = "RocksDB, absolute"
    mode = staticmethod(DBRecoveryMode.absolute_consistency)
    mode_in_options_file = "kAbsoluteConsistency"


class RocksDbTail(RocksDb):
    """Accepts what an incomplete write leaves at the end of the log."""

    name = "RocksDB, tolerate tail"
    mode = staticmethod(DBRecoveryMode.tolerate_corrupted_tail_records)
    mode_in_options_file = "kTolerateCorruptedTailRecords"


class RocksDbSkip(RocksDb):
    """Goes on after whatever it cannot read; meant for salvage."""

    name = "RocksDB, skip corrupted"
    mode = staticmethod(DBRecoveryMode.skip_any_corrupted_record)
    mode_in_options_file = "kSkipAnyCorruptedRecords"
