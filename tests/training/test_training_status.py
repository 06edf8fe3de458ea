"""`evrun status`, `list` and `events` of training runs: between two steps, in one, after the end."""

import json
import shutil

import pytest

from eventlog.events import BudgetChanged, RolloutStarted, SessionClosed, SessionOpened, SettingsChanged
from tests.cli.shell import evrun
from tests.projections.histories import LogMaker, reserve, spent
from tests.projections.training_events import TrainingRun, rolled_out, trained


@pytest.fixture
def written(tmp_path):
    """Writes a run's events into ``runs/r``."""

    def write(run):
        with LogMaker(tmp_path / "runs" / "r" / "log") as maker:
            maker.write(run.commits)

    return write


def in_its_first_step():
    """A run whose first of two rollouts has been judged, and the second paid for."""
    run = TrainingRun().begin()
    run.add(BudgetChanged({}, {"usd": 10**9, "step_usd": 10**6, "role_usd.rollout": 1000}))
    run.start_epoch(*"abcde")
    run.start_step("a", "b")
    run.rollout("a", 1.0)
    run.add(RolloutStarted(run.unit("b"), 1, "b", "c0"), reserve("c1", run.unit("b"), bound=100))
    run.add(spent("c1", 70))
    return run


def test_status_says_what_is_running_between_two_lines_of_steps_jsonl(written, tmp_path):
    """The open step, what it is at, and what it cost so far; the attempt that is open, and since when."""
    written(in_its_first_step())
    report = evrun("status", "runs/r", "--json", cwd=tmp_path).json
    assert report["counts"] == {
        "steps": 0, "steps_total": 6, "rollouts_ok": 1, "rollouts_error": 0, "open": 1,
    }  # fmt: skip
    step = report["step"]
    assert (step["step"], step["epoch"], step["doing"]) == (1, 1, "rollouts")
    assert (step["tasks"], step["scored"], step["failed"], step["settled_usd"]) == (2, 1, 0, "0.00000007")
    (attempt,) = report["open"]
    assert (attempt["unit"], attempt["attempt"], attempt["settled_usd"]) == ("step:1/task:b", 1, "0.00000007")
    assert report["state"] == "interrupted"
    said = evrun("status", "runs/r", cwd=tmp_path)
    assert "0 of 6 committed" in said.out
    assert "1 of 2 tasks have a score; 0.00000007 USD" in said.out


def test_status_tells_when_the_learner_is_at_work(written, tmp_path):
    """Rollouts over, learner called: the terminal need not be watched to know."""
    run = TrainingRun().begin()
    run.start_epoch("a")
    run.start_step("a")
    run.rollout("a")
    run.start_learner()
    written(run)
    report = evrun("status", "runs/r", "--json", cwd=tmp_path).json
    assert report["step"]["doing"] == "learner"
    assert [attempt["unit"] for attempt in report["open"]] == ["step:1/learner"]


def test_a_finished_run_is_done_and_says_with_3_that_scores_are_missing(written, tmp_path):
    """Exit code 0 is for runs whose every task has a score."""
    written(trained())
    assert evrun("status", "runs/r", "--json", cwd=tmp_path).json["exit_code"] == 0
    shutil.rmtree(tmp_path / "runs")
    run = TrainingRun(**{"trainer.epochs": 1}).begin()
    run.start_epoch("a", "b")
    run.start_step("a", "b")
    run.rollout("a", 1.0)
    run.rollout("b", status="error")
    run.learn()
    run.commit()
    run.finish()
    run.close()
    written(run)
    report = evrun("status", "runs/r", "--json", cwd=tmp_path).json
    assert (report["state"], report["exit_code"], report["step"]) == ("done", 3, None)
    assert report["counts"] == {
        "steps": 1, "steps_total": 1, "rollouts_ok": 1, "rollouts_error": 1, "open": 0,
    }  # fmt: skip


