"""`evrun import hermit`: what Hermit recorded of a run is what our run says, to the last commit and cent."""

import json
import shutil
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

import evrun
from eventlog.events import BudgetReserved, BudgetSpent, EpochStarted, RolloutFinished, StepCommitted
from evrun.effects.git import Tree
from evrun.hermit import HermitImported

from .hermit_toy import HermitToy

RUNS = ["begun", "capped", "finished", "killed", "repaired", "stuck"]


@pytest.fixture(scope="module")
def toy(tmp_path_factory: pytest.TempPathFactory) -> HermitToy:
    """Hermit's runs as they were left; nobody changes them."""
    return HermitToy(tmp_path_factory.mktemp("hermit"))


@pytest.fixture(scope="module")
def runs(toy: HermitToy) -> dict[str, HermitImported]:
    """All of them, imported."""
    return {run: toy.imported(run) for run in RUNS}


def opened(made: HermitImported) -> evrun.TrainingRun:
    """A run that was made, as Python reads it."""
    run = evrun.open_run(made.directory)
    assert isinstance(run, evrun.TrainingRun)
    return run


@pytest.mark.parametrize("run", RUNS)
def test_every_step_says_what_it_said(toy, runs, run):
    """Numbers, tasks, statuses, sessions, commits, checks and repairs are Hermit's; views are made."""
    assert len(toy.steps(run)) == len(toy.told(run)) > 0
    for ours, theirs in zip(toy.steps(run), toy.told(run), strict=True):
        for key in ("step", "epoch", "tasks", "session", "parent", "commits", "commit", "changed"):
            assert ours[key] == (theirs[key] or ours[key] if key == "session" else theirs[key]), key
        assert ours["repaired"] == theirs["repaired"]
        assert ours["evolver"]["summary"] == theirs["evolver"]["summary"]
        assert ours["evolver"]["wall_s"] == theirs["evolver"]["wall_s"]
        assert ours["time"][:19] == theirs["time"]
        assert ours["budget_after"]["seconds"] == theirs["budget_after"]["seconds"]


@pytest.mark.parametrize("run", ["finished", "killed", "repaired", "stuck", "begun"])
def test_scores_are_those_that_were_given(toy, runs, run):
    """Where nothing failed every score and every mean is Hermit's."""
    for ours, theirs in zip(toy.steps(run), toy.told(run), strict=True):
        assert ours["rollout"]["scores"] == theirs["rollout"]["scores"]
        assert ours["rollout"]["mean_score"] == theirs["rollout"]["mean_score"]


def test_a_failure_is_no_score(toy, runs):
    """An agent and a judge that failed count 0.0 in Hermit; here they are missing, and the import says so."""
    second = toy.steps("capped")[1]
    assert second["rollout"]["scores"] == {"quarry": None, "willow": None}
    assert (second["rollout"]["mean_score"], second["rollout"]["coverage"]) == (None, 0.0)
    assert any("step 2: 2 of its tasks failed" in note for note in runs["capped"].notes)
    material = toy.output / "capped/learning_material/step_0002/tasks"
    quarry, willow = (json.loads((material / f"{name}.json").read_text()) for name in ("quarry", "willow"))
    assert (quarry["status"], quarry["error"]) == ("error", "RuntimeError: the quarry is closed")
    assert (willow["status"], willow["output"]) == ("judge_error", "WILLOW BANK")


@pytest.mark.parametrize("run", RUNS)
def test_the_account_is_that_of_hermit_without_its_rounding(toy, runs, run):
    """Each step's sum is the decimal that Hermit's floating point stands for, by part, also in between."""
    for ours, theirs in zip(toy.steps(run), toy.told(run), strict=True):
        spent = theirs["budget_after"]["usd"]
        by_role = ours["budget_after"]["by_role"]
        for part, role in (("rollout", "rollout"), ("evolver", "learner")):
            wanted = Decimal(repr(spent[part])).quantize(Decimal("1e-9"))
            assert Decimal(by_role.get(role, "0")) == wanted
        assert ours["budget_after"]["tokens"] == sum(theirs["budget_after"]["tokens"].values())


def test_money_of_a_step_that_was_thrown_away_is_not_forgotten(toy, runs):
    """A cap cut step 3 short: its two rollouts were paid, and no line tells of them."""
    spending = json.loads((toy.runs / "capped/summary.json").read_text())["spending"]["usd"]
    assert Decimal(opened(runs["capped"]).audit()["settled_usd"]) == Decimal("0.60")
    assert round(spending["rollout"] + spending["evolver"], 9) == 0.6
    assert toy.steps("capped")[-1]["budget_after"]["usd"] == "0.40"


