"""Views: made live, from nothing, or after a crash, they are the same bytes; and what is wrong is told."""

import json
import os
import stat
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eventlog.events import Recorded, SessionOpened, SettingsChanged
from projections import Views, check, fold_log, open_views, rebuild, recorded
from projections.materialize import documents

from .histories import (
    History,
    LogMaker,
    answered,
    begun,
    discarded,
    failed,
    kept,
    name_of,
    planned,
    reserve,
    restored,
    spent,
    started,
)

SEEDS = st.integers(0, 2**32)


@pytest.fixture
def maker(tmp_path):
    """A log to write into."""
    with LogMaker(tmp_path / "run" / "log") as made:
        yield made


def files(directory):
    """The view files of a directory and what is in them."""
    return {entry.name: entry.read_bytes() for entry in directory.iterdir() if entry.is_file()}


def rebuilt(reader, place, to_sequence=None):
    """What the views ought to be."""
    rebuild(reader, place, to_sequence)
    return files(place)


def why(reader, directory):
    """The files that are not as the log says, and why."""
    return {one.path: one.why for one in check(reader, directory) if not one.same}


class Ticking:
    """A clock for `refresh` that goes a day further at each look, so that everything is always due."""

    def __init__(self):
        self.now = 0.0

    def __call__(self):
        """The time."""
        self.now += 86_400
        return self.now


def finished_unit(index, end=kept, attempt=1):
    """The commits of one prompt from start to end, with one answered call."""
    unit, call = name_of(index), f"c{index}.{attempt}"
    return [
        [begun(unit, attempt), reserve(call, unit, attempt)],
        [spent(call), answered(call, f"answer {index}.{attempt}", "hm")],
        [end(unit, attempt)],
    ]


def opening(prompts=6):
    """The commits that begin a run."""
    return [[SessionOpened(1, 1, "host", "0"), started(), planned(prompts)]]


def follow(views, reader):
    """Apply what became durable since, as the runner does."""
    for record in recorded(reader, views.state.sequence + 1):
        views.apply(record)


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
        open_views(place, reader).finish()
        assert files(place) == expected


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


@given(SEEDS)
@settings(max_examples=12, deadline=None)
def test_views_of_an_earlier_moment_are_behind_and_never_damage(tmp_path_factory, seed):
    """`--to` gives what stood then; compared with the end it is behind, or the same, or missing."""
    place, random = tmp_path_factory.mktemp("run"), Random(seed)
    with LogMaker(place / "log") as maker:
        commits = History(random).run(60)
        without_revisions = [commit for commit in commits if not revises(commit)]
        maker.write(plain(without_revisions))
        reader = maker.reader()
        end = reader.end.sequence
        earlier = random.randrange(3, end + 1)
        rebuild(reader, place / "then", earlier)
        assert {one.why for one in check(reader, place / "then")} <= {None, "behind", "missing"}
        assert all(one.same for one in check(reader, place / "then", earlier))


def revises(commit):
    """Whether a commit changes what an ended prompt is."""
    return any(type(event).__name__ == "TrajectoryRestored" for event in commit)


def plain(commits):
    """The commits of a history without retries of ended prompts: each prompt's first end is its last."""
    ended, found = set(), []
    for commit in commits:
        left = [event for event in commit if getattr(event, "unit", None) not in ended]
        ends = ("TrajectoryCompleted", "TrajectoryDiscarded", "PromptFailed")
        ended.update(event.unit for event in left if type(event).__name__ in ends)
        if left:
            found.append(left)
    return found


def test_rows_stand_in_the_order_in_which_prompts_ended(tmp_path, maker):
    """Within a batch by their ends, and a restored row in its own place; batches in numeric order."""
    ends = [finished_unit(1), finished_unit(0, discarded), finished_unit(3), finished_unit(2)]
    maker.write([*opening(), *[commit for end in ends for commit in end], [restored(name_of(0))]])
    views = rebuilt(maker.reader(), tmp_path / "out")
    assert indexes(views["batch_1.jsonl"]) == [1, 0]
    assert indexes(views["batch_2.jsonl"]) == [3, 2]
    assert indexes(views["trajectories.jsonl"]) == [1, 0, 3, 2]
    assert "discarded.jsonl" not in views


def indexes(data):
    """The `prompt_index` of each row."""
    return [json.loads(line)["prompt_index"] for line in data.splitlines()]


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


def test_refresh_rests_a_hundred_times_as_long_as_it_worked(tmp_path, maker):
    """Work that took one second comes again after 300 seconds for each of three duties, not before."""
    maker.write(opening())
    views = open_views(tmp_path / "run", maker.reader())
    times = iter(range(10_000))
    views.refresh(lambda: next(times))
    written = (tmp_path / "run" / "checkpoint.json").stat().st_ino
    views.apply(Recorded(4, 1, 1, begun(name_of(0))))
    late = iter([20, 20, 20, 20, 20, 20])
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


