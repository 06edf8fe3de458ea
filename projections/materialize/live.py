"""The views of a run that goes on: rows as prompts end, the rest as often as it costs little."""

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from eventlog.events import Recorded

from ..load import Log, kind_of, recorded
from ..row_stream import RowStream
from ..snapshot import CannotFreeze, freeze, thaw
from ..state import TRAINING, RunState
from .contents import Contents, stale_of, stale_part
from .documents import begin_documents, write_documents, write_trajectories
from .duties import Duty, Work
from .passes import pour, remake, remaking, sweep, unwanted
from .row_files import Altered, RepairedFiles, RowFiles, batch_files, holds
from .snapshots import Snapshots
from .training_live import TrainingViews, open_training_views

MOST_REMADE = 200_000
"""In a log of so many events files are made anew while the run goes on; in a longer one when it ends."""


class Views:
    """Folds durable records into `state`, and keeps the files of `directory` up with it.

    Nothing reads a file to know something: what is read back is compared with what was written, and made anew
    from the log where it differs. Not thread-safe but for what `begin_flush` and `begin_refresh` give.
    `problem` is the newest error of the disk, if there was one: views that could not be written are put right
    by a later `refresh` or `finish`.
    """

    def __init__(
        self,
        directory: Path,
        reader: Log,
        state: RunState | None = None,
        snapshots: Snapshots | None = None,
    ) -> None:
        self._directory = directory
        self._log = reader
        self._stream = RowStream(reader, state)
        self._rows = RowFiles(directory)
        self._snapshots = snapshots
        self._trajectories = Duty(self._begin_trajectories)
        self._remaking = Duty(self._begin_remaking)
        self._duties = (
            self._remaking, Duty(self._begin_documents), self._trajectories, Duty(self._begin_snapshot)
        )  # fmt: skip
        self._busy = False

    @classmethod
    def continuing(
        cls,
        directory: Path,
        reader: Log,
        stream: RowStream,
        rows: RowFiles,
        snapshots: Snapshots | None = None,
    ) -> "Views":
        """The views of a directory that has the content of `rows`, which `stream` has brought about."""
        views = cls(directory, reader, snapshots=snapshots)
        views._stream = stream
        views._rows = RowFiles(directory, rows.content)
        views._rows.stale |= rows.stale
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
        while True:
            work = self.begin_refresh(monotonic)
            self.flush()
            if work is None:
                return
            work()

    def begin_refresh(self, monotonic: Callable[[], float]) -> Work | None:
        """As `refresh`, in two parts: what comes back may be called in another thread, while the run goes on.

        It has to be called, after the rows so far were flushed; null where nothing is due, or earlier work is
        not done. It raises as `refresh` does.
        """
        if self._busy:
            return None
        self._log.refresh()
        works = [duty.start(self.state.sequence, monotonic) for duty in self._duties]
        due = [work for work in works if work is not None]
        if not due:
            return None
        self._busy = True
        return lambda: self._do(due)

    def _do(self, works: list[Work]) -> None:
        try:
            for work in works:
                try:
                    work()
                except OSError as error:
                    self._rows.problem = error
        finally:
            self._busy = False

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
        # Work that was begun and given up.
        self._rows.leave_stale(set(self._rows.waiting))
        self.flush()
        self._look_at_others()
        self._remake()
        write_documents(self._directory, self._log, self.state)
        self._write_trajectories()
        snapshot = self._begin_snapshot()
        if snapshot is not None:
            # One that cannot be written is none: all that it would save is time.
            with suppress(OSError):
                snapshot()

    def _look_at_others(self) -> None:
        """Files that are not read for trajectories.jsonl are looked at here."""
        for name in list(self._rows.content.others()):
            if not holds(self._directory / name, self._rows.content[name]):
                self._rows.stale.add(name)

    def _remake(self) -> None:
        """Make stale row files anew."""
        names = self._rows.begin_remake()
        if names:
            self._remake_as(names, self.state)

    def _remake_as(self, names: set[str], final: RunState) -> None:
        try:
            with remaking(self._log, self._directory, names, final.batch) as put:
                self._rows.end_remake(names, put)
        except BaseException:
            self._rows.leave_stale(names)
            raise

    def _write_trajectories(self) -> None:
        while not batch_files(self._rows.stale):
            try:
                write_trajectories(self._directory, self._rows.content)
            except Altered as altered:
                self._rows.stale.add(altered.name)
                self._remake()
            else:
                return

    # The same while the run goes on: what is written is frozen first.

    def _begin_documents(self) -> Work:
        return begin_documents(self._directory, self._log, self.state)

    def _begin_remaking(self) -> Work | None:
        if not self._rows.stale or self.state.sequence > MOST_REMADE:
            return None
        try:
            parts = freeze(self.state)
        except CannotFreeze:
            return None
        names = self._rows.begin_remake()
        return lambda: self._remake_as(names, thaw(parts))

    def _begin_trajectories(self) -> Work | None:
        if batch_files(self._rows.stale | self._rows.waiting):
            return None
        settled = self._rows.settled()

        def write() -> None:
            try:
                write_trajectories(self._directory, settled(), growing=True)
            except Altered as altered:
                self._rows.stale.add(altered.name)
                self._remaking.again()
                self._trajectories.again()

        return write

    def _begin_snapshot(self) -> Work | None:
        snapshots, sequence = self._snapshots, self.state.sequence
        if snapshots is None or self._rows.waiting or not snapshots.worth_while(sequence):
            return None
        if self._rows.stale and sequence <= MOST_REMADE:
            return None
        try:
            parts = freeze(self.state)
        except CannotFreeze:
            return None
        parts |= stale_part(self._rows.stale)
        settled = self._rows.settled()

        def save() -> None:
            snapshots.save(self._log, sequence, {**parts, **settled().parts()})

        return save


def open_run_views(directory: Path, reader: Log) -> "Views | TrainingViews":
    """`open_views` of a run of any kind; errors as there."""
    if kind_of(reader) == TRAINING:
        return open_training_views(directory, reader)
    return open_views(directory, reader)


def open_views(directory: Path, reader: Log, snapshots: Snapshots | None = None) -> Views:
    """Fold the log, put the row files of `directory` right on the way, and be ready for more.

    Rows that a crash left out are added, half rows completed. Files that differ are made anew in a second
    pass over the log, those that ought not to be there are removed. The other views are written by `refresh`
    and `finish`.

    With a snapshot that fits only what came after it is read: of files that were written before it only the
    length is looked at, and what differs is made anew by `refresh` or `finish`. Others will be saved there.

    Raises:
        OSError: a file could not be written.
        EventLogError: the log cannot be read, or a newer evrun wrote it.
    """
    sweep(directory)
    found = None if snapshots is None else snapshots.newest(reader)
    stream, rows = RowStream(reader), RepairedFiles(directory)
    if found is not None:
        stream = RowStream(reader, found.state)
        rows = RepairedFiles(directory, Contents.of_parts(found.parts))
        rows.stale = stale_of(found.parts)
    pour(reader, stream, rows, None)
    rows.finish()
    rows.stale |= stream.stale
    stream.stale.clear()
    batch = stream.state.batch
    rows.stale |= unwanted(directory, batch, rows.content)
    for name in rows.stale:
        rows.content.pop(name, None)
    if rows.stale and found is None:
        rows.content.update(remake(reader, directory, rows.stale, batch))
        rows.stale.clear()
    return Views.continuing(directory, reader, stream, rows, snapshots)
