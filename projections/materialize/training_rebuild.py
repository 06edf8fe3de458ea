"""All views of a training run from nothing but its log."""

from pathlib import Path

from ..load import Log


def rebuild_training(reader: Log, out: Path, to_sequence: int | None = None) -> list[str]:
    """Make every view in `out`, from the events up to a sequence (to the durable end without one).

    `out` is made if it is not there. Gives the names that were written, in order.

    Raises:
        OSError: a file could not be written.
        EventLogError: the log cannot be read, or a newer evrun wrote it.
    """
    raise NotImplementedError
