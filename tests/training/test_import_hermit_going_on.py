"""An imported run goes on with `evrun train`, where Hermit left it: what it paid for is not paid again."""

from collections import Counter
from pathlib import Path

import pytest

import evrun
from eventlog.events import StepStarted
from evrun.effects.git import Tree

from .hermit_toy import HermitToy


@pytest.fixture
def toy(tmp_path: Path) -> HermitToy:
    """Hermit's runs, and the user's code with its import lines changed."""
    toy = HermitToy(tmp_path)
    toy.moved()
    return toy


def test_a_killed_run_goes_on_after_its_last_step(toy):
    """Hermit would run step 4 of the epoch's order; so do we: its two rollouts, its learner, nothing else."""
    toy.imported("killed")
    result = toy.go_on("killed")
    assert (result.state, result.exit_code) == ("done", 0)
    before, last = toy.told("killed"), toy.steps("killed")[-1]
    done = {task for step in before if step["epoch"] == 2 for task in step["tasks"]}
    assert (last["step"], last["epoch"], last["status"]) == (4, 2, "done")
    assert set(last["tasks"]) == {"harbour", "meadow", "quarry", "willow"} - done
    assert toy.paid() == Counter([*(f"rollout {task}" for task in last["tasks"]), "learner 4"])
    assert result.report["settled_usd"] == "1.00"
    assert last["parent"] == before[-1]["commit"]
    assert all(file.same for file in result.run.check())


def test_its_state_and_its_session_go_on_too(toy):
    """The learner finds its notes as it left them, and with `evolver.resume` the handle that it gave."""
    toy.imported("killed")
    toy.go_on("killed", evolver={"resume": True, "bound": {"usd": 0.1}}, accept_changes=True)
    calls = (toy.output / "killed/step_0004/state/calls.txt").read_text().splitlines()
    assert calls == ["setup", *(f"step {step} after None" for step in (1, 2, 3)), "step 4 after s-3"]


def test_a_run_killed_at_its_learner_pays_only_the_learner(toy):
    """The rollouts of the step were recorded: they are used, though Hermit itself would run them again."""
    toy.imported("stuck")
    result = toy.go_on("stuck")
    assert result.state == "done"
    assert toy.paid() == Counter(["learner 2"])
    assert [event.step for _, _, _, event in result.run.events(StepStarted)] == [1, 2]
    assert toy.steps("stuck")[-1]["rollout"]["scores"] == {"quarry": 1.0, "willow": 1.0}


def test_a_cap_that_was_reached_is_raised_and_the_run_goes_on(toy):
    """In Hermit a cap is the end. With the same cap nothing is paid; with a higher one it goes on."""
    toy.imported("capped")
    assert toy.go_on("capped").exit_code == 4
    assert toy.paid() == Counter()
    result = toy.go_on("capped", trainer={"budget": {"usd": 3}})
    assert (result.state, len(toy.steps("capped"))) == ("done", 4)
    assert toy.paid() == Counter(["learner 3", "learner 4", *(f"rollout {task}" for task in _tasks(toy))])
    assert result.report["settled_usd"] == "1.10"
    with Tree.open(Path(result.run.state().batch.settings["trainer.tree_dir"])) as tree:
        assert tree.ref("refs/tags/capped/final") == result.run.summary()["final_commit"]  # type: ignore[index]


def test_a_finished_run_is_refused(toy):
    """As everywhere: another name, another run."""
    toy.imported("finished")
    with pytest.raises(evrun.UsageFault, match="is finished"):
        toy.go_on("finished")


def test_nothing_done_is_a_run_whose_setup_is_still_to_come(toy):
    """Hermit was killed in its first step: the new run has its settings, and begins."""
    (toy.runs / "stuck/steps.jsonl").unlink()
    for step in ("step_0001", "learning_material"):
        (toy.runs / "stuck" / step).rename(toy.runs / step)
    made = toy.imported("stuck")
    assert (made.state.training.steps, made.state.training.calls) == ([], {})
    result = toy.go_on("stuck")
    assert result.state == "done"
    assert toy.paid()["learner 1"] == toy.paid()["learner 2"] == 1
    calls = (toy.output / "stuck/step_0002/state/calls.txt").read_text().splitlines()
    assert calls == ["setup", "step 1 after None", "step 2 after None"]


def test_code_that_is_changed_after_the_import_is_shown(tmp_path):
    """Import lines are to be changed; who does it afterwards says that he means it, and that is recorded."""
    toy = HermitToy(tmp_path)
    made = toy.imported("stuck")
    assert any("agent.name, judge.path, evolver.name: the code imports hermit" in note for note in made.notes)
    toy.moved()
    with pytest.raises(evrun.UsageFault, match="has another content"):
        toy.go_on("stuck")
    assert toy.go_on("stuck", accept_changes=True).state == "done"


def test_hermit_s_own_configuration_does_as_well(toy):
    """The user's run.yaml with the new names; the learner's directory is the learner that was recorded."""
    toy.imported("stuck")
    result = evrun.train(
        toy.directory / "run.yaml", progress=False, environment={},
        data={"step_size": 2}, template=str(toy.output / "stuck/template"),
        trainer={"run_name": "stuck", "output_dir": str(toy.output)},
        agent={"bound": {"usd": 0.1}}, evolver={"bound": {"usd": 0.1}},
    )  # fmt: skip
    assert (result.state, toy.paid()) == ("done", Counter(["learner 2"]))


def _tasks(toy: HermitToy) -> list[str]:
    return [task for step in toy.steps("capped")[2:] for task in step["tasks"]]
