"""Rows for an export: from a snapshot and the row files they are those that the whole log gives."""

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eventlog.events import SessionOpened
from projections import Snapshots, open_views, spool_rows

from .histories import (
    LogMaker,
    answered,
    begun,
    discarded,
    failed,
    kept,
    name_of,
    planned,
    reserve,
    spent,
    started,
)
from .random_history import History

OUTCOMES = [("kept",), ("discarded", "failed"), ("failed", "kept", "discarded")]


class Watched:
    """A log that notes from where it was read."""

    def __init__(self, reader):
        self._reader, self.begun = reader, []

    def __getattr__(self, name):
        return getattr(self._reader, name)

    def read(self, from_sequence=1, to_sequence=None):
        """The events, noted."""
        self.begun.append(from_sequence)
        return self._reader.read(from_sequence, to_sequence)


def spooled(log, outcomes, place, end, run=None):
    """All that a spool says of itself."""
    with spool_rows(log, outcomes, place, end, run) as spool:
        return list(spool), spool.counts(), spool.sequence, spool.chain, spool.state.batch.counts


def same_rows(reader, place, random, snapshot_at):
    """See that rows are the same with the run's files as without, now and before."""
    for outcomes in OUTCOMES:
        for end in (None, reader.end.sequence, snapshot_at, random.randrange(1, reader.end.sequence)):
            assert spooled(reader, outcomes, place, end, place) == spooled(reader, outcomes, place, end)


@given(st.integers(0, 2**32))
@settings(max_examples=12, deadline=None)
def test_rows_are_the_same_from_a_snapshot_and_from_the_beginning(tmp_path_factory, seed):
    """Whatever came after the snapshot: more rows, rows that were revised, rows with another shape."""
    place, random = tmp_path_factory.mktemp("run"), Random(seed)
    history = History(random, prompts=9)
    with LogMaker(place / "log") as maker:
        maker.write(history.run(random.randrange(40, 160)))
        views = open_views(place, maker.reader(), Snapshots(place / "log", least_events=1))
        views.finish()
        done = len(history.commits)
        maker.write(history.run(random.randrange(60))[done:])
        same_rows(maker.reader(), place, random, views.state.sequence)


@pytest.fixture(name="run")
def _run(tmp_path):
    """A run with a snapshot at its end, two rows of each outcome; its reader, and where the snapshot is."""
    ends = [kept, kept, discarded, discarded, failed, failed]
    commits = [[SessionOpened(1, 1, "host", "0"), started(), planned(7, batch_size=7)]]
    for index, end in enumerate(ends):
        unit = name_of(index)
        commits += [[begun(unit), reserve(unit, unit)], [spent(unit), answered(unit)], [end(unit)]]
    with LogMaker(tmp_path / "log") as maker:
        maker.write(commits)
        views = open_views(tmp_path, maker.reader(), Snapshots(tmp_path / "log", least_events=1))
        views.finish()
        yield tmp_path, maker.reader(), views.state.sequence


def test_events_before_the_snapshot_are_not_read(run):
    """But for a moment before it, of which the snapshot knows nothing."""
    place, reader, sequence = run
    for outcomes in OUTCOMES:
        log = Watched(reader)
        rows = spooled(log, outcomes, place, None, place)[0]
        assert {row.outcome for row in rows} == set(outcomes)
        assert log.begun == [sequence + 1]
        spooled(log, outcomes, place, sequence - 1, place)
        assert log.begun[1] == 1


@pytest.mark.parametrize(
    "harm",
    [
        lambda path: path.unlink(),
        lambda path: path.write_bytes(path.read_bytes()[:-1]),
        lambda path: path.write_bytes(path.read_bytes().replace(b'"sample":1', b'"sample":2', 1)),
        lambda path: path.write_bytes(b"".join(reversed(path.read_bytes().splitlines(keepends=True)))),
        lambda path: (path.unlink(), path.mkdir()),
    ],
    ids=["gone", "cut", "altered", "reordered", "a directory"],
)
@pytest.mark.parametrize(
    ("name", "outcome"),
    [("batch_1.jsonl", "kept"), ("failed.jsonl", "failed"), ("discarded.jsonl", "discarded")],
)
def test_a_row_file_that_is_not_what_it_ought_to_be_is_not_believed(run, harm, name, outcome):
    """The log says what the rows are; what was taken from other files before is forgotten."""
    place, reader, sequence = run
    harm(place / name)
    log = Watched(reader)
    assert spooled(log, (outcome,), place, None, place) == spooled(reader, (outcome,), place, None)
    assert log.begun == [1]
    same_rows(reader, place, Random(1), sequence)


def test_what_a_run_that_goes_on_has_appended_since_is_left_out(run):
    """Rows after the snapshot come from the log, half a line or not."""
    place, reader, sequence = run
    with (place / "batch_1.jsonl").open("ab") as file:
        file.write(b'{"prompt_index": 99}\n{"half')
    log = Watched(reader)
    assert spooled(log, ("kept",), place, None, place) == spooled(reader, ("kept",), place, None)
    assert log.begun == [sequence + 1]
