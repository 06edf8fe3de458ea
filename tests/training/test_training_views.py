"""The views of training runs: kept up with, put right, made again, compared."""

import json
import shutil

import pytest

from eventlog.events import (
    EvaluationFinished,
    HistoryStored,
    RolloutJudged,
    RolloutStarted,
    SessionOpened,
    SettingsChanged,
    StepCommitted,
)
from projections import fold_log, open_training_views, rebuild_training, recorded
from tests.projections.histories import LogMaker
from tests.projections.training_events import TrainingRun, rolled_out
from tests.projections.training_views import Following, lines, rebuilt, tree, why


@pytest.fixture
def maker(tmp_path):
    """A log to write into."""
    with LogMaker(tmp_path / "run" / "log") as made:
        yield made


@pytest.fixture
def directory(tmp_path):
    """The run's directory."""
    return tmp_path / "run"


def trained(steps=2):
    """A run of so many steps, trained to its end, and evaluated."""
    run = TrainingRun().begin()
    run.start_epoch(*"abcdef"[: 2 * steps])
    for step in range(steps):
        run.whole_step(
            *"abcdef"[2 * step : 2 * step + 2], repaired=step == 0, tags=(f"ckpt-step-{step + 1}",)
        )
    run.finish()
    run.close()
    run.start_evaluation(1, "x", "y")
    run.evaluate(1, "x", 1.0)
    run.evaluate(1, "y", None)
    run.end_evaluation(1)
    return run


def test_views_that_are_kept_up_with_are_those_made_from_the_log_alone(maker, directory, tmp_path):
    """Whatever is written while a run goes on, at whichever moments, replay makes to the byte."""
    following = Following(maker, directory)
    for number, commit in enumerate(trained(3).commits):
        following.write([commit])
        current = following.views.state.training.current
        if current is not None and len(current.rollouts) == sum(
            one.judged > 0 for one in current.rollouts.values()
        ):
            following.views.write_material(current)
        if isinstance(commit[-1], StepCommitted):
            following.views.write_step()
        if number % 7 == 0:
            following.views.begin_flush()()
    following.views.refresh(lambda: 0.0)
    assert tree(directory) == rebuilt(maker.reader(), tmp_path / "again")
    assert why(maker.reader(), directory) == {}


def test_a_step_whose_learner_was_not_called_has_its_material_too(maker, directory, tmp_path):
    """The boundary alone brings about all of a step's files."""
    following, run = Following(maker, directory), TrainingRun().begin()
    run.start_epoch("a", "b")
    run.start_step("a", "b")
    run.rollout("a", status="error")
    run.rollout("b", None)
    run.skip()
    following.write(run.commits)
    following.views.write_step()
    (line,) = lines(directory / "steps.jsonl")
    assert line["evolver"] == {
        "status": None,
        "summary": "2 of 2 tasks have no score",
        "wall_s": None,
        "usage": [],
    }
    assert line["rollout"]["mean_score"] is None
    assert line["rollout"]["errors"] == 2
    place = directory / "learning_material" / "step_0001" / "tasks"
    found = {path.stem: json.loads(path.read_bytes()) for path in place.iterdir()}
    assert (found["a"]["status"], found["a"]["error"], found["a"]["judge"]) == (
        "error",
        "Broken: it broke",
        None,
    )
    assert (found["b"]["status"], found["b"]["error"]) == ("judge_error", "the judge fell over")
    assert tree(directory) == rebuilt(maker.reader(), tmp_path / "again")


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


def test_a_line_that_somebody_added_is_found_by_the_next_step(maker, directory, tmp_path):
    """Appending goes to the end of what was written, never behind what others wrote."""
    following, run = Following(maker, directory), TrainingRun().begin()
    run.start_epoch(*"abcd")
    run.whole_step("a", "b")
    following.write(run.commits)
    following.views.write_step()
    with (directory / "steps.jsonl").open("ab") as file:
        file.write(b"mine\n")
    begun = len(run.commits)
    run.whole_step("c", "d")
    following.write(run.commits[begun:])
    following.views.write_step()
    assert tree(directory) == rebuilt(maker.reader(), tmp_path / "again")


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


