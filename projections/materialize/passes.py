"""Reading the log from its beginning for the sake of the row files."""

import os
import shutil
import tempfile
from collections.abc import Callable, Container, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from eventlog.storage import replace_file

from ..batch import BatchState
from ..load import Log, collector_paused, recorded
from ..row_stream import RowStream
from ..view_names import OTHER_ROWS, batch_number
from .contents import Contents
from .row_files import RowBuffer, RowFiles

_SPOOL = ".rows-"
_CHUNK_BYTES = 1 << 20


def pour(
    log: Log, stream: RowStream, rows: RowBuffer, to_sequence: int | None, only: set[str] | None = None
) -> None:
    """Put the rows that the log brings about into `rows`; those of the files `only`, where given.

    From where the state of `stream` stands: for a new one from the log's beginning.
    """
    with collector_paused():
        for record in recorded(log, stream.state.sequence + 1, to_sequence):
            for row in stream.apply(record):
                if only is None or row.file in only:
                    rows.put(row)
    rows.flush()


def remake(log: Log, directory: Path, names: set[str], final: BatchState) -> Contents:
    """Make these row files anew, from the log up to the sequence of `final`, each replaced whole.

    One pass over the log, whatever their number; memory does not grow with their size. A file that ought to
    have no rows is removed. Gives the content of the others.
    """
    with remaking(log, directory, names, final) as put:
        return put()


@contextmanager
def remaking(
    log: Log, directory: Path, names: set[str], final: BatchState
) -> Iterator[Callable[[], Contents]]:
    """As `remake`, in two parts: what is given puts the files into place, which does not take long."""
    with spool(directory) as place:
        rows = RowFiles(Path(place))
        pour(log, RowStream(log, final=final), rows, final.sequence, names)

        def put() -> Contents:
            publish(rows, directory, names)
            return rows.content

        yield put


def publish(rows: RowFiles, directory: Path, names: Iterable[str]) -> None:
    """Put files of a spool in the place of those in `directory`; remove those that have no rows.

    Raises:
        OSError: a file could not be written; those before it are in place.
    """
    if rows.problem is not None:
        raise rows.problem
    for name in names:
        if name in rows.content:
            replace_file(directory / name, _chunks(rows.directory / name))
        else:
            (directory / name).unlink(missing_ok=True)


def spool(directory: Path) -> "tempfile.TemporaryDirectory[str]":
    """A private directory inside `directory`, gone when left."""
    return tempfile.TemporaryDirectory(prefix=_SPOOL, dir=directory)


def sweep(directory: Path) -> None:
    """Remove what killed processes left of their spools."""
    for left in directory.glob(_SPOOL + "*"):
        shutil.rmtree(left, ignore_errors=True)


def unwanted(directory: Path, batch: BatchState, wanted: Container[str]) -> set[str]:
    """Row files that are there, by names that this run gives to its files, and ought not to be.

    A file by the name of a batch that this run does not have is not ours.
    """
    if not directory.is_dir():
        return set()
    with os.scandir(directory) as entries:
        there = (entry.name for entry in entries)
        return {name for name in there if _is_ours(name, batch.batches) and name not in wanted}


def _is_ours(name: str, batches: int) -> bool:
    number = batch_number(name)
    return name in OTHER_ROWS if number is None else number <= batches


def _chunks(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK_BYTES):
            yield chunk
