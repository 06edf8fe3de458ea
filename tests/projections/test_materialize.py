"""Views: made live, from nothing, or after a crash, they are the same bytes; and what is wrong is told."""

import json
import os
import stat
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eventlog.events import Recorded, SessionOpened, SettingsChanged
from projections import Views, fold_log, open_views, rebuild, recorded
from projections.materialize import documents

from .histories import LogMaker, begun, discarded, failed, name_of, planned, restored, started
from .random_history import History
from .views import Ticking, files, finished_unit, follow, indexes, opening, rebuilt, why

SEEDS = st.integers(0, 2**32)


@given(SEEDS)
@settings(max_examples=12, deadline=None)
def test_live_views_are_the_rebuilt_ones_for_any_history(tmp_path_factory, seed):
    """Restored, superseded, retried, withdrawn: live, rebuilt, and rebuilt again are the same bytes."""
    place, random = tmp_path_factory.mktemp("run"), Random(seed)
    history = History(random)
    ticking = Ticking()
    with LogMaker(place / "log") as maker:
        maker.write(history.commits)
        views, sessions = open_views(place, maker.reader()), maker.sessions
        for _ in range(60):
            done = len(history.commits)
            history.step()
            maker.write(history.commits[done:])
            if maker.sessions > sessions:
                # A resume begins with what the last process left.
                sessions, views = maker.sessions, open_views(place, maker.reader())
            follow(views, maker.reader())
            what = random.choice(["flush", "refresh", "nothing", "nothing"])
            if what == "flush":
                views.flush()
            elif what == "refresh":
                views.refresh(ticking)
        views.finish()
        expected = rebuilt(maker.reader(), place / "one")
        assert files(place) == expected
        assert rebuilt(maker.reader(), place / "two") == expected
        assert why(maker.reader(), place) == {}


@given(SEEDS)
@settings(max_examples=12, deadline=None)
def test_opening_puts_right_whatever_a_crash_left(tmp_path_factory, seed):
    """Files cut anywhere, altered, emptied, removed or left over are as the log says after a resume."""
    place, random = tmp_path_factory.mktemp("run"), Random(seed)
    with LogMaker(place / "log") as maker:
        maker.write(History(random).run(80))
        reader = maker.reader()
        expected = rebuilt(reader, place)
        for name in expected:
            damage(place / name, random)
        views = open_views(place, reader)
        rows = {name for name in expected if name.endswith(".jsonl") and name != "trajectories.jsonl"}
        assert {name: (place / name).read_bytes() for name in rows} == {name: expected[name] for name in rows}
        views.finish()
        assert files(place) == expected


def test_what_a_crash_cut_off_is_added_and_nothing_rewritten(tmp_path, maker):
    """The common case costs one pass over the log: the file keeps its inode."""
    maker.write([*opening(), *finished_unit(0), *finished_unit(1)])
    expected = rebuilt(maker.reader(), tmp_path / "out")["batch_1.jsonl"]
    path = tmp_path / "run" / "batch_1.jsonl"
    path.write_bytes(expected[:-30])
    inode = path.stat().st_ino
    open_views(tmp_path / "run", maker.reader())
    assert path.read_bytes() == expected
    assert path.stat().st_ino == inode


def damage(path, random):
    """One of the things that happen to files."""
    data = path.read_bytes()
    cut = random.randrange(len(data) + 1)
    what = random.choice(["nothing", "cut", "remove", "alter", "grow"])
    if what == "cut":
        path.write_bytes(data[:cut])
    elif what == "remove":
        path.unlink()
    elif what == "alter" and data:
        path.write_bytes(data[: cut - 1] + b"!" + data[cut:])
    elif what == "grow":
        path.write_bytes(data + b'{"half')


def test_rows_stand_in_the_order_in_which_prompts_ended(tmp_path, maker):
    """Within a batch by their ends, and a restored row in its own place; batches in numeric order."""
    ends = [finished_unit(1), finished_unit(0, discarded), finished_unit(3), finished_unit(2)]
    maker.write([*opening(), *[commit for end in ends for commit in end], [restored(name_of(0))]])
    views = rebuilt(maker.reader(), tmp_path / "out")
    assert indexes(views["batch_1.jsonl"]) == [1, 0]
    assert indexes(views["batch_2.jsonl"]) == [3, 2]
    assert indexes(views["trajectories.jsonl"]) == [1, 0, 3, 2]
    assert "discarded.jsonl" not in views


