"""The views that are written whole: checkpoint.json, statistics.json, trajectories.jsonl."""

from collections.abc import Callable, Iterator
from pathlib import Path

from eventlog.errors import EventLogError, LogRefused
from eventlog.storage import replace_file

from ..batch import BatchState
from ..load import Log
from ..render_checkpoint import render_checkpoint
from ..render_statistics import render_statistics
from ..state import RunState
from ..view_names import CHECKPOINT, STATISTICS, TRAJECTORIES
from .contents import Contents
from .row_files import verified_lines

_CHUNK_BYTES = 1 << 20


def write_documents(directory: Path, log: Log, state: RunState) -> None:
    """Write checkpoint.json and statistics.json."""
    replace_file(directory / CHECKPOINT, checkpoint_chunks(log, state.batch))
    replace_file(directory / STATISTICS, [render_statistics(state)])


def begin_documents(directory: Path, log: Log, state: RunState) -> Callable[[], None]:
    """As `write_documents`, in two parts: what comes back may be called while `state` goes on."""
    statistics, checkpoint = render_statistics(state), checkpoint_chunks(log, state.batch)

    def write() -> None:
        replace_file(directory / CHECKPOINT, checkpoint)
        replace_file(directory / STATISTICS, [statistics])

    return write


def checkpoint_chunks(log: Log, batch: BatchState) -> Iterator[bytes]:
    """checkpoint.json for where `batch` stands in `log`."""
    return render_checkpoint(batch, *chain_for(log, batch.sequence))


def chain_for(log: Log, sequence: int) -> tuple[int, bytes]:
    """The last commit that ends at or before a sequence: the sequence where it ends, and the chain there."""
    end = log.end
    if sequence >= end.sequence:
        return end.sequence, end.chain
    while sequence > 0:
        try:
            return sequence, log.chain_at(sequence)
        except LogRefused:
            raise
        except EventLogError:
            # Inside a commit.
            sequence -= 1
    return 0, log.chain_at(0)


def write_trajectories(directory: Path, content: Contents, *, growing: bool = False) -> None:
    """Write trajectories.jsonl: the rows of all batch files in numeric order, as they are on disk.

    Batch files that are `growing` may go on after their `content`.

    Raises:
        Altered: a batch file does not hold what it ought to; trajectories.jsonl is as it was.
    """
    replace_file(directory / TRAJECTORIES, _joined(directory, content, growing=growing))


def _joined(directory: Path, content: Contents, *, growing: bool) -> Iterator[bytes]:
    held: list[bytes] = []
    size = 0
    for name in content.batch_files():
        for line in verified_lines(directory / name, content[name], growing=growing):
            held.append(line)
            size += len(line)
            if size >= _CHUNK_BYTES:
                yield b"".join(held)
                held, size = [], 0
    yield b"".join(held)
