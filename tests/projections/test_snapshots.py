"""Snapshots: a state that was put aside goes on as if it had been there; one that does not fit is none."""

import json
import os
from random import Random

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eventlog.events import PromptsPlanned, Recorded, RunStarted
from projections import RunState, Snapshots, fold_from_snapshot, fold_log, open_views
from projections.materialize import fingerprint, snapshots
from projections.snapshot import CannotFreeze, freeze, thaw

from .forged_snapshots import forge, word
from .histories import LogMaker, begun, discarded, name_of, planned, reserve, started
from .random_history import History
from .states import own_sums, plain
from .views import files, finished_unit, follow, opening, rebuilt, why

SEEDS = st.integers(0, 2**32)


@given(SEEDS)
@settings(max_examples=40, deadline=None)
def test_a_state_that_was_thawed_goes_on_like_the_one_that_was_frozen(seed):
    """Frozen anywhere in any history: what is folded on top of it adds up to the same, in every detail."""
    random = Random(seed)
    history = History(random)
    history.run(100)
    whole, other, sequence = RunState(), RunState(), 0
    for commit in history.commits:
        for event in commit:
            sequence += 1
            record = Recorded(sequence, sequence * 1000, 1, event)
            whole.apply(record)
            other.apply(record)
        if random.random() < 0.2:
            other = thaw(freeze(other))
            assert own_sums(other)
    assert plain(other) == plain(whole)


@given(SEEDS)
@settings(max_examples=6, deadline=None)
def test_views_go_on_from_a_snapshot_as_from_the_whole_log(tmp_path_factory, seed):
    """Killed anywhere, files behind, cut or altered: resumed from a snapshot they are what the log says."""
    place, random = tmp_path_factory.mktemp("run"), Random(seed)
    history = History(random)
    held = Snapshots(place / "log", least_events=1)
    with LogMaker(place / "log") as maker:
        maker.write(history.commits)
        views, sessions = open_views(place, maker.reader(), held), maker.sessions
        for _ in range(60):
            done = len(history.commits)
            history.step()
            maker.write(history.commits[done:])
            if maker.sessions > sessions or random.random() < 0.1:
                reader, sessions = maker.reader(), maker.sessions
                hurt(place, random)
                views = open_views(place, reader, held)
                assert plain(views.state) == plain(fold_log(reader))
            follow(views, maker.reader())
            what = random.choice(["flush", "refresh", "nothing", "nothing"])
            if what == "flush":
                views.flush()
            elif what == "refresh":
                views.refresh(lambda: 0.0)
        views.finish()
        assert files(place) == rebuilt(maker.reader(), place / "one")
        assert why(maker.reader(), place) == {}


def hurt(place, random):
    """A crash cut a file off, or somebody wrote into it."""
    rows = sorted(place.glob("*.jsonl"))
    if rows and random.random() < 0.5:
        path = random.choice(rows)
        data = path.read_bytes()
        path.write_bytes(
            random.choice([data[: random.randrange(len(data) + 1)], data + b"{}\n", b"!" + data[1:]])
        )


@pytest.fixture
def saved(tmp_path, maker):
    """A log with two snapshots, taken at two of its commits; the run's directory."""
    held = Snapshots(tmp_path / "run" / "log", least_events=1)
    maker.write([*opening(), *finished_unit(0)])
    views = open_views(tmp_path / "run", maker.reader(), held)
    views.finish()
    maker.write([*finished_unit(1), [begun(name_of(2)), reserve("open", name_of(2))]])
    follow(views, maker.reader())
    views.finish()
    return tmp_path / "run"


def test_the_newest_snapshot_that_fits_is_used(saved, maker):
    """And no other is kept than it and the one before."""
    held, reader = Snapshots(saved / "log"), maker.reader()
    assert held.newest(reader).state.sequence == reader.end.sequence
    older, _newer = kept(saved)
    assert held.newest(reader, reader.end.sequence - 1).state.sequence == int(older.stem)
    maker.write(finished_unit(3))
    views = open_views(saved, maker.reader(), Snapshots(saved / "log", least_events=1))
    views.finish()
    assert len(kept(saved)) == 2
    assert files(saved) == rebuilt(maker.reader(), saved / "out")


def kept(run):
    """The files of the snapshots, the oldest first."""
    return sorted((run / "log" / snapshots.DIRECTORY).iterdir())


def test_no_flipped_byte_of_a_snapshot_is_taken_for_the_state(saved, maker):
    """Wherever a byte differs, or the file ends: the next older one is used, and the state is the log's."""
    older, newer = kept(saved)
    whole, reader = newer.read_bytes(), maker.reader()
    expected, held = plain(fold_log(reader)), Snapshots(saved / "log")
    for at in range(0, len(whole), len(whole) // 60):
        for changed in (whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :], whole[:at]):
            newer.write_bytes(changed)
            assert held.newest(reader).state.sequence == int(older.stem)
    assert plain(fold_from_snapshot(reader, held)) == expected
    older.write_bytes(b"")
    assert held.newest(reader) is None
    assert plain(fold_from_snapshot(reader, held)) == expected


@pytest.mark.parametrize("field", ["log_id", "projection", "fingerprint", "sequence", "chain"])
def test_a_snapshot_of_something_else_is_none(saved, maker, field):
    """Of another log, fold or code, ahead of the log, or of another past: whole in itself, and ignored."""
    older, newer = kept(saved)
    was = word(newer, field)
    forge(newer, **{field: was + (b"!" if isinstance(was, bytes) else type(was)(1))})
    assert Snapshots(saved / "log").newest(maker.reader()).state.sequence == int(older.stem)