def test_ten_batches_are_merged_in_numeric_order(tmp_path, maker):
    """batch_10 comes after batch_9 and not before batch_2."""
    maker.write([[SessionOpened(1, 1, "h", "0"), started(batch_size=1), planned(12, batch_size=1)]])
    for index in (11, 1, 9, 10, 0):
        maker.write(finished_unit(index))
    assert indexes(rebuilt(maker.reader(), tmp_path / "out")["trajectories.jsonl"]) == [0, 1, 9, 10, 11]


def test_a_retried_failure_leaves_the_failures(tmp_path, maker):
    """Its old row goes, in every way of making the views; the file goes with its last row."""
    maker.write([*opening(), *finished_unit(0, failed)])
    views = open_views(tmp_path / "run", maker.reader())
    views.finish()
    assert indexes(files(tmp_path / "run")["failed.jsonl"]) == [0]
    maker.write(finished_unit(0, attempt=2))
    follow(views, maker.reader())
    views.finish()
    assert "failed.jsonl" not in files(tmp_path / "run")
    assert indexes(files(tmp_path / "run")["batch_1.jsonl"]) == [0]


def test_a_discarded_row_says_the_reason_of_the_last_rule(tmp_path, maker):
    """Set aside again for another reason, by an event and without a call."""
    maker.write([*opening(), *finished_unit(0), [restored(name_of(0), "unknown_tool")]])
    (row,) = rebuilt(maker.reader(), tmp_path / "out")["discarded.jsonl"].splitlines()
    assert json.loads(row)["reason"] == "unknown_tool"


def test_a_row_shows_the_settings_it_was_made_with(tmp_path, maker):
    """A model changed between two prompts is not mixed silently."""
    maker.write(
        [*opening(), *finished_unit(0), [SettingsChanged({"model": ("m", "n")}, None)], *finished_unit(1)]
    )
    rows = rebuilt(maker.reader(), tmp_path / "out")["batch_1.jsonl"].splitlines()
    assert [json.loads(row)["metadata"]["model"] for row in rows] == ["m", "n"]


def test_rows_appear_with_a_flush_and_not_before(tmp_path, maker):
    """`tail -f` sees each finished prompt; flushing twice adds nothing."""
    maker.write([*opening(), *finished_unit(0)])
    place = tmp_path / "run"
    views = Views(place, maker.reader())
    follow(views, maker.reader())
    assert not (place / "batch_1.jsonl").exists()
    views.flush()
    views.flush()
    assert indexes((place / "batch_1.jsonl").read_bytes()) == [0]


def test_a_record_applied_twice_counts_once(tmp_path, maker):
    """`finish` catches up by itself; what the runner hands over late is known."""
    maker.write([*opening(), *finished_unit(0)])
    views = Views(tmp_path / "run", maker.reader())
    for _ in range(2):
        for record in recorded(maker.reader()):
            views.apply(record)
    views.finish()
    assert indexes(files(tmp_path / "run")["batch_1.jsonl"]) == [0]
    assert why(maker.reader(), tmp_path / "run") == {}


def test_refresh_rests_four_hundred_times_as_long_as_it_worked(tmp_path, maker):
    """Work that took some seconds comes again after 400 times as many for each of four duties, not before."""
    maker.write(opening())
    views = open_views(tmp_path / "run", maker.reader())
    times = iter(range(10_000))
    views.refresh(lambda: next(times))
    written = (tmp_path / "run" / "checkpoint.json").stat().st_ino
    views.apply(Recorded(4, 1, 1, begun(name_of(0))))
    late = iter([20] * 10)
    views.refresh(lambda: next(late))
    assert (tmp_path / "run" / "checkpoint.json").stat().st_ino == written


def test_a_batch_file_altered_while_the_run_goes_on_is_made_anew(tmp_path, maker):
    """The log is the truth: nothing foreign gets from a view into trajectories.jsonl."""
    maker.write([*opening(), *finished_unit(0), *finished_unit(1, discarded), *finished_unit(2)])
    place = tmp_path / "run"
    views = open_views(place, maker.reader())
    (place / "batch_1.jsonl").write_bytes(b'{"forged": true}\n')
    (place / "discarded.jsonl").write_bytes(b"")
    (place / "batch_2.jsonl").unlink()
    views.finish()
    assert files(place) == rebuilt(maker.reader(), tmp_path / "out")


