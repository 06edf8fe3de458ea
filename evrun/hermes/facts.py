"""What a Hermes directory says, as events: the plan, then each outcome in the order of files and lines."""

from collections.abc import Iterator
from pathlib import Path

from eventlog.events import Counts, Event, PlannedRow, PromptsPlanned, TrajectoryImported
from projections import imported_counts, imported_prompt, unit_name

from ..batch.dataset import Row, read_dataset
from ..batch.identities import Identifier
from ..batch.plan import CHUNK_BYTES, CHUNK_ROWS
from ..errors import UsageFault
from .layout import UNKNOWN, Layout, Spot
from .matching import row_bytes
from .reading import read_object
from .survey import CHECKPOINT, Survey, lines_again

NOTHING_KNOWN = Counts(0, 0, 0, None, {})


def facts(what: Survey, layout: Layout, dataset: Path | None) -> Iterator[Event]:
    """The events of an import, but for its session's own.

    Raises:
        UsageFault: a file changed while it was read.
    """
    rows: list[PlannedRow] = []
    size = 0
    for row in _planned(what, layout, dataset):
        if rows and (len(rows) >= CHUNK_ROWS or size + len(row.row) > CHUNK_BYTES):
            yield PromptsPlanned(rows, complete=False)
            rows, size = [], 0
        rows.append(row)
        size += len(row.row)
    yield PromptsPlanned(rows, complete=True)
    yield from _outcomes(what, layout)


def _planned(what: Survey, layout: Layout, dataset: Path | None) -> Iterator[PlannedRow]:
    identifier = Identifier()
    planned = 0
    for line in () if dataset is None else read_dataset(dataset):
        if isinstance(line, Row):
            spot = layout.of_rows.get(line.line)
            if spot is None or identifier.identify(line.value) != spot.identity:
                raise _changed(dataset)
            planned += 1
            yield PlannedRow(*spot.identity, spot.index, spot.batch, line.raw)
    if planned != len(layout.of_rows):
        raise _changed(dataset)
    places = _places(what)
    for item, _, found in lines_again(what):
        place = places[id(item)]
        if place in layout.own:
            yield _own(layout.of_found[place], found, identifier)


def _own(spot: Spot, line: bytes, identifier: Identifier) -> PlannedRow:
    """A row made of the prompt alone: it is known by its text, and comes after its equals in the dataset."""
    data, row = row_bytes(imported_prompt(read_object(line)) or "")
    spot.identity = identifier.identify(row)
    return PlannedRow(*spot.identity, spot.index, spot.batch, data)


def _outcomes(what: Survey, layout: Layout) -> Iterator[Event]:
    places = _places(what)
    for item, name, line in lines_again(what):
        unit = _unit(layout.of_found[places[id(item)]])
        counts = imported_counts(read_object(line))
        yield TrajectoryImported(unit, 1, item.outcome, item.reason, counts, line, name, item.line)
    for spot in layout.done:
        yield TrajectoryImported(_unit(spot), 1, "discarded", UNKNOWN, NOTHING_KNOWN, b"", CHECKPOINT, None)


def _places(what: Survey) -> dict[int, int]:
    return {id(item): place for place, item in enumerate(what.found)}


def _unit(spot: Spot) -> str:
    return unit_name(spot.identity.content, spot.identity.occurrence, 1)


def _changed(dataset: Path | None) -> UsageFault:
    return UsageFault(
        f"dataset {dataset} changed while it was read", hint="let it be written completely, then import again"
    )
