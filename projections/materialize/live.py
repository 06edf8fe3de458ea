"""The views of a run that goes on: rows as prompts end, the rest as often as it costs little."""

from collections.abc import Callable
from pathlib import Path

import msgspec

from eventlog.events import Recorded

from ..load import Log, kind_of, recorded
from ..row_stream import RowStream
from ..state import TRAINING, RunState
from ..view_names import batch_number
from .documents import write_documents, write_trajectories
from .passes import pour, remake, sweep, unwanted
from .row_files import Altered, Content, RepairedFiles, RowFiles, batch_files, holds
from .training_live import TrainingViews, open_training_views

# Three duties, each at most one three-hundredth of the time: together one per cent.
_REST = 300


class _Duty(msgspec.Struct):
    """A costly piece of work: when it may be done again, and for which sequence it was done last."""

    work: Callable[[], None]
    due: float = float("-inf")
    done_at: int = -1


class Views:
    """Folds durable records into `state`, and keeps the files of `directory` up with it.

    Nothing reads a file to know something: what is read back is compared with what was written, and made anew
    from the log where it differs. Not thread-safe. `problem` is the newest error of the disk, if there was
    one: views that could not be written are put right by a later `refresh` or `finish`.
    """

    def __init__(self, directory: Path, reader: Log, state: RunState | None = None) -> None:
        self._directory = directory
        self._log = reader
        self._stream = RowStream(reader, state)
        self._rows = RowFiles(directory)
        self._documents = _Duty(self._write_documents)
        self._trajectories = _Duty(self._write_trajectories)
        self._remaking = _Duty(self._remake)

    @classmethod
    def continuing(
        cls, directory: Path, reader: Log, stream: RowStream, content: dict[str, Content]
    ) -> "Views":
        """The views of a directory whose row files hold `content`, which `stream` has brought about."""
        views = cls(directory, reader)
        views._stream = stream
        views._rows = RowFiles(directory, content)
        return views

    @property
    def state(self) -> RunState:
        """What the records so far add up to."""
        return self._stream.state

    @property
    def problem(self) -> OSError | None:
        """The newest error of the disk; the views are behind until it is gone."""
        return self._rows.problem

    def apply(self, record: Recorded) -> None:
        """Fold one durable record; the row of a unit that it ends goes to its file with the next `flush`.

        A record that was folded before changes nothing.
        """
        if record.sequence <= self.state.sequence:
            return
        rows = self._stream.apply(record)
        if self._stream.stale:
            self._rows.stale |= self._stream.stale
            self._stream.stale.clear()
        for row in rows:
            self._rows.put(row)

    def flush(self) -> None:
        """Append the rows that came since the last time. Raises nothing for errors of the disk."""
        self._rows.flush()

    def begin_flush(self) -> Callable[[], None]:
        """As `flush`, in two parts: what comes back may be called in another thread.

        So an event loop need not wait for a disk. Only `apply` may be called until it is done.
        """
        return self._rows.begin_flush()

    def refresh(self, monotonic: Callable[[], float]) -> None:
        """Flush, and renew what else is due, at no more than a per cent of the time that `monotonic` tells.

        Raises nothing for errors of the disk.

        Raises:
            EventLogError: the log cannot be read.
        """
        self.flush()
        self._log.refresh()
        for duty in (self._remaking, self._documents, self._trajectories):
            began = monotonic()
            if duty.done_at == self.state.sequence or began < duty.due:
                continue
            try:
                duty.work()
            except OSError as error:
                self._rows.problem = error
            duty.done_at = self.state.sequence
            ended = monotonic()
            duty.due = ended + _REST * (ended - began)

    def finish(self) -> None:
        """Write every view for the durable end of the log.

        Raises:
            OSError: a view could not be written; the log is whole, and `evrun replay` makes the views.
            EventLogError: the log cannot be read.
        """
        self._log.refresh()
        for record in recorded(self._log, self.state.sequence + 1):
            self.apply(record)
        self._rows.problem = None
        self.flush()
        self._look_at_others()
        self._remake()
        self._write_documents()
        self._write_trajectories()

    def _look_at_others(self) -> None:
        """Files that are not read for trajectories.jsonl are looked at here."""
        for name, content in self._rows.content.items():
            if batch_number(name) is None and not holds(self._directory / name, content):
                self._rows.stale.add(name)

    def _write_documents(self) -> None:
        write_documents(self._directory, self._log, self.state)

    def _remake(self) -> None:
        """Make stale row files anew."""
        self._rows.flush()
        names = set(self._rows.stale)
        if not names:
            return
        made = remake(self._log, self._directory, names, self.state.batch)
        for name in names:
            self._rows.content.pop(name, None)
        self._rows.content.update(made)
        self._rows.stale -= names

    def _write_trajectories(self) -> None:
        while not batch_files(self._rows.stale):
            try:
                write_trajectories(self._directory, self._rows.content)
            except Altered as altered:
                self._rows.stale.add(altered.name)
                self._remake()
            else:
                return


def open_run_views(directory: Path, reader: Log) -> "Views | TrainingViews":
    """`open_views` of a run of any kind; errors as there."""
    if kind_of(reader) == TRAINING:
        return open_training_views(directory, reader)
    return open_views(directory, reader)


def open_views(directory: Path, reader: Log) -> Views:
    """Fold the whole log, put the row files of `directory` right on the way, and be ready for more.

    Rows that a crash left out are added, half rows completed. Files that differ are made anew in a second
    pass over the log, those that ought not to be there are removed. The other views are written by `refresh`
    and `finish`.

    Raises:
        OSError: a file could not be written.
        EventLogError: the log cannot be read, or a newer evrun wrote it.
    """
    sweep(directory)
    stream, rows = RowStream(reader), RepairedFiles(directory)
    pour(reader, stream, rows, None)
    rows.finish()
    rows.stale |= stream.stale
    stream.stale.clear()
    batch = stream.state.batch
    wrong = rows.stale | unwanted(directory, batch, rows.content)
    for name in wrong:
        rows.content.pop(name, None)
    if wrong:
        rows.content.update(remake(reader, directory, wrong, batch))
    return Views.continuing(directory, reader, stream, rows.content)