@pytest.mark.parametrize("run", RUNS)
def test_every_booking_says_where_it_comes_from(runs, run):
    """Amounts are marked as imported, and every check of the audit holds."""
    made = opened(runs[run])
    assert {event.bound_by for _, _, _, event in made.events(BudgetReserved)} == {"imported"}
    prices = {event.price for _, _, _, event in made.events(BudgetSpent) if event.cost_nano_usd is not None}
    assert prices == {"imported"}
    assert [check for check in made.audit()["checks"] if not check["ok"]] == []


@pytest.mark.parametrize("run", RUNS)
def test_branch_tags_and_commits_are_kept_as_they_are(toy, runs, run):
    """The same names stand at the same hashes, and every object that they rest on is in our tree too."""
    ours = Path(runs[run].state.batch.settings["trainer.tree_dir"])
    with Tree.open(toy.runs / "trees/prompt-only") as theirs, Tree.open(ours) as mine:
        names = [name for name in theirs.refs() if f"/{run}/" in f"{name}/" or name == "refs/tags/root"]
        assert len(names) > 1
        for name in names:
            assert mine.ref(name) == theirs.ref(name), name
            assert mine.history(mine.ref(name) or "") == theirs.history(theirs.ref(name) or "")


@pytest.mark.parametrize("run", RUNS)
def test_views_and_tree_come_back_from_the_log_alone(toy, runs, run, tmp_path):
    """Everything but the log is deleted, Hermit's tree cannot help: the same hashes and files come out."""
    made = opened(runs[run])
    assert [file for file in made.check() if not file.same] == []
    copy = tmp_path / run
    shutil.copytree(made.directory, copy)
    for path in copy.iterdir():
        if path.name not in {"log", "run.yaml", "template"}:
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    tree = Path(made.state().batch.settings["trainer.tree_dir"])
    aside = tree.rename(tree.with_suffix(".aside"))
    try:
        evrun.open_run(copy).replay()
        assert [file for file in evrun.open_run(copy).check() if not file.same] == []
        with Tree.open(aside) as before, Tree.open(tree) as after:
            assert after.refs().items() <= before.refs().items()
            assert f"refs/heads/{run}" in after.refs()
    finally:
        shutil.rmtree(tree)
        aside.rename(tree)


def test_a_commit_that_did_not_pass_and_its_repair_are_both_there(toy, runs):
    """Both commits are named; the check, what was put back, and the next step's feedback too."""
    first = toy.steps("repaired")[0]
    assert len(first["commits"]) == 2
    assert (first["check"]["passed"], first["check"]["issues"][0]["path"]) == (False, "EXTRA.md")
    feedback = toy.output / "repaired/learning_material/step_0002/check_feedback.json"
    assert json.loads(feedback.read_text()) == first["repaired"] == toy.told("repaired")[0]["repaired"]


def test_a_bootstrap_is_step_0_and_strange_statuses_are_told(toy, runs):
    """A learner that failed kept the adapter; a status that is none counted as done, and is noted."""
    steps = toy.steps("begun")
    assert [(step["step"], step["status"]) for step in steps] == [
        (0, "done"), (1, "failed"), (2, "done"), (3, "done"), (4, "done"),
    ]  # fmt: skip
    assert steps[0]["bootstrap"] is True
    notes = {event.step: event.note for _, _, _, event in opened(runs["begun"]).events(StepCommitted)}
    assert notes[2] == "the learner said 'puzzled', which Hermit took for done"
    assert notes[0] is notes[1] is notes[3] is None
    result = json.loads((toy.output / "begun/step_0003/step_result.json").read_text())
    assert result["extra"] == {"looked": 3}


def test_the_learner_s_rollouts_are_its_spending(toy, runs):
    """What `run_agent` cost in Hermit is in no usage; the account knows it, and so does ours."""
    learner = [step["budget_after"]["by_role"]["learner"] for step in toy.steps("begun") if step["step"]]
    assert learner == ["0.10", "0.20", "0.30", "0.40"]


def test_state_output_trajectories_and_answers_are_taken_along(toy, runs):
    """The learner's files of each step, the agent's log, its messages, the judge's words."""
    ours, theirs = toy.output / "finished", toy.runs / "finished"
    for name in ("state/calls.txt", "output/report.md"):
        assert (ours / "step_0003" / name).read_bytes() == (theirs / "step_0003" / name).read_bytes()
    log = "learning_material/step_0001/trajectories/harbour/harbour.log"
    assert (ours / log).read_bytes() == (theirs / log).read_bytes()
    told, was = (
        json.loads((place / "learning_material/step_0001/tasks/harbour.json").read_text())
        for place in (ours, theirs)
    )
    for key in ("id", "input", "status", "output", "judge", "messages", "wall_s", "tokens"):
        assert told[key] == was[key], key
    assert told["cost_usd"] == "0.10"


