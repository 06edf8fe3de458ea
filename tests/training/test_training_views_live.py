"""The views of a training run that goes on: kept up with what becomes durable."""

import json
import shutil

import pytest

from eventlog.events import (
    EvaluationFinished,
    RolloutJudged,
    RolloutStarted,
    SettingsChanged,
    StepCommitted,
)
from projections import open_training_views, recorded
from tests.projections.histories import LogMaker, reserve, spent
from tests.projections.training_events import TrainingRun, rolled_out, trained
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


def test_what_is_settled_between_the_material_and_the_learner_s_call_is_in_both(maker, directory, tmp_path):
    """The material is written again when the account of its rollouts moved before the call was recorded."""
    following, run = Following(maker, directory), TrainingRun().begin()
    run.start_epoch("a", "b")
    run.start_step("a", "b")
    run.add(reserve("late", run.unit("a")))
    run.rollout("a")
    run.rollout("b")
    following.write(run.commits)
    following.views.write_material(following.views.state.training.current)
    begun = len(run.commits)
    run.add(spent("late", 7))
    run.learn()
    run.commit()
    following.write(run.commits[begun:])
    following.views.write_step()
    (line,) = lines(directory / "learning_material" / "index.jsonl")
    assert line["cost_usd"] == lines(directory / "steps.jsonl")[0]["rollout"]["cost_usd"] == "0.000000007"
    assert tree(directory) == rebuilt(maker.reader(), tmp_path / "again")


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
