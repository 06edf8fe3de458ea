"""Checking views: missing, behind and different are told apart, and nothing is written."""

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eventlog.events import PromptsPlanned, SettingsChanged
from projections import check, open_views, rebuild

from .histories import LogMaker, discarded, name_of, restored
from .random_history import History
from .views import files, finished_unit, opening, why

SEEDS = st.integers(0, 2**32)


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
    """The commits of a history in which nothing that is shown is ever shown otherwise.

    Each prompt's first end is its last, and once one has ended no row and no tool comes that would give all
    rows another field.
    """
    ended, found = set(), []
    for commit in commits:
        left = [event for event in commit if getattr(event, "unit", None) not in ended]
        if ended:
            left = [event for event in left if not isinstance(event, PromptsPlanned | SettingsChanged)]
        ends = ("TrajectoryCompleted", "TrajectoryDiscarded", "PromptFailed")
        ended.update(event.unit for event in left if type(event).__name__ in ends)
        if left:
            found.append(left)
    return found


@pytest.mark.parametrize("name", ["batch_1.jsonl", "batch_2.jsonl", "trajectories.jsonl"])
def test_rows_too_many_are_different(tmp_path, maker, name):
    """A row that the log does not know, at the end, is more than behind."""
    maker.write([*opening(), *finished_unit(0), *finished_unit(2)])
    reader, place = maker.reader(), tmp_path / "out"
    rebuild(reader, place)
    path = place / name
    path.write_bytes(path.read_bytes() + path.read_bytes().splitlines(keepends=True)[-1])
    assert why(reader, place) == {name: "differs"}


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


def test_rows_of_a_batch_that_has_none_are_looked_at(tmp_path, maker):
    """Rows that were there before a revision are behind; rows that never were differ."""
    maker.write([*opening(), *finished_unit(0), *finished_unit(2)])
    rebuild(maker.reader(), tmp_path / "out")
    maker.write([[restored(name_of(0), "no_reasoning")]])
    assert why(maker.reader(), tmp_path / "out")["trajectories.jsonl"] == "behind"
    place = tmp_path / "out"
    rebuild(maker.reader(), place)
    path = place / "trajectories.jsonl"
    path.write_bytes(path.read_bytes() + b'{"metadata":{"batch_num":9}}\n')
    assert why(maker.reader(), place) == {"trajectories.jsonl": "differs"}


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