def test_a_run_that_goes_on_after_a_stop_has_no_summary_until_it_ends_again(maker, directory, tmp_path):
    """A cap's summary and card were right, and are no more when another step is committed."""
    following, run = Following(maker, directory), TrainingRun().begin()
    run.start_epoch(*"abcd")
    run.whole_step("a", "b")
    run.finish(reason="hard budget: usd")
    following.write(run.commits)
    following.views.write_step()
    assert json.loads((directory / "summary.json").read_bytes())["stop_reason"] == "hard budget: usd"
    assert "hard budget: usd" in (directory / "checkout" / "CARD.md").read_text()
    begun = len(run.commits)
    run.whole_step("c", "d")
    following.write(run.commits[begun:])
    assert why(maker.reader(), directory)["summary.json"] == "behind"
    following.views.write_step()
    assert not (directory / "summary.json").exists()
    assert not (directory / "checkout" / "CARD.md").exists()
    assert tree(directory) == rebuilt(maker.reader(), tmp_path / "again")


def test_a_second_evaluation_leaves_the_first_and_the_final_adapter(maker, directory, tmp_path):
    """Both results are kept, the newest is summary.json, and `final` does not move."""
    following, run = Following(maker, directory), trained()
    following.write(run.commits)
    following.views.refresh(lambda: 0.0)
    first = tree(directory / "eval" / "final")
    summary = (directory / "summary.json").read_bytes()
    begun = len(run.commits)
    run.start_evaluation(2, "x", "y")
    run.evaluate(2, "x", 0.25)
    run.evaluate(2, "y", 0.75)
    following.write(run.commits[begun:])
    following.views.refresh(lambda: 0.0)
    assert (directory / "eval" / "final" / "summary.json").read_bytes() == first["summary.json"][0]
    following.maker.write([[EvaluationFinished(2)]])
    following.follow()
    following.views.refresh(lambda: 0.0)
    place = directory / "eval" / "final"
    results = lines(place / "results.jsonl")
    assert [(one["evaluation"], one["id"], one["judge"]["score"]) for one in results] == [
        (1, "x", 1.0), (1, "y", None), (2, "x", 0.25), (2, "y", 0.75),
    ]  # fmt: skip
    assert (place / "summary-1.json").read_bytes() == first["summary-1.json"][0]
    assert (place / "summary-2.json").read_bytes() == (place / "summary.json").read_bytes()
    assert json.loads((place / "summary.json").read_bytes())["mean_score"] == 0.5
    assert (directory / "summary.json").read_bytes() == summary
    assert "| 2 | final | 2 | 1 | 0.5 |" in (directory / "checkout" / "CARD.md").read_text()
    assert tree(directory) == rebuilt(maker.reader(), tmp_path / "again")


def test_material_that_was_written_before_the_learner_s_call_is_recorded_counts_as_right(maker, directory):
    """A kill between the two is no damage; the next session writes it again."""
    following, run = Following(maker, directory), TrainingRun().begin()
    run.start_epoch("a", "b")
    run.start_step("a", "b")
    run.rollout("a")
    run.rollout("b")
    following.write(run.commits)
    following.views.write_material(following.views.state.training.current)
    assert (directory / "learning_material" / "current").readlink().name == "step_0001"
    assert why(maker.reader(), directory) == {}
    views = following.reopen()
    assert not (directory / "learning_material" / "step_0001").exists()
    views.write_material(views.state.training.current)
    assert len(lines(directory / "learning_material" / "index.jsonl")) == 1


def test_material_is_as_the_learner_was_shown_it_whatever_comes_later(maker, directory):
    """A judgement of a rollout that the learner itself asked for changes nothing of the step's."""
    following, run = Following(maker, directory), TrainingRun().begin()
    run.start_epoch("a", "b")
    run.start_step("a", "b")
    run.rollout("a")
    run.rollout("b")
    run.start_learner()
    following.write(run.commits)
    following.views.write_material(following.views.state.training.current)
    shown = tree(directory / "learning_material")
    begun = len(run.commits)
    run.add(*_trial(run))
    run.add(RolloutJudged(_trial_unit(run), 1, 1.0, None, None, None, 1))
    run.learn()
    run.commit()
    following.write(run.commits[begun:])
    following.views.write_step()
    assert tree(directory / "learning_material") == shown
    assert why(maker.reader(), directory) == {}