def test_a_run_that_a_cap_stopped_is_paused(written, tmp_path):
    """It has a final adapter, and it is not done."""
    run = TrainingRun().begin()
    run.start_epoch(*"abcd")
    run.whole_step("a", "b")
    run.finish(reason="hard budget: usd")
    run.add(SessionClosed(1, "paused", "the cap usd is used up", 5))
    written(run)
    report = evrun("status", "runs/r", "--json", cwd=tmp_path).json
    assert (report["state"], report["exit_code"], report["reason"]) == ("paused", 4, "the cap usd is used up")
    assert (report["counts"]["steps"], report["counts"]["steps_total"]) == (1, 4)


def test_how_many_steps_there_are_is_unknown_before_the_first_epoch(written, tmp_path):
    """Null, and not 0."""
    written(TrainingRun().begin())
    assert evrun("status", "runs/r", "--json", cwd=tmp_path).json["counts"]["steps_total"] is None
    assert "0 of an unknown number committed" in evrun("status", "runs/r", cwd=tmp_path).out
    assert "unknown" in evrun("list", "--output-dir", "runs", cwd=tmp_path).out


def test_steps_of_another_size_count_as_they_were(written, tmp_path):
    """A step size that was changed on the way changes what is to come, and nothing that was."""
    run = TrainingRun().begin()
    run.start_epoch(*"abcdef")
    run.whole_step("a", "b", "c", "d")
    run.add(SettingsChanged({"data.step_size": (4, 1)}, None))
    written(run)
    counts = evrun("status", "runs/r", "--json", cwd=tmp_path).json["counts"]
    assert (counts["steps"], counts["steps_total"]) == (1, 1 + 2 + 6)


def test_an_evaluation_that_is_going_on_is_shown(written, tmp_path):
    """How many of its attempts have ended, of how many."""
    run = trained()
    run.start_evaluation(2, "x", "y", repeats=3)
    run.evaluate(2, "x", 1.0)
    written(run)
    report = evrun("status", "runs/r", "--json", cwd=tmp_path).json
    (one,) = report["evaluations"]
    assert (one["evaluation"], one["adapter"], one["ended"], one["attempts"]) == (2, "final", 1, 6)
    assert "2 of final: 1 of 6 attempts have ended" in evrun("status", "runs/r", cwd=tmp_path).out


def test_list_shows_training_runs_among_others(written, tmp_path):
    """Their state, what failed, and the steps that are left."""
    run = in_its_first_step()
    run.add(SessionOpened(2, 7, "h", "0"), *rolled_out(run.unit("b"), 1, "b", "timeout"))
    written(run)
    (entry,) = evrun("list", "--output-dir", "runs", "--json", cwd=tmp_path).json["runs"]
    assert (entry["kind"], entry["state"], entry["counts"]["rollouts_error"]) == (
        "training",
        "interrupted",
        1,
    )
    row = next(
        line
        for line in evrun("list", "--output-dir", "runs", cwd=tmp_path).out.splitlines()
        if line[:2] == "r "
    )
    assert "6 steps" in row


def test_events_are_shown_with_digests_in_hex(written, tmp_path):
    """Contents and files by digest, units by name; every type can be asked for."""
    run = trained()
    written(run)
    said = evrun("events", "runs/r", "--type", "StepStarted", "--json", cwd=tmp_path).out.splitlines()
    events = [json.loads(line) for line in said]
    assert [event["data"]["tasks"] for event in events] == [["a", "b"], ["c", "d"]]
    assert all(len(digest) == 64 for event in events for digest in event["data"]["rows"])
    said = evrun("events", "runs/r", "--type", "StepCommitted", "--json", cwd=tmp_path).out.splitlines()
    files = json.loads(said[0])["data"]["commits"][-1]["files"]
    assert {len(one["digest"]) for one in files} == {64}
    said = evrun("events", "runs/r", "--unit", "step:2/learner", "--json", cwd=tmp_path).out.splitlines()
    assert [json.loads(line)["type"] for line in said] == ["EvolverStarted", "EvolverReturned"]


def test_a_training_run_s_log_is_verified_like_any_other(written, tmp_path):
    """The log does not care what its events mean."""
    written(trained())
    said = evrun("verify", "runs/r", "--json", cwd=tmp_path)
    assert (said.code, said.json["class"]) == (0, "clean")
