"""The views of a training run that goes on."""

from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Self

from eventlog.events import (
    EvaluationAttemptJudged,
    EvaluationFinished,
    FinalSelected,
    HistoryStored,
    Recorded,
    RunStarted,
    SettingsChanged,
    StepCommitted,
)

from ..load import Log, fold_log, recorded
from ..render_evaluation import Attempt
from ..render_material import material_of
from ..state import RunState
from ..training_facts import OpenStep
from .training_files import TrainingFiles


class TrainingViews:
    """Folds durable records into `state`, and keeps the files of `directory` up with it.

    Nothing reads a file to know something. Not thread-safe, but for what `begin_flush` says. `problem` is the
    newest error of the disk, if there was one: views that could not be written are put right by a later
    `refresh`, `write_step` or `finish`.
    """

    def __init__(self, directory: Path, reader: Log, state: RunState | None = None) -> None:
        self._log = reader
        self._state = RunState() if state is None else state
        self._files = TrainingFiles(directory, reader, self._state)
        self._problem: OSError | None = None
        self._due: dict[str, Callable[[], None]] = {}
        self._results: deque[Attempt] = deque()
        self._written = 0
        self._wrong = False

    @classmethod
    def opened(cls, directory: Path, reader: Log, state: RunState) -> Self:
        """The views of a directory, put right for `state`."""
        views = cls(directory, reader, state)
        views._put_right()
        return views

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
        if record.sequence <= self._state.sequence:
            return
        self._state.apply(record)
        self._files.see(record)
        event = record.event
        if isinstance(event, RunStarted | SettingsChanged | HistoryStored):
            self._due["config"] = self._files.config
            self._due["checkout"] = self._files.checkout
        elif isinstance(event, FinalSelected) or (isinstance(event, StepCommitted) and self._ended):
            self._due["end"] = self._files.end
        elif isinstance(event, EvaluationFinished):
            self._due["summaries"] = self._files.summaries
        elif isinstance(event, EvaluationAttemptJudged):
            self._judged(event)

    @property
    def _ended(self) -> bool:
        """Whether a final adapter was chosen before."""
        return self._state.training.final is not None

    def _judged(self, event: EvaluationAttemptJudged) -> None:
        evaluation = self._state.training.evaluations.get(event.number)
        if evaluation is not None and evaluation.attempts:
            newest = evaluation.attempts[-1]
            if newest[2].judged == self._state.sequence:
                self._results.append((evaluation, *newest))

    def begin_flush(self) -> Callable[[], None]:
        """What comes back writes what has come since, in any thread. Only `apply` may be called meanwhile."""
        return self._flush

    def refresh(self, _monotonic: Callable[[], float]) -> None:
        """Write what has come since the last time. Raises nothing for errors of the disk."""
        self._flush()

    def write_material(self, step: OpenStep) -> None:
        """Write ``learning_material/step_NNNN/`` of the open step, whose rollouts have all ended.

        To be called before the learner is, each time that it is.

        Raises:
            OSError: it could not be written, so the learner must not be called.
        """
        steps = self._state.training.steps
        self._files.material(material_of(step, steps[-1] if steps else None))
        self._flush()

    def write_step(self) -> None:
        """Write what the newest `StepCommitted`, which is durable, brings about.

        Raises nothing for errors of the disk.
        """
        self._flush()

    def finish(self) -> None:
        """Write every view for the durable end of the log.

        Raises:
            OSError: a view could not be written; the log is whole, and `evrun replay` makes the views.
            EventLogError: the log cannot be read.
        """
        self._log.refresh()
        for record in recorded(self._log, self._state.sequence + 1):
            self.apply(record)
        self._problem = None
        self._put_right()

    def _flush(self) -> None:
        """Write what is due. An error of the disk leaves it to a later time, when all is looked at."""
        try:
            if self._wrong:
                self._put_right()
            self._write_due()
        except OSError as error:
            self._problem, self._wrong = error, True

    def _write_due(self) -> None:
        if "config" in self._due:
            self._due.pop("config")()
        self._write_steps()
        ended = [self._results.popleft() for _ in range(len(self._results))]
        if ended:
            self._files.results(ended)
        for name in list(self._due):
            self._due.pop(name)()

    def _write_steps(self) -> None:
        steps = self._state.training.steps
        while self._written < len(steps):
            self._files.step(self._written)
            self._written += 1

    def _put_right(self) -> None:
        self._due.clear()
        self._results.clear()
        self._files.put_right(deep=False)
        self._written, self._wrong = len(self._state.training.steps), False


def open_training_views(directory: Path, reader: Log) -> TrainingViews:
    """Fold the whole log, put the views of `directory` right, and be ready for more.

    Half a last line is completed; directories of steps that are missing are made, and those of steps that
    the log does not have are removed.

    Raises:
        OSError: a file could not be written.
        EventLogError: the log cannot be read, or a newer evrun wrote it.
    """
    return TrainingViews.opened(directory, reader, fold_log(reader))
