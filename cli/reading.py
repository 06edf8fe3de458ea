"""A run as it is now: its directory, who holds it, and the state that its durable events add up to."""

from pathlib import Path
from typing import NamedTuple

from eventlog.storage import LogReader, Position, lock_holder
from projections import RunState, Snapshots, fold_from_snapshot

from .archives import find_readable
from .runs import DATA, log_of


class Reading(NamedTuple):
    """What was read; `holder` is what the process that holds the run says of itself, null where none does."""

    directory: Path
    holder: dict[str, str] | None
    state: RunState
    end: Position

    @property
    def name(self) -> str:
        """The run's name."""
        return self.state.batch.run or self.directory.resolve().name


def read_run(run: str, output_dir: Path = DATA) -> Reading:
    """Find a run and read it, from the newest snapshot of its fold on where one fits.

    Whether it is held is asked before the log is read: a run that ends in between is shown as running, with
    its last event, never as interrupted.
    """
    return read_directory(find_readable(run, output_dir))


def read_directory(directory: Path) -> Reading:
    """As `read_run`, of a run's directory."""
    holder = lock_holder(log_of(directory))
    with LogReader.open(log_of(directory)) as reader:
        end = reader.end
        state = fold_from_snapshot(reader, Snapshots(log_of(directory)), end.sequence)
        return Reading(directory, holder, state, end)
