"""The views of training runs on disk: put right, made again, compared with the log."""

import shutil

import pytest

from eventlog.events import (
    HistoryStored,
    SessionOpened,
)
from projections import fold_log, open_training_views, rebuild_training
from tests.projections.histories import LogMaker
from tests.projections.training_events import TrainingRun, trained
from tests.projections.training_views import rebuilt, tree, why


@pytest.fixture
def maker(tmp_path):
    """A log to write into."""
    with LogMaker(tmp_path / "run" / "log") as made:
        yield made


@pytest.fixture
def directory(tmp_path):
    """The run's directory."""
    return tmp_path / "run"


def test_half_a_last_line_is_completed_when_the_run_goes_on(maker, directory):
    """A crash in the middle of a line of steps.jsonl harms nobody: the line is there at the next start."""
    maker.write(trained().commits)
    rebuild_training(maker.reader(), directory)
    whole = (directory / "steps.jsonl").read_bytes()
    inode = (directory / "steps.jsonl").stat().st_ino
    (directory / "steps.jsonl").write_bytes(whole[:-40])
    assert why(maker.reader(), directory) == {"steps.jsonl": "behind"}
    open_training_views(directory, maker.reader())
    assert (directory / "steps.jsonl").read_bytes() == whole
    assert (directory / "steps.jsonl").stat().st_ino == inode, "whoever follows the file sees the rest of it"


@pytest.mark.parametrize("altered", [b'{"step":9}\n', b"", b"\0" * 300])
def test_steps_that_were_altered_are_written_anew(maker, directory, altered):
    """The log knows better than the file."""
    maker.write(trained().commits)
    rebuild_training(maker.reader(), directory)
    whole = (directory / "steps.jsonl").read_bytes()
    (directory / "steps.jsonl").write_bytes(altered)
    open_training_views(directory, maker.reader())
    assert (directory / "steps.jsonl").read_bytes() == whole


def test_directories_of_steps_that_the_log_does_not_have_go(maker, directory):
    """What a lost step left is no record: opening removes it, and a check names it."""
    maker.write(trained().commits)
    rebuild_training(maker.reader(), directory)
    whole = tree(directory)
    for place in (directory, directory / "learning_material"):
        (place / "step_0009").mkdir()
        (place / ".tree-left").mkdir()
        (place / "step_0009" / "x").write_text("x")
    (directory / "eval" / "final" / "summary-7.json").write_text("{}")
    (directory / "notes.txt").write_text("mine")
    differing = {"step_0009", "learning_material/step_0009", "eval/final/summary-7.json"}
    assert why(maker.reader(), directory) == dict.fromkeys(differing, "differs")
    open_training_views(directory, maker.reader())
    assert tree(directory) == whole | {"notes.txt": (b"mine", False)}


@pytest.mark.parametrize(
    "lost",
    [
        "checkout", "steps.jsonl", "step_0001", "learning_material", "learning_material/step_0002", "eval",
        "summary.json", "config.yaml", "learning_material/current", "checkout/CARD.md",
    ],
)  # fmt: skip
def test_whatever_view_is_deleted_comes_back(maker, directory, lost):
    """Views can be deleted at will: opening the run makes them again."""
    maker.write(trained().commits)
    rebuild_training(maker.reader(), directory)
    whole, path = tree(directory), directory / lost
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink()
    assert set(why(maker.reader(), directory).values()) == {"missing"}
    open_training_views(directory, maker.reader())
    assert tree(directory) == whole


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("step_0001/output/report.md", "step_0001/output/report.md"),
        ("learning_material/step_0002/tasks/c.json", "learning_material/step_0002/tasks/c.json"),
        ("learning_material/step_0002/trajectories/c/log.txt",) * 2,
        ("checkout/ADAPTER.md",) * 2,
        ("checkout/CARD.md",) * 2,
        ("config.yaml",) * 2,
        ("summary.json",) * 2,
        ("eval/final/summary.json",) * 2,
        ("eval/final/results.jsonl",) * 2,
    ],
)
def test_a_view_that_was_altered_differs_and_replay_makes_it_again(maker, directory, name, found):
    """Every file is compared, down to the last one of a step; a changed one is never taken for late."""
    maker.write(trained().commits)
    rebuild_training(maker.reader(), directory)
    whole = tree(directory)
    path = directory / name
    path.write_bytes(path.read_bytes().replace(b"e", b"E"))
    assert why(maker.reader(), directory) == {found: "differs"}
    rebuild_training(maker.reader(), directory)
    assert tree(directory) == whole


