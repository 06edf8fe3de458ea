"""All views from nothing but the log."""

from pathlib import Path

from ..load import Log, kind_of
from ..row_stream import RowStream
from ..state import TRAINING
from ..view_names import CHECKPOINT, STATISTICS, TRAJECTORIES, row_file_order
from .documents import write_documents, write_trajectories
from .passes import pour, publish, remake, spool, sweep, unwanted
from .row_files import RowFiles
from .training_rebuild import rebuild_training


def rebuild(reader: Log, out: Path, to_sequence: int | None = None) -> list[str]:
    """Make every view in `out`, from the events up to a sequence (to the durable end without one).

    Each file is replaced whole; row files by our names that ought to have no rows are removed. `out` is made
    if it is not there. Memory does not grow with the rows. Gives the names that were written, in order.

    Raises:
        OSError: a file could not be written.
        EventLogError: the log cannot be read, or a newer evrun wrote it.
    """
    if kind_of(reader) == TRAINING:
        return rebuild_training(reader, out, to_sequence)
    out.mkdir(mode=0o700, parents=True, exist_ok=True)
    sweep(out)
    stream = RowStream(reader)
    with spool(out) as place:
        rows = RowFiles(Path(place))
        pour(reader, stream, rows, to_sequence)
        content = rows.content
        publish(rows, out, (name for name in content if name not in stream.stale))
    state, stale = stream.state, stream.stale
    for name in stale:
        content.pop(name, None)
    stale |= unwanted(out, state.batch, content)
    if stale:
        content.update(remake(reader, out, stale, state.batch))
    write_documents(out, reader, state)
    write_trajectories(out, content)
    return [*sorted(content, key=row_file_order), TRAJECTORIES, CHECKPOINT, STATISTICS]