def test_what_does_not_fit_takes_the_place_of_no_snapshot_that_does(saved, maker):
    """Others' snapshots under higher numbers go with the next one that is saved; a pipe is not waited for."""
    older, newer = kept(saved)
    for number in (90_001, 90_002):
        alien = newer.with_name(f"{number:020}.snapshot")
        alien.write_bytes(newer.read_bytes())
        forge(alien, log_id=b"another log's id")
    os.mkfifo(newer.with_name(f"{90_003:020}.snapshot"))
    older.unlink()
    maker.write(finished_unit(3))
    open_views(saved, maker.reader(), Snapshots(saved / "log", least_events=1)).finish()
    there = [int(path.stem) for path in kept(saved) if path.is_file()]
    assert there == [int(newer.stem), maker.reader().end.sequence]


def test_another_code_makes_another_fingerprint(tmp_path):
    """It is a digest over the sources, so that nobody has to think of it when a fold changes."""
    fold = tmp_path / "fold.py"
    fold.write_text("ONE = 1\n")
    one = fingerprint.digest_of([tmp_path])
    fold.write_text("ONE = 2\n")
    assert one != fingerprint.digest_of([tmp_path])
    fold.write_text("ONE = 1\n")
    assert one == fingerprint.digest_of([tmp_path])
    fold.unlink()
    assert fingerprint.digest_of([tmp_path]) is None
    assert len(fingerprint.fingerprint()) == 32


def test_a_snapshot_inside_a_commit_is_not_kept(tmp_path, maker):
    """There is no chain there that could prove where it belongs."""
    maker.write(opening())
    held = Snapshots(tmp_path / "run" / "log", least_events=1)
    assert not held.save(maker.reader(), 2, {"one": b"part"})
    assert held.newest(maker.reader()) is None


def test_a_few_events_are_not_worth_a_snapshot(tmp_path, maker):
    """A small run has none, and its log's directory nothing more than before."""
    maker.write([*opening(), *finished_unit(0)])
    views = open_views(tmp_path / "run", maker.reader(), Snapshots(tmp_path / "run" / "log"))
    views.finish()
    assert not (tmp_path / "run" / "log" / snapshots.DIRECTORY).exists()


def test_a_resume_from_a_snapshot_adds_to_the_files_and_writes_none_again(tmp_path, maker):
    """A snapshot counts the rows that were put and not yet written, and gets its name after they are."""
    place = tmp_path / "run"
    maker.write([*opening(), *finished_unit(0), *finished_unit(2)])
    views = open_views(place, maker.reader(), Snapshots(place / "log", least_events=1))
    maker.write([*finished_unit(1), *finished_unit(3, discarded)])
    follow(views, maker.reader())
    views.refresh(lambda: 0.0)
    maker.write(finished_unit(4))
    before = {path.name: path.stat().st_ino for path in place.glob("*.jsonl") if "traj" not in path.name}
    open_views(place, maker.reader(), Snapshots(place / "log")).finish()
    assert {name: (place / name).stat().st_ino for name in before} == before
    assert files(place) == rebuilt(maker.reader(), tmp_path / "out")


def test_a_file_that_ought_not_to_be_there_goes_also_after_a_snapshot(saved, maker):
    """Row files by the names of this run, which the log does not bring about."""
    (saved / "failed.jsonl").write_bytes(b"{}\n")
    open_views(saved, maker.reader(), Snapshots(saved / "log")).finish()
    assert files(saved) == rebuilt(maker.reader(), saved / "out")


def test_snapshots_may_be_removed_at_any_time(saved, maker):
    """They save time and nothing else."""
    for path in kept(saved):
        path.unlink()
    (saved / "log" / snapshots.DIRECTORY).rmdir()
    maker.write(finished_unit(3))
    open_views(saved, maker.reader(), Snapshots(saved / "log", least_events=1)).finish()
    assert files(saved) == rebuilt(maker.reader(), saved / "out")


def test_a_snapshot_that_cannot_be_written_stops_nothing(tmp_path, maker):
    """The views are whole without it."""
    maker.write([*opening(), *finished_unit(0)])
    (tmp_path / "run" / "log" / snapshots.DIRECTORY).write_bytes(b"in the way")
    views = open_views(tmp_path / "run", maker.reader(), Snapshots(tmp_path / "run" / "log", least_events=1))
    views.finish()
    assert files(tmp_path / "run") == rebuilt(maker.reader(), tmp_path / "out")


def test_rows_with_strange_names_and_numbers_have_a_snapshot(tmp_path, maker):
    """Fields whose names are no UTF-8; but money beyond 64 bits has none, and only the log says it."""
    row = json.dumps({"prompt": "p", "\ud800": {"\udfff": 1}, "n": [1, None]}).encode()
    plan = planned(1)
    plan = PromptsPlanned([msgspec.structs.replace(plan.rows[0], row=row)], complete=True)
    state = RunState()
    for sequence, event in enumerate([started(), plan], 1):
        state.apply(Recorded(sequence, sequence, 1, event))
    assert plain(thaw(freeze(state))) == plain(state)
    state.ledger.total.settled_nano_usd = 1 << 70
    with pytest.raises(CannotFreeze):
        freeze(state)


def test_a_training_run_has_no_snapshot():
    """It is folded from its whole log."""
    state = RunState()
    state.apply(Recorded(1, 1, 1, msgspec.structs.replace(started(), kind="training")))
    assert isinstance(started(), RunStarted)
    with pytest.raises(CannotFreeze):
        freeze(state)