def _trial_unit(run):
    return f"{run.learner}/0a1b2c/task:a.1"


def _trial(run):
    return [RolloutStarted(_trial_unit(run), 1, "a", "0a1b2c"), *rolled_out(_trial_unit(run), 1, "a")]


def test_a_disk_that_refuses_is_told_and_made_up_for(maker, directory, tmp_path):
    """A view that cannot be written stops nothing; the next time all is put right."""
    following, run = Following(maker, directory), TrainingRun().begin()
    run.start_epoch("a", "b")
    run.whole_step("a", "b")
    following.write(run.commits[:1])
    following.views.begin_flush()()
    shutil.rmtree(directory / "learning_material")
    (directory / "learning_material").write_text("in the way")
    following.write(run.commits[1:])
    following.views.write_step()
    assert isinstance(following.views.problem, OSError)
    assert not (directory / "step_0001").exists()
    (directory / "learning_material").unlink()
    following.views.finish()
    assert following.views.problem is None
    assert tree(directory) == rebuilt(maker.reader(), tmp_path / "again")


def test_a_learner_is_not_called_without_its_material(maker, directory):
    """Material that cannot be written is an error, not a note."""
    following, run = Following(maker, directory), TrainingRun().begin()
    run.start_epoch("a")
    run.start_step("a")
    run.rollout("a")
    following.write(run.commits)
    shutil.rmtree(directory / "learning_material", ignore_errors=True)
    (directory / "learning_material").write_text("in the way")
    with pytest.raises(OSError, match="learning_material"):
        following.views.write_material(following.views.state.training.current)


def test_what_stands_beside_a_log_without_a_run_is_left_alone(maker, directory):
    """A refused start removes nothing of somebody else's results."""
    maker.write([[SessionOpened(1, 1, "h", "0")]])
    (directory / "step_0001").mkdir()
    (directory / "summary.json").write_text("{}")
    there = tree(directory)
    open_training_views(directory, maker.reader())
    assert tree(directory) == there


def test_config_follows_what_is_accepted(maker, directory):
    """A change of settings is in config.yaml, whose first line names the event; before, it is behind."""
    following, run = Following(maker, directory), TrainingRun().begin()
    following.write(run.commits)
    following.views.refresh(lambda: 0.0)
    before = (directory / "config.yaml").read_text()
    changes = {"trainer.epochs": (2, 3), "input:data.tasks": ("ab" * 32, "cd" * 32)}
    following.write([[SettingsChanged(changes, None)]])
    assert why(maker.reader(), directory) == {"config.yaml": "behind"}
    following.views.refresh(lambda: 0.0)
    after = (directory / "config.yaml").read_text()
    assert "epochs: 2" in before
    assert "epochs: 3" in after
    assert "cd" * 32 in after
    assert why(maker.reader(), directory) == {}


class _Counting:
    """A log that counts how often it is asked for one event."""

    def __init__(self, reader):
        self._reader, self.asked = reader, 0

    def __getattr__(self, name):
        return getattr(self._reader, name)

    def read_one(self, sequence):
        """The event, counted."""
        self.asked += 1
        return self._reader.read_one(sequence)


def test_a_step_costs_no_more_when_many_came_before_it(maker, directory):
    """The thirtieth step asks the log for as little as the second, and rewrites no file that grows."""
    run = TrainingRun(**{"data.step_size": 2}).begin()
    run.start_epoch(*(f"t{number}" for number in range(60)))
    for step in range(30):
        run.whole_step(f"t{2 * step}", f"t{2 * step + 1}")
    maker.write(run.commits[:2])
    log = _Counting(maker.reader())
    views, costs, inodes = open_training_views(directory, log), [], set()
    for commit in run.commits[2:]:
        maker.write([commit])
        log.refresh()
        before = log.asked
        for record in recorded(log, views.state.sequence + 1):
            views.apply(record)
        if isinstance(commit[-1], StepCommitted):
            views.write_step()
            costs.append(log.asked - before)
            grown = directory / "steps.jsonl", directory / "learning_material" / "index.jsonl"
            inodes.add(tuple(path.stat().st_ino for path in grown))
    assert len(costs) == 30
    assert costs[1:] == [costs[1]] * 29
    assert len(inodes) == 1


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
