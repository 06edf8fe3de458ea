"""`evrun replay` of real training runs: views and versions, from nothing but the log."""

import json
import shutil
import subprocess

import pytest

from tests.projections.training_views import tree
from tests.runs import evrun
from tests.training.toys import Toy


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A run that was trained and evaluated twice, and all that was in its directories then."""
    toy = Toy(tmp_path_factory.mktemp("finished"), agent__concurrency=1)
    assert evrun("train", "--config", toy.config, "--json", cwd=toy.directory).code == 0
    for _ in range(2):
        said = evrun("eval", "--config", toy.config, "--adapter", "final", "--json", cwd=toy.directory)
        assert said.code == 0, said
    return toy


def git(place, *arguments):
    """What the git program says."""
    done = subprocess.run(["git", "-C", place, *arguments], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_views_and_versions_that_are_lost_come_back_as_they_were(finished, tmp_path):
    """Tree, checkout, steps.jsonl and step directories deleted: the same files, the same hashes."""
    before, final = tree(finished.run), git(finished.tree, "rev-parse", "toy/final")
    refs = git(finished.tree, "for-each-ref")
    assert evrun("replay", finished.run, "--check", cwd=tmp_path).code == 0
    shutil.rmtree(finished.tree)
    for name in ("checkout", "step_0001", "step_0002", "learning_material", "eval"):
        shutil.rmtree(finished.run / name)
    (finished.run / "steps.jsonl").unlink()
    (finished.run / "summary.json").unlink()
    checked = evrun("replay", finished.run, "--check", "--json", cwd=tmp_path)
    assert checked.code == 1
    assert {one["why"] for one in checked.json["files"] if not one["same"]} == {"missing"}
    assert evrun("replay", finished.run, cwd=tmp_path).code == 0
    assert tree(finished.run) == before
    assert git(finished.tree, "rev-parse", "toy/final") == final
    assert git(finished.tree, "for-each-ref") == refs
    assert "final: toy" in git(finished.tree, "log", "--all", "--oneline")
    assert evrun("replay", finished.run, "--check", cwd=tmp_path).code == 0


def test_a_copy_elsewhere_has_its_own_tree_and_leaves_the_run_s_alone(finished, tmp_path):
    """`--out` makes all of it in another directory: the same commits, and nothing of the run is touched."""
    before, refs = tree(finished.run), git(finished.tree, "for-each-ref")
    said = evrun("replay", finished.run, "--out", "copy", "--json", cwd=tmp_path)
    assert said.code == 0
    assert git(tmp_path / "copy" / "tree", "rev-parse", "toy/final") == git(
        finished.tree, "rev-parse", "toy/final"
    )
    assert (tmp_path / "copy" / "steps.jsonl").read_bytes() == (finished.run / "steps.jsonl").read_bytes()
    assert evrun("replay", finished.run, "--out", "copy", "--check", cwd=tmp_path).code == 0
    assert (tree(finished.run), git(finished.tree, "for-each-ref")) == (before, refs)


def test_a_run_as_it_was_after_a_step_has_that_step_s_adapter(finished, tmp_path):
    """`--to` an event: the views and the branch of that moment."""
    lines = evrun(
        "events", finished.run, "--type", "StepCommitted", "--json", cwd=tmp_path
    ).stdout.splitlines()
    second = json.loads(lines[1])
    said = evrun("replay", finished.run, "--out", "then", "--to", str(second["seq"]), cwd=tmp_path)
    assert said.code == 0
    steps = (tmp_path / "then" / "steps.jsonl").read_text().splitlines()
    assert len(steps) == 2
    assert git(tmp_path / "then" / "tree", "rev-parse", "toy") == json.loads(steps[-1])["commit"]
    assert not (tmp_path / "then" / "summary.json").exists()


def test_two_evaluations_of_the_final_adapter_are_both_there(finished):
    """The second moved nothing: its results stand beside the first's."""
    place = finished.run / "eval" / "final"
    results = [json.loads(line) for line in (place / "results.jsonl").read_text().splitlines()]
    assert [one["evaluation"] for one in results] == [1, 1, 2, 2]
    one, two = (json.loads((place / f"summary-{number}.json").read_bytes()) for number in (1, 2))
    assert (one["mean_score"], two["mean_score"]) == (1.0, 1.0)
    assert json.loads((place / "summary.json").read_bytes()) == two
    commit = json.loads((finished.run / "summary.json").read_bytes())["final_commit"]
    assert one["commit"] == two["commit"] == commit == git(finished.tree, "rev-parse", "toy/final")


def test_views_of_a_real_run_have_what_their_readers_look_for(finished):
    """The keys of steps.jsonl, a task and the summary that scripts read, with money as exact text."""
    first, *_ = [line for line in finished.steps() if line["step"] == 1]
    assert (first["rollout"]["mean_score"], first["changed"], first["status"]) == (0.0, True, "done")
    assert first["rollout"]["cost_usd"] == "0.20"
    assert first["evolver"]["usage"][0]["cost_usd"] == "0.05"
    assert first["budget_after"]["usd"] == "0.25"
    assert (first["check"], first["repaired"]) == ({"passed": True, "issues": []}, [])
    place = finished.run / "learning_material" / "step_0001" / "tasks"
    task = json.loads((place / f"{first['tasks'][0]}.json").read_bytes())
    assert task["input"]["prompt"].startswith("Task Number")
    assert (task["status"], task["judge"]["score"], task["cost_usd"]) == ("ok", 0.0, "0.10")
    assert (finished.run / "step_0001" / "output" / "report.md").read_text() == "step 1\n"
    assert (finished.run / "step_0001" / "state" / "calls").read_text() == "setup\nstep 1\n"
    summary = json.loads((finished.run / "summary.json").read_bytes())
    assert summary["stop_reason"] == "completed all epochs"
    assert summary["spending"]["by_role"]["learner"] == "0.20"
    assert "Output format: uppercase." in (finished.run / "checkout" / "ADAPTER.md").read_text()
