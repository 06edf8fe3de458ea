"""`evrun fork`: a new run from a step of another one, with or without what its learner kept."""

import json

import pytest

from tests.runs import evrun
from tests.training.toys import Toy


@pytest.fixture(scope="module")
def toy(tmp_path_factory):
    """A run that is done; only others are made beside it."""
    made = Toy(tmp_path_factory.mktemp("fork"))
    assert evrun("train", "--config", made.config, cwd=made.directory).code == 0
    return made


def fork(toy: Toy, name: str, *more: object):
    """A run from step 2."""
    return evrun("fork", toy.run, "--at", "step", 2, "--run-name", name, "--json", *more, cwd=toy.directory)


def test_a_fork_begins_with_the_step_s_adapter_and_state_and_goes_on(toy):
    """The learner is not set up again: it finds what it had kept behind that step."""
    before = toy.paid()
    made = fork(toy, "further")
    assert made.code == 0, made
    assert made.json["commit"] == toy.steps()[2]["commit"]
    done = evrun("train", "--config", toy.config, "trainer.run_name=further", "--json", cwd=toy.directory)
    assert done.code == 0, done
    assert toy.paid()["setup"] == before["setup"] == 1
    run = toy.run.with_name("further")
    assert (run / "step_0001/state/calls").read_text().splitlines() == ["setup", "step 1", "step 2", "step 1"]
    first = [json.loads(line) for line in (run / "steps.jsonl").read_text().splitlines()][1]
    assert first["rollout"]["mean_score"] == 1.0
    assert evrun("replay", run, "--check", cwd=toy.directory).code == 0


def test_a_fork_of_the_adapter_only_sets_its_learner_up(toy):
    """Files, and nothing that was kept."""
    before = toy.paid()
    assert fork(toy, "bare", "--adapter-only").code == 0
    done = evrun("train", "--config", toy.config, "trainer.run_name=bare", "--json", cwd=toy.directory)
    assert done.code == 0, done
    assert toy.paid()["setup"] == before["setup"] + 1
    run = toy.run.with_name("bare")
    assert (run / "step_0001/state/calls").read_text().splitlines() == ["setup", "step 1"]


@pytest.mark.parametrize(
    ("words", "says"),
    [(("--at", 9, "--run-name", "x"), "the steps 0 to 4"), (("--at", 2, "--run-name", "toy"), "toy")],
)
def test_a_fork_that_cannot_be_made_changes_nothing(toy, words, says):
    """No such step, or a name that is taken."""
    before = sorted(toy.run.parent.iterdir())
    refused = evrun("fork", toy.run, *words, cwd=toy.directory)
    assert refused.code == 2, refused
    assert says in refused.stderr
    assert sorted(toy.run.parent.iterdir()) == before
