"""The views of a training run that goes on."""

from collections.abc import Callable
from pathlib import Path

from eventlog.events import Recorded

from ..load import Log, fold_log
from ..state import RunState
from ..training_facts import OpenStep


class TrainingViews:
    """Folds durable records into `state`, and keeps the files of `directory` up with it.

    Not thread-safe, but for what `begin_flush` says. `problem` is the newest error of the disk, if there was
    one: views that could not be written are put right by a later `refresh`, `write_step` or `finish`.
    """

    def __init__(self, directory: Path, reader: Log, state: RunState | None = None) -> None:
        self._directory = directory
        self._log = reader
        self._state = RunState() if state is None else state
        self._problem: OSError | None = None

    @property
    def state(self) -> RunState:
        """What the records so far add up to."""
        return self._state

    @property
    def problem(self) -> OSError | None:
        """The newest error of the disk; the views are behind until it is gone."""
        return self._problem

    def apply(self, record: Recorded) -> None:
        """Fold one durable record. One that was folded before changes nothing."""
        if record.sequence > self._state.sequence:
            self._state.apply(record)

    def begin_flush(self) -> Callable[[], None]:
        """What comes back writes what has come since, in any thread. Only `apply` may be called meanwhile."""
        return lambda: None

    def refresh(self, monotonic: Callable[[], float]) -> None:
        """Write what has come since the last time. Raises nothing for errors of the disk."""

    def write_material(self, step: OpenStep) -> None:
        """Write ``learning_material/step_NNNN/`` of the open step, whose rollouts have all ended.

        To be called before the learner is, each time that it is.

        Raises:
            OSError: it could not be written, so the learner must not be called.
        """

    def write_step(self) -> None:
        """Write what the newest `StepCommitted`, which is durable, brings about.

        Raises nothing for errors of the disk.
        """

    def finish(self) -> None:
        """Write every view for the durable end of the log.

        Raises:
            OSError: a view could not be written; the log is whole, and `evrun replay` makes the views.
            EventLogError: the log cannot be read.
        """


def open_training_views(directory: Path, reader: Log) -> TrainingViews:
    """Fold the whole log, put the views of `directory` right, and be ready for more.

    Raises:
        OSError: a file could not be written.
        EventLogError: the log cannot be read, or a newer evrun wrote it.
    """
    return TrainingViews(directory, reader, fold_log(reader))