def test_a_file_that_may_be_run_may_be_run_in_the_checkout(maker, directory):
    """The adapter's files come out of the log as they went in, the right to run them too."""
    maker.write(trained().commits)
    rebuild_training(maker.reader(), directory)
    assert tree(directory)["checkout/bin/look"] == (b"#!/bin/sh\n", True)
    (directory / "checkout" / "bin" / "look").chmod(0o600)
    assert why(maker.reader(), directory) == {"checkout/bin/look": "differs"}
    open_training_views(directory, maker.reader())
    assert tree(directory)["checkout/bin/look"] == (b"#!/bin/sh\n", True)


def test_links_are_never_followed(maker, directory, tmp_path):
    """A link where a view ought to be is replaced; what it points to stays as it is."""
    maker.write(trained().commits)
    rebuild_training(maker.reader(), directory)
    whole, outside = tree(directory), tmp_path / "outside"
    outside.mkdir()
    (outside / "ADAPTER.md").write_text("mine")
    shutil.rmtree(directory / "checkout")
    (directory / "checkout").symlink_to(outside)
    (directory / "step_0001" / "state").rename(tmp_path / "state")
    (directory / "step_0001" / "state").symlink_to(outside)
    (directory / "steps.jsonl").unlink()
    (directory / "steps.jsonl").symlink_to(outside / "ADAPTER.md")
    rebuild_training(maker.reader(), directory)
    assert tree(directory) == whole
    assert tree(outside) == {"ADAPTER.md": (b"mine", False)}


def test_a_run_as_it_was_at_any_event_is_made_and_is_itself(maker, tmp_path):
    """Every prefix of a log has its views; those of an earlier moment are late, which is no damage."""
    maker.write(trained(3).commits)
    reader = maker.reader()
    for sequence in range(0, reader.end.sequence, 5):
        place = tmp_path / f"at-{sequence}"
        rebuild_training(reader, place, sequence)
        assert why(reader, place, sequence) == {}
        assert set(why(reader, place).values()) <= {"missing", "behind"}
        rebuild_training(reader, place)
        assert why(reader, place) == {}


def test_a_later_moment_s_views_are_taken_back(maker, tmp_path):
    """Replay to an earlier event leaves nothing of what came after it."""
    maker.write(trained(3).commits)
    reader, place = maker.reader(), tmp_path / "place"
    rebuild_training(reader, place)
    rebuild_training(reader, place, 60)
    assert tree(place) == rebuilt(reader, tmp_path / "fresh", 60)


def test_what_stands_beside_a_log_without_a_run_is_left_alone(maker, directory):
    """A refused start removes nothing of somebody else's results."""
    maker.write([[SessionOpened(1, 1, "h", "0")]])
    (directory / "step_0001").mkdir()
    (directory / "summary.json").write_text("{}")
    there = tree(directory)
    open_training_views(directory, maker.reader())
    assert tree(directory) == there


def test_history_that_is_not_complete_has_no_checkout(maker, directory, tmp_path):
    """A crash in the middle of the first commits leaves a run whose adapter nobody knows yet."""
    run = TrainingRun().begin()
    first = [event for event in run.commits[0] if not isinstance(event, HistoryStored)]
    maker.write([[*first, HistoryStored("c0", "c0", [], complete=False, files=[], root_files=[])]])
    views = open_training_views(directory, maker.reader())
    assert not views.state.training.history_complete
    assert not (directory / "checkout").exists()
    assert fold_log(maker.reader()).training.root == ""
    assert tree(directory) == rebuilt(maker.reader(), tmp_path / "again")