def test_a_view_that_cannot_be_written_is_put_right_later(tmp_path, maker):
    """An error of the disk stops nothing while the run goes on; `finish` raises it if it is still there."""
    maker.write([*opening(), *finished_unit(0)])
    place = tmp_path / "run"
    views = open_views(place, maker.reader())
    (place / "batch_2.jsonl").mkdir()
    maker.write(finished_unit(2))
    reader = maker.reader()
    follow(views, reader)
    views.refresh(Ticking())
    assert views.problem is not None
    with pytest.raises(OSError, match="batch_2"):
        views.finish()
    (place / "batch_2.jsonl").rmdir()
    views.finish()
    assert views.problem is None
    assert files(place) == rebuilt(reader, tmp_path / "out")


def test_a_checkpoint_names_the_chain_that_it_stands_for(tmp_path, maker):
    """Sequence and chain can be given to `evrun verify --anchor`; finished prompts stand as planned."""
    maker.write([*opening(), *finished_unit(2), *finished_unit(0, failed)])
    reader = maker.reader()
    found = json.loads(rebuilt(reader, tmp_path / "out")["checkpoint.json"])
    assert found["sequence"] == found["chain_sequence"] == reader.end.sequence
    assert found["chain"] == reader.end.chain.hex()
    assert [(one["batch"], one["outcome"]) for one in found["completed"]] == [(1, "failed"), (2, "kept")]
    assert found["completed"][0]["prompt_id"] == name_of(0).removeprefix("prompt:").removesuffix(".1")
    assert found["counts"]["pending"] == 4


def test_a_moment_inside_a_commit_has_the_chain_of_the_commit_before(tmp_path, maker):
    """`--to` may name any sequence; a chain is only there where a commit ends."""
    maker.write([*opening(), *finished_unit(0)])
    reader = maker.reader()
    found = json.loads(rebuilt(reader, tmp_path / "out", 6)["checkpoint.json"])
    assert (found["sequence"], found["chain_sequence"]) == (6, 5)
    assert found["chain"] == reader.chain_at(5).hex()
    assert documents.chain_for(reader, 2) == (0, reader.chain_at(0))


def test_view_files_are_private(tmp_path, maker):
    """Mode 0600 for every file whatever the umask says, and 0700 for a directory that was made."""
    maker.write([*opening(), *finished_unit(0), *finished_unit(1, discarded)])
    before = os.umask(0)
    try:
        rebuild(maker.reader(), tmp_path / "out")
        views = open_views(tmp_path / "run", maker.reader())
        views.finish()
    finally:
        os.umask(before)
    for place in (tmp_path / "out", tmp_path / "run"):
        modes = {stat.S_IMODE(entry.stat().st_mode) for entry in place.iterdir() if entry.is_file()}
        assert modes == {0o600}
    assert stat.S_IMODE((tmp_path / "out").stat().st_mode) == 0o700


def test_spools_of_killed_processes_are_swept(tmp_path, maker):
    """What a kill -9 in the middle of a rebuild left is gone after the next one."""
    maker.write([*opening(), *finished_unit(0)])
    left = tmp_path / "out" / ".rows-killed"
    left.mkdir(parents=True)
    (left / "batch_1.jsonl").write_bytes(b"half")
    rebuild(maker.reader(), tmp_path / "out")
    assert not left.exists()


def test_an_empty_run_has_its_views_too(tmp_path, maker):
    """Nothing planned, nothing finished: the files are there and say so."""
    maker.write([[SessionOpened(1, 1, "h", "0"), started()]])
    rebuild(maker.reader(), tmp_path / "out")
    assert files(tmp_path / "out").keys() == {"checkpoint.json", "statistics.json", "trajectories.jsonl"}
    assert why(maker.reader(), tmp_path / "out") == {}


def test_many_rows_pass_through_a_bounded_buffer(tmp_path, maker, monkeypatch):
    """With a buffer of a few bytes the files are the same as with a large one."""
    maker.write(History(Random(5)).run(200))
    expected = rebuilt(maker.reader(), tmp_path / "large")
    monkeypatch.setattr("projections.materialize.row_files._BUFFER_BYTES", 10)
    assert rebuilt(maker.reader(), tmp_path / "small") == expected
    assert why(maker.reader(), tmp_path / "small") == {}


def test_folding_up_to_a_sequence_is_folding_a_shorter_log(tmp_path, maker):
    """`--to` shows the past as it was."""
    commits = History(Random(3)).run(60)
    maker.write(commits[:30])
    then = maker.reader().end.sequence
    one = rebuilt(maker.reader(), tmp_path / "one")
    maker.write(commits[30:])
    assert rebuilt(maker.reader(), tmp_path / "two", then) == one
    assert fold_log(maker.reader(), then).sequence == then
