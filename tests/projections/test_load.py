"""From a real log to events, state, rows and lines for scripts."""

import json

import msgspec
import pytest

from eventlog.errors import MalformedEvent, UnknownEvent
from eventlog.events import PlannedRow, PromptsPlanned, SessionOpened, SpendCorrected, SpendInDoubt
from eventlog.storage import LogReader
from projections import EventLister, RowSource, fold_log, recorded, rfc3339, sequence_at
from projections.load import collector_paused
from projections.units import PlannedUnit

from .histories import (
    START_NS,
    LogMaker,
    answered,
    begun,
    kept,
    name_of,
    planned,
    records,
    reserve,
    row_of,
    spent,
    started,
)
from .test_spend import A, B

COMMITS = [
    [SessionOpened(1, 1, "host", "0"), started(), planned(4), planned(4, first=4)],
    [begun(A), reserve("c", A)],
    [spent("c"), answered("c")],
    [kept(A)],
]


@pytest.fixture
def maker(tmp_path):
    """A log with a few commits."""
    with LogMaker(tmp_path / "log") as made:
        made.write(COMMITS)
        yield made


def test_events_come_back_with_their_coordinates(maker):
    """Sequence, commit time and session of each; the range is inclusive."""
    events = [event for commit in COMMITS for event in commit]
    found = list(recorded(maker.reader()))
    assert [record.event for record in found] == events
    assert [record.sequence for record in found] == list(range(1, 10))
    assert {record.session for record in found} == {1}
    assert [record.sequence for record in recorded(maker.reader(), 3, 5)] == [3, 4, 5]


def test_a_moment_finds_the_last_event_before_it(maker):
    """At a commit's time its last event; before the first none; far in the future the end."""
    times = [record.time_ns for record in recorded(maker.reader())]
    assert sequence_at(maker.reader(), times[0] - 1) == 0
    assert sequence_at(maker.reader(), times[4]) == 6
    assert sequence_at(maker.reader(), times[4] - 1) == 4
    assert sequence_at(maker.reader(), times[-1] + 10**12) == 9


def test_an_event_of_a_newer_evrun_is_refused_by_name(maker):
    """Skipping it would show a state that never was."""
    maker._writer.append([msgspec.msgpack.encode(("StarsAligned", 1, []))])
    with pytest.raises(UnknownEvent, match="StarsAligned"):
        fold_log(maker.reader())
    assert fold_log(maker.reader(), 9).sequence == 9


def test_the_row_of_a_unit_is_found_in_the_log(maker):
    """By the event that planned it and its place there; bytes and object."""
    state, rows = fold_log(maker.reader()), RowSource(maker.reader())
    for index in range(8):
        unit = state.batch.units[name_of(index)]
        assert rows.row_of(unit) == row_of(index)
        assert json.loads(rows.bytes_of(unit)) == row_of(index)


def test_rows_planned_later_are_found_by_the_same_source(maker):
    """A reader shows what was durable when it looked; the source looks again."""
    maker.close()
    rows = RowSource(LogReader.open(maker.directory))
    maker.write([[planned(2, first=8)]])
    maker.close()
    unit = fold_log(LogReader.open(maker.directory)).batch.units[name_of(9)]
    assert rows.row_of(unit) == row_of(9)


def test_the_cache_of_rows_is_bounded_in_bytes(maker):
    """The chunk used last stays, however large; the others go."""
    state, rows = fold_log(maker.reader()), RowSource(maker.reader(), cache_bytes=1)
    for index in (0, 7, 1, 6):
        assert rows.row_of(state.batch.units[name_of(index)]) == row_of(index)
        assert len(rows._chunks) == 1
    wide = RowSource(maker.reader())
    for index in range(8):
        wide.row_of(state.batch.units[name_of(index)])
    assert len(wide._chunks) == 2


def test_a_unit_of_another_log_is_told(maker):
    """Its sequence is no plan here, or its row no object."""
    rows = RowSource(maker.reader())
    with pytest.raises(MalformedEvent, match="expected PromptsPlanned, found PromptStarted"):
        rows.row_of(PlannedUnit(0, 1, 5, 0, 1))
    maker.write([[PromptsPlanned([PlannedRow(b"x" * 16, 1, 8, 5, b"[]")], complete=True)]])
    (odd,) = [unit for unit in fold_log(maker.reader()).batch.units.values() if unit.index == 8]
    with pytest.raises(MalformedEvent, match="expected a JSON object"):
        RowSource(maker.reader()).row_of(odd)


def test_the_collector_is_on_again_after_loading():
    """And stays off where it was off."""
    import gc

    with collector_paused():
        assert not gc.isenabled()
        with collector_paused():
            pass
        assert not gc.isenabled()
    assert gc.isenabled()


def listed(*commits):
    """The lines of these commits."""
    lister = EventLister()
    return [lister.apply(record) for record in records(list(commits))]


def test_listed_events_have_the_contract_s_keys():
    """One object an event, ready for JSON."""
    lines = listed(*COMMITS)
    assert list(lines[4]) == ["seq", "time", "session", "type", "unit", "data"]
    assert (lines[4]["seq"], lines[4]["type"], lines[4]["unit"]) == (5, "PromptStarted", A)
    assert lines[4]["time"] == rfc3339(START_NS + 1_000_000)
    assert json.loads(json.dumps(lines)) == lines


def test_events_about_a_call_name_the_unit_of_the_call():
    """Whichever of the facts of one moment comes first, and after a doubt as well."""
    lines = listed(
        *COMMITS,
        [reserve("d", B)],
        [SpendInDoubt("d", "lost", 1, 1)],
        [SpendCorrected("d", 1, "")],
        [answered("?")],
    )
    assert [line["unit"] for line in lines[5:8]] == [A, A, A]
    assert [line["unit"] for line in lines[9:]] == [B, B, B, None]


def test_settled_calls_are_forgotten_in_time(monkeypatch):
    """The lister's memory does not grow with the run."""
    monkeypatch.setattr("projections.listing._REMEMBERED", 2)
    lister = EventLister()
    calls = [[reserve(f"c{n}", A), spent(f"c{n}")] for n in range(9)]
    for record in records(calls):
        lister.apply(record)
    assert (len(lister._unsettled), len(lister._settled)) == (0, 2)


def test_bytes_are_text_and_digests_hex():
    """Text that is no UTF-8 is hex too; nested structs have their fields by name."""
    lines = listed(*COMMITS, [answered("c")])
    assert json.loads(lines[2]["data"]["rows"][0]["row"]) == row_of(0)
    assert len(lines[2]["data"]["rows"][0]["content"]) == 32
    assert lines[4]["data"]["settings"] == b"settings".hex()
    assert lines[6]["data"]["usage"]["input_tokens"] == 7
    odd = msgspec.structs.replace(answered("c"), body=b"\xff\xfe")
    assert listed([odd])[0]["data"]["body"] == "fffe"


def test_moments_are_rfc_3339_in_utc():
    """Microseconds, and a Z."""
    assert rfc3339(1_934_874_487_000_123_999) == "2031-04-25T09:08:07.000123Z"
