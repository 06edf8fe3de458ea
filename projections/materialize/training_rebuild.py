"""All views of a training run from nothing but its log."""

from pathlib import Path

from ..load import Log, fold_log
from .training_files import TrainingFiles


def rebuild_training(reader: Log, out: Path, to_sequence: int | None = None) -> list[str]:
    """Make every view in `out`, from the events up to a sequence (to the durable end without one).

    Files that are right stay; what is there by our names and ought not to be is removed. `out` is made if it
    is not there. Gives the names of all views, directories with a slash at the end.

    Raises:
        OSError: a file could not be written.
        EventLogError: the log cannot be read, or a newer evrun wrote it.
    """
    return TrainingFiles(out, reader, fold_log(reader, to_sequence)).put_right(deep=True)
