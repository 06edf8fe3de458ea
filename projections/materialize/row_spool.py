"""The rows of a run on their way into another file: kept on disk meanwhile, in the order of the views."""

import os
import tempfile
from array import array
from collections.abc import Collection, Iterator
from pathlib import Path
from types import TracebackType
from typing import Self

from ..export_rows import RowLine, outcome_of
from ..load import Log
from ..row_stream import Row, RowStream
from ..state import RunState
from ..view_names import row_file_order
from .contents import Contents, stale_of
from .documents import chain_for
from .passes import pour
from .row_files import Altered, RowBuffer, verified_lines
from .snapshots import Snapshots


class RowSpool(RowBuffer):
    """Rows of some outcomes, in one private file without a name, which is gone when this is closed.

    They come in the order of the log and are given back in that of the views: those of the batches in
    numeric order, as in trajectories.jsonl, then the discarded, then the failed. Memory holds sixteen bytes
    a row. `state`, which stands at `sequence` with the chain value `chain`, is what they were made from.
    """

    def __init__(self, outcomes: Collection[str], place: Path) -> None:
        super().__init__()
        self.state, self.sequence, self.chain = RunState(), 0, b""
        self.outcomes = outcomes
        self._file = tempfile.TemporaryFile(dir=place, buffering=0)  # noqa: SIM115 (closed by `close`)
        self._size = 0
        self._places: dict[str, array[int]] = {}

    def put(self, row: Row) -> None:
        """Take one row, if it is wanted."""
        if outcome_of(row.file) in self.outcomes:
            super().put(row)

    def take(self, name: str, lines: list[bytes]) -> None:
        """Append to the file, and note where."""
        places = self._places.setdefault(name, array("q"))
        for line in lines:
            places.extend((self._size, len(line)))
            self._size += len(line)
        left = memoryview(b"".join(lines))
        while left:
            left = left[self._file.write(left) :]

    def forget(self) -> None:
        """No rows any more."""
        self._file.seek(0)
        self._file.truncate()
        self._size = 0
        self._places.clear()

    def counts(self) -> dict[str, int]:
        """How many rows of each outcome there are; of those that are wanted, also none."""
        found = dict.fromkeys(self.outcomes, 0)
        for name, places in self._places.items():
            found[_outcome(name)] += len(places) // 2
        return found

    def __iter__(self) -> Iterator[RowLine]:
        """The rows; may be asked for several times."""
        for name in sorted(self._places, key=row_file_order):
            places, outcome = iter(self._places[name]), _outcome(name)
            for offset, length in zip(places, places, strict=True):
                yield RowLine(outcome, self._read(offset, length))

    def _read(self, offset: int, length: int) -> bytes:
        data = os.pread(self._file.fileno(), length, offset)
        while len(data) < length:
            more = os.pread(self._file.fileno(), length - len(data), offset + len(data))
            assert more, "a private file is as long as it was written"
            data += more
        return data

    def close(self) -> None:
        """Give the file up."""
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def spool_rows(
    log: Log,
    outcomes: Collection[str],
    place: Path,
    to_sequence: int | None = None,
    run: Path | None = None,
) -> RowSpool:
    """The rows of these outcomes ("kept", "discarded", "failed") as they are at a sequence, or now.

    They are to the byte the lines that the row files have then. `place` is a directory with room for them.
    With a `run`, the directory that the log is in, the rows that there were at its newest snapshot that fits
    are taken from its row files, if these hold what the snapshot says; no event before it is read then.

    Raises:
        OSError: no room.
        EventLogError: the log cannot be read, or a newer evrun wrote it.
    """
    end = log.end.sequence if to_sequence is None else to_sequence
    spool = RowSpool(outcomes, place)
    try:
        state = None if run is None else _taken_over(log, run, spool, end)
        stream = RowStream(log, state)
        pour(log, stream, spool, end)
        if any(outcome_of(file) in outcomes for file in stream.stale):
            # Some rows were revised later: only the whole log tells which.
            spool.forget()
            pour(log, RowStream(log, final=stream.state.batch), spool, end)
    except BaseException:
        spool.close()
        raise
    spool.state = stream.state
    spool.sequence, spool.chain = end, chain_for(log, end)[1]
    return spool


def _taken_over(log: Log, run: Path, spool: RowSpool, end: int) -> RunState | None:
    """Put what the row files of a run had at its newest snapshot; the state there. Null: nothing was put.

    No row is believed for being there: all lines of a file together are what the fold made, or none is taken.
    """
    found = Snapshots(run / "log").newest(log, end)
    if found is None or any(outcome_of(name) in spool.outcomes for name in stale_of(found.parts)):
        return None
    content = Contents.of_parts(found.parts)
    try:
        for name in content:
            if outcome_of(name) in spool.outcomes:
                for line in verified_lines(run / name, content[name], growing=True):
                    spool.put(Row(name, line))
    except (Altered, OSError):
        spool.flush()
        spool.forget()
        return None
    return found.state


def _outcome(name: str) -> str:
    outcome = outcome_of(name)
    assert outcome is not None, "only rows are put"
    return outcome
