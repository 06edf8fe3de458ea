"""From records to rows: folds, and renders a unit's row at the event that ends it."""

from typing import NamedTuple

from eventlog.events import (
    PromptFailed,
    PromptsPlanned,
    PromptStarted,
    Recorded,
    RunStarted,
    SettingsChanged,
    TrajectoryCompleted,
    TrajectoryDiscarded,
    TrajectoryImported,
    TrajectoryRestored,
)

from .batch import BatchState
from .conversation import Attempt
from .imported import imported_row
from .load import Log
from .render_openai import batch_line_id, error_line, output_line
from .render_rows import Frame, Place, RowShape, discarded_row, failed_row, kept_row
from .rows_source import RowSource
from .state import RunState
from .unit_rows import Unit
from .units import ENDED, KEPT
from .view_names import openai_file, row_file

_Boundary = TrajectoryCompleted | TrajectoryDiscarded | TrajectoryImported | PromptFailed


class Row(NamedTuple):
    """A line for the end of a view file."""

    file: str
    line: bytes


class RowStream:
    """Folds records into `state` and gives the rows that they bring about, in the order of the log.

    Rows are right for as long as no later event revises them: one that gives a unit a new attempt, or another
    outcome. The files that this happens to are in `stale`, and only the whole log, read knowing how it ends,
    tells what is in them: `final` is that knowledge. With it, each unit's row is given once, where it belongs
    and as it is in the end.
    """

    def __init__(self, log: Log, state: RunState | None = None, final: BatchState | None = None) -> None:
        self.state = state or RunState()
        self.stale: set[str] = set()
        self._rows = RowSource(log)
        self._final = final
        self._frame: Frame | None = None

    def apply(self, record: Recorded) -> list[Row]:
        """Fold one record; the rows of the unit that it ends, if it ends one."""
        event = record.event
        kind = type(event)
        if kind is TrajectoryImported:
            self._widen(event)  # type: ignore[arg-type]  # likewise
        if kind in _BOUNDARIES:
            return self._end(record, event)  # type: ignore[arg-type]  # the set says what it is
        if kind in _REVISIONS:
            self._revise(record, event)  # type: ignore[arg-type]  # likewise
            return []
        if kind in _SHAPING:
            self._reshape(record)
            return []
        self.state.apply(record)
        return []

    def _widen(self, event: TrajectoryImported) -> None:
        """A row from elsewhere may be the first to name a tool: from there on all rows have it."""
        batch = self.state.batch
        if self._final is None and not batch.tools.issuperset(event.counts.tools):
            self._frame = None
            self.stale |= {file for unit in batch.units.values() if (file := row_file(unit)) is not None}

    def _reshape(self, record: Recorded) -> None:
        """What all rows have may be more from here on: then all that there are change."""
        batch = self.state.batch
        before = shape_of(batch) if any(batch.counts[outcome] for outcome in ENDED) else None
        self.state.apply(record)
        self._frame = None
        if self._final is None and before is not None and before != shape_of(batch):
            self.stale |= {file for unit in batch.units.values() if (file := row_file(unit)) is not None}

    def _end(self, record: Recorded, event: _Boundary) -> list[Row]:
        batch = self.state.batch
        attempt = batch.open.get(event.unit)
        self.state.apply(record)
        final = self._final or batch
        unit = final.units.get(event.unit)
        if unit is None or unit.boundary != record.sequence:
            return []
        file = row_file(unit)
        if file is None:
            return []
        row = self._rows.bytes_of(unit)
        place = Place(event.unit, unit.index, unit.batch, unit.sample, row, record.time_ns)
        line = Row(file, self._render(record, event, attempt, unit, place))
        return [line, *_openai(place, event, attempt, unit)]

    def _render(
        self, record: Recorded, event: _Boundary, attempt: Attempt | None, unit: Unit, place: Place
    ) -> bytes:
        if self._frame is None:
            batch = self.state.batch
            self._frame = Frame(batch.settings, batch.toolsets, shape_of(self._final or batch))
        if isinstance(event, TrajectoryImported):
            return imported_row(self._frame, place, event, unit)
        if isinstance(event, PromptFailed):
            return failed_row(self._frame, place, attempt, event)
        if attempt is None:
            attempt = Attempt(event.unit, event.attempt, record.time_ns, record.session, [], b"")
        if unit.outcome == KEPT:
            return kept_row(self._frame, place, attempt, event)
        return discarded_row(self._frame, place, attempt, event, unit.reason or "")

    def _revise(self, record: Recorded, event: PromptStarted | TrajectoryRestored) -> None:
        unit = self.state.batch.units.get(event.unit)
        before, openai = (None, None) if unit is None else (row_file(unit), openai_file(unit))
        self.state.apply(record)
        if unit is not None and before is not None:
            after = row_file(unit)
            self.stale.add(before)
            if after is not None:
                self.stale.add(after)
            elif openai is not None and batch_line_id(self._rows.bytes_of(unit)) is not None:
                self.stale.add(openai)


def _openai(place: Place, event: _Boundary, attempt: Attempt | None, unit: Unit) -> list[Row]:
    """The line of a batch line's unit in OpenAI's files, which have one for each that was asked."""
    file, custom_id = openai_file(unit), batch_line_id(place.row)
    if file is None or custom_id is None or isinstance(event, TrajectoryImported):
        return []
    if isinstance(event, PromptFailed):
        return [Row(file, error_line(place, custom_id, attempt, event))]
    return [] if attempt is None else [Row(file, output_line(place, custom_id, attempt))]


def shape_of(batch: BatchState) -> RowShape:
    """What all rows of a run have."""
    return RowShape(batch.own_fields.forms(), tuple(sorted(batch.tools)))


_SHAPING = frozenset({RunStarted, SettingsChanged, PromptsPlanned})
_BOUNDARIES = frozenset({TrajectoryCompleted, TrajectoryDiscarded, TrajectoryImported, PromptFailed})
_REVISIONS = frozenset({PromptStarted, TrajectoryRestored})
