"""What outsiders found by trying to break training runs: each of it ends in order now."""

import shutil
import subprocess

import pytest

from tests.runs import evrun, finish, start, wait_until
from tests.training.toys import Toy


def train(toy: Toy, *more: object):
    """Train, or go on."""
    return evrun("train", "--config", toy.config, "--json", *more, cwd=toy.directory)


def test_scores_whose_sum_is_no_number_have_a_mean(tmp_path):
    """A score is any finite number, and so is the mean of them."""
    toy = Toy(tmp_path, trainer__epochs=1)
    (tmp_path / "judge.py").write_text("def score(task, output):\n    return 1.5e308\n")
    assert train(toy).code == 0
    assert [step["rollout"]["mean_score"] for step in toy.steps() if step["step"]] == [1.5e308] * 2
    done = evrun("eval", "--config", toy.config, "--adapter", "final", "--json", cwd=tmp_path)
    assert done.json["mean_score"] == 1.5e308


def test_a_judge_that_says_too_much_gives_no_score(tmp_path):
    """Its task is missing, and says why; the run goes on."""
    toy = Toy(tmp_path, trainer__epochs=1)
    (tmp_path / "judge.py").write_text(
        "def score(task, output):\n    return {'score': 1, 'feedback': 'x' * 20_000_000}\n"
    )
    done = train(toy)
    assert done.code == 3, done
    assert "it said more than 16777216 bytes" in evrun("events", toy.run, "--json", cwd=tmp_path).stdout


def test_a_training_run_is_stopped_from_outside(tmp_path):
    """In good order, and the command says how it stands."""
    toy = Toy(tmp_path, agent__params={"account": str(tmp_path / "account.txt"), "seconds": 0.5})
    process = start("train", "--config", toy.config, cwd=tmp_path)
    wait_until(lambda: bool(toy.paid()), "a rollout")
    stopped = evrun("stop", toy.run, cwd=tmp_path)
    assert stopped.code == 0, stopped
    assert "steps committed" in stopped.stdout
    assert finish(process).code == 143


@pytest.mark.parametrize("part", ["objects", "refs", "HEAD", "config"])
def test_a_tree_of_which_a_part_is_gone_comes_back(tmp_path, part):
    """Nothing but parts of a repository is there: it is made whole."""
    toy = Toy(tmp_path, trainer__epochs=1)
    assert train(toy).code == 0
    lost = toy.tree / part
    shutil.rmtree(lost) if lost.is_dir() else lost.unlink()
    assert evrun("replay", toy.run, cwd=tmp_path).code == 0
    assert evrun("replay", toy.run, "--check", cwd=tmp_path).code == 0
    log = subprocess.run(
        ["git", "-C", str(toy.tree), "log", "--all", "--oneline"], capture_output=True, check=True
    )
    assert log.stdout


def test_an_agent_that_damages_its_adapter_damages_nobody_elses(tmp_path):
    """Each attempt of one's own code has a copy."""
    toy = Toy(tmp_path, trainer__retries=0, agent__concurrency=1)
    agent = tmp_path / "agent.py"
    agent.write_text(
        agent.read_text()
        + "\nimport shutil\nonce = run\n"
        + "def run(task, adapter, params):\n"
        + "    found = once(task, adapter, params)\n    shutil.rmtree(adapter)\n    return found\n"
    )
    assert train(toy).code == 0
    assert [step["rollout"]["errors"] for step in toy.steps()] == [0] * 5
    assert toy.steps()[-1]["rollout"]["mean_score"] == 1.0


def test_a_run_is_not_called_what_git_calls_otherwise(tmp_path):
    """HEAD is what git stands at, and no name for a branch."""
    refused = train(Toy(tmp_path), "trainer.run_name=HEAD")
    assert refused.code == 2
    assert "HEAD" in refused.stderr