def test_check_tells_missing_behind_and_different_apart(tmp_path, maker):
    """Three files, three verdicts; all others are the same, and nothing is written."""
    maker.write([*opening(), *[commit for index in range(6) for commit in finished_unit(index)]])
    reader, place = maker.reader(), tmp_path / "out"
    rebuild(reader, place)
    whole = (place / "batch_2.jsonl").read_bytes()
    (place / "batch_1.jsonl").unlink()
    (place / "batch_2.jsonl").write_bytes(whole[:-10])
    (place / "batch_3.jsonl").write_bytes(
        (place / "batch_3.jsonl").read_bytes().replace(b"answer", b"Answer")
    )
    before = files(place)
    assert why(reader, place) == {
        "batch_1.jsonl": "missing",
        "batch_2.jsonl": "behind",
        "batch_3.jsonl": "differs",
    }
    assert files(place) == before


@pytest.mark.parametrize(
    ("change", "verdict"),
    [
        (lambda data: data[: data.index(b"\n") + 1], "behind"),
        (lambda data: data[data.index(b"\n") + 1 :], "differs"),
        (lambda data: data.replace(b"answer 4", b"answer 5"), "differs"),
        (lambda data: b"".join(reversed(data.splitlines(keepends=True))), "differs"),
        (lambda data: data + data, "differs"),
        (lambda _: b"no rows\n", "differs"),
        (lambda _: b"", "behind"),
    ],
)
def test_check_looks_into_trajectories(tmp_path, maker, change, verdict):
    """Each batch's part is compared with what the log says of that batch."""
    maker.write([*opening(), *[commit for index in (0, 1, 4) for commit in finished_unit(index)]])
    reader, place = maker.reader(), tmp_path / "out"
    rebuild(reader, place)
    path = place / "trajectories.jsonl"
    path.write_bytes(change(path.read_bytes()))
    assert why(reader, place) == {"trajectories.jsonl": verdict}


def test_trajectories_of_an_earlier_moment_are_behind(tmp_path, maker):
    """Rows of several batches came since: no prefix, and yet no damage."""
    maker.write([*opening(), *finished_unit(0), *finished_unit(2)])
    rebuild(maker.reader(), tmp_path / "out")
    maker.write([*finished_unit(1), *finished_unit(3), *finished_unit(4)])
    found = why(maker.reader(), tmp_path / "out")
    assert found.pop("batch_3.jsonl") == "missing"
    assert set(found.values()) == {"behind"}
    assert set(found) == {
        "batch_1.jsonl",
        "batch_2.jsonl",
        "trajectories.jsonl",
        "checkpoint.json",
        "statistics.json",
    }


def test_views_from_before_a_revision_are_behind(tmp_path, maker):
    """A kill between the event that restores and the file that shows it is no damage."""
    maker.write([*opening(), *finished_unit(0, discarded), *finished_unit(1)])
    rebuild(maker.reader(), tmp_path / "out")
    maker.write([[restored(name_of(0))]])
    found = why(maker.reader(), tmp_path / "out")
    assert set(found.values()) == {"behind"}
    assert set(found) >= {"batch_1.jsonl", "discarded.jsonl", "trajectories.jsonl"}


def test_a_file_that_ought_not_to_be_there_differs_and_is_removed(tmp_path, maker):
    """By our names only: a batch that the run does not have is somebody else's."""
    maker.write([*opening(), *finished_unit(0)])
    reader, place = maker.reader(), tmp_path / "out"
    rebuild(reader, place)
    for name in ("failed.jsonl", "batch_3.jsonl", "batch_77.jsonl", "notes.txt"):
        (place / name).write_bytes(b"{}\n")
    assert why(reader, place) == {"failed.jsonl": "differs", "batch_3.jsonl": "differs"}
    open_views(place, reader).finish()
    left = files(place)
    assert "failed.jsonl" not in left
    assert "batch_3.jsonl" not in left
    assert {"batch_77.jsonl", "notes.txt"} <= left.keys()


def test_a_checkpoint_of_nobody_s_making_differs(tmp_path, maker):
    """One for an earlier sequence is behind; one that claims the end and is not it differs."""
    maker.write([*opening(), *finished_unit(0)])
    reader, place = maker.reader(), tmp_path / "out"
    rebuild(reader, place)
    path = place / "checkpoint.json"
    path.write_bytes(path.read_bytes().replace(b'"kept":1', b'"kept":2'))
    (place / "statistics.json").write_bytes(b"not json")
    assert why(reader, place) == {"checkpoint.json": "differs", "statistics.json": "differs"}


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