def test_evaluations_are_taken_along(toy, runs):
    """Both of them, with their scores and cost; they are in the account, as ours would be."""
    none, final = opened(runs["finished"]).evaluations()
    assert (none["adapter"], none["mean_score"], none["commit"]) == ("none", 0.0, None)
    assert (final["adapter"], final["mean_score"]) == ("final", 1.0)
    was = json.loads((toy.runs / "finished/eval/final/summary.json").read_text())
    assert final["commit"] == was["commit"]
    assert final["cost_usd"] == "0.10"
    assert opened(runs["finished"]).audit()["settled_usd"] == "0.80"


def test_the_final_adapter_is_the_one_that_was_tagged(toy, runs):
    """Card and summary of a finished run, with what the learner said of the whole."""
    summary = opened(runs["finished"]).summary()
    was = json.loads((toy.runs / "finished/summary.json").read_text())
    assert summary is not None
    for key in ("run", "stop_reason", "final_tag", "branch", "steps", "bootstrap", "finalize"):
        assert summary[key] == was[key], key
    assert sorted(summary["checkpoints"]) == was["checkpoints"]
    assert b"| final | 1 | 1 | 1.000 |" in opened(runs["finished"]).adapter()["CARD.md"]


@pytest.mark.parametrize(
    ("run", "state"),
    [("finished", "done"), ("begun", "done"), ("capped", "paused"), ("killed", "interrupted")],
)
def test_how_it_ended_decides_whether_it_goes_on(runs, run, state):
    """A cap is a stop, not an end; a run that was killed was interrupted; both say so."""
    status = opened(runs[run]).status()
    assert status["state"] == state
    assert (runs[run].reason is None) == (state == "done")


def test_epochs_are_the_seed_s_and_go_on_in_their_order(toy, runs):
    """The order of the epoch that was open is recorded whole: the steps to come are those that were due."""
    killed = {event.epoch: event.tasks for _, _, _, event in opened(runs["killed"]).events(EpochStarted)}
    taken = [task for step in toy.told("killed") if step["epoch"] == 2 for task in step["tasks"]]
    assert killed[2][:2] == taken
    assert sorted(killed[2]) == ["harbour", "meadow", "quarry", "willow"]


def test_rollouts_of_a_step_that_was_cut_short_are_kept(toy, runs):
    """The learner was at work when Hermit was killed: what its rollouts cost is not lost."""
    training = runs["stuck"].state.training
    assert training.current is not None
    assert (training.current.step, training.current.tasks) == (2, ["quarry", "willow"])
    assert [one.event.status for one in opened(runs["stuck"]).events(RolloutFinished)] == ["ok"] * 4


def test_hermit_s_files_are_not_touched(tmp_path):
    """Neither its runs nor its tree; not a byte."""
    toy = HermitToy(tmp_path)
    before = toy.digests()
    for run in RUNS:
        toy.imported(run)
    assert toy.digests() == before


def test_another_name_has_a_branch_of_its_own(tmp_path):
    """The commits are the same, the names those of the new run; two of one tree share their root."""
    toy = HermitToy(tmp_path)
    first, second = toy.imported("finished", run_name="one"), toy.imported("killed", run_name="two")
    assert first.state.batch.settings["trainer.tree_dir"] == second.state.batch.settings["trainer.tree_dir"]
    with Tree.open(Path(first.state.batch.settings["trainer.tree_dir"])) as tree:
        assert {"refs/heads/one", "refs/heads/two", "refs/tags/one/final"} <= tree.refs().keys()
        assert not any("finished" in name for name in tree.refs())


def test_the_configuration_is_translated(runs, toy):
    """Paths are whole, the learner is its file and class, the template a directory with its files."""
    settings: dict[str, Any] = runs["repaired"].state.batch.settings
    assert settings["data.tasks"] == str(toy.directory / "tasks.jsonl")
    assert settings["agent.name"] == f"{toy.directory / 'toy.py'}:run"
    assert settings["evolver.name"] == f"{toy.directory / 'learner/learner.py'}:Copyist"
    assert (settings["evolver.resume"], settings["evolver.params"]) == (True, {"spoil": True})
    assert settings["trainer.budget.usd"] == 5.0
    template = Path(settings["template"])
    assert (template / "EVOLVER.md").read_bytes() == (toy.runs / "trees/prompt-only/EVOLVER.md").read_bytes()
