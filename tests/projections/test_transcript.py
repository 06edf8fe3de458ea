"""One prompt out of many: what is skipped while it is looked for and told would have changed nothing."""

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eventlog.events import (
    Event,
    PlannedRow,
    PromptsPlanned,
    PromptsWithdrawn,
    encode_event,
)
from projections import RowSource, find_units, transcript
from projections.load import recorded
from projections.transcript import Telling
from projections.transcript_report import report

from .histories import LogMaker, name_of, planned, started
from .random_history import History

SEEDS = st.integers(0, 2**32)
INDEX = {name_of(index): index for index in range(4)}


def told_in_full(reader, name, place, attempt):
    """The transcript of a unit, with every event of the log looked at, each by itself."""
    telling = Telling(name, attempt)
    for record in recorded(reader):
        if telling.concerns(encode_event(record.event)):
            telling.apply(record)
    return report(telling, RowSource(reader).row_of(place), live=False)


@given(SEEDS)
@settings(max_examples=25, deadline=None)
def test_a_prompt_is_told_as_if_every_event_had_been_looked_at(tmp_path_factory, seed):
    """In any history, for every unit and attempt, whatever shares commits with what concerns it."""
    random = Random(seed)
    history = History(random)
    with LogMaker(tmp_path_factory.mktemp("run") / "log") as maker:
        maker.write(history.run(120))
        reader = maker.reader()
        for index in range(6):
            name = name_of(index)
            ((found, place),) = find_units(reader, str(index)).units.items()
            assert found == name
            for attempt in (None, 1, 2):
                assert transcript(reader, name, place, attempt, live=False) == told_in_full(
                    reader, name, place, attempt
                )


def again(index: int, at: int, samples: int = 1) -> Event:
    """The row of `index` is planned once more, at another place."""
    row = planned(1, first=index).rows[0]
    moved = PlannedRow(row.content, row.occurrence, at, row.batch, row.row, 1, samples)
    return PromptsPlanned([moved], complete=True)


@pytest.fixture
def reader(tmp_path):
    """Four rows; the second one goes, and comes back behind all others, with a sample more."""
    with LogMaker(tmp_path / "log") as maker:
        withdrawn = PromptsWithdrawn([name_of(1)])
        maker.write([[started(), planned(4)], [withdrawn], [again(1, 9, samples=2)]])
        yield maker.reader()


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("1", [name_of(1)]),
        ("9", [name_of(1, 2)]),
        ("9.1", []),
        ("9.2", [name_of(1, 2)]),
        ("3", [name_of(3)]),
        (name_of(1), [name_of(1)]),
        (name_of(1)[:-2], [name_of(1), name_of(1, 2)]),
        (name_of(1)[7:12], [name_of(1), name_of(1, 2)]),
        (name_of(2)[7:14], [name_of(2)]),
        ("nothing", []),
    ],
)
def test_a_row_that_came_back_is_found_where_it_was_planned_first(reader, text, names):
    """What it has more than before is found at its new place."""
    found = find_units(reader, text)
    assert (list(found.units), found.matches) == (names, len(names))
    assert [(unit.index, unit.planned) for unit in found.units.values()] == [
        (9, 4) if name == name_of(1, 2) else (INDEX[name], 2) for name in names
    ]


def test_where_nothing_is_found_all_units_are_counted_once(reader):
    """A row that came back is no unit more; the highest place is that of a unit."""
    found = find_units(reader, name_of(2)[:-4] + "#7.1")
    assert (found.matches, found.prompts, found.highest) == (0, 5, 9)
    assert found.near[0] == name_of(2)
