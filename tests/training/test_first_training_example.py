"""The quick start in examples/first_training: what its pages and files promise, by the real commands."""

import json
import shutil
import subprocess

import pytest

from tests.cli.shell import evrun
from tests.runs import ROOT

OUTPUT = ".demo/first-training"


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A copy of the example, trained: its directory, and what the command said."""
    place = tmp_path_factory.mktemp("quick") / "first_training"
    left_out = shutil.ignore_patterns(".demo", "__pycache__")
    shutil.copytree(ROOT / "examples/first_training", place, ignore=left_out)
    return place, evrun("train", "--config", "run.yaml", "--json", cwd=place)


def steps(place):
    """The lines of steps.jsonl."""
    lines = (place / OUTPUT / "first-training/steps.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines]


def test_the_first_step_scores_nothing_and_changes_the_adapter_and_later_ones_score_all(trained):
    """Four steps: 0.0 and changed, then 1.0 three times with nothing left to change."""
    place, said = trained
    assert said.code == 0, said.err
    assert said.json["counts"]["steps"] == said.json["counts"]["steps_total"] == 4
    found = [(line["rollout"]["mean_score"], line["changed"]) for line in steps(place)]
    assert found == [(0.0, True), (1.0, False), (1.0, False), (1.0, False)]


def test_the_adapter_has_the_rule_and_the_run_its_files(trained):
    """The checkout is the adapter now; the card says in words what was learned."""
    place, _ = trained
    run = place / OUTPUT / "first-training"
    assert "Output format: uppercase." in (run / "checkout/ADAPTER.md").read_text()
    assert "The output has to be in upper case." in (run / "checkout/CARD.md").read_text()
    assert json.loads((run / "summary.json").read_text())["stop_reason"] == "completed all epochs"
    assert "2 tasks failed" in (run / "step_0001/output/report.md").read_text()


def test_held_out_tasks_score_all_with_the_final_adapter_and_nothing_with_none(trained):
    """`evrun eval`, of the adapter that was trained, of the one it began with, and of none."""
    place, _ = trained
    means = {}
    for selector in ("none", "root", "final"):
        said = evrun("eval", "--config", "run.yaml", "--adapter", selector, "--json", cwd=place)
        assert said.code == 0, said.err
        means[selector] = said.json["mean_score"]
    assert means == {"none": 0.0, "root": 0.0, "final": 1.0}


def test_the_tree_is_an_ordinary_git_repository(trained):
    """`git log --all --oneline` shows the root, the step that changed something, and the final commit."""
    place, _ = trained
    tree = place / OUTPUT / "trees/prompt-only"
    log = subprocess.run(
        ["git", "-C", str(tree), "log", "--all", "--format=%D %s"],
        capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    assert "tag: first-training/final" in log
    assert "tag: first-training/ckpt-epoch-2" in log
    assert "tag: root" in log
    assert "step 1 (epoch 1)" in log


def test_a_finished_run_is_refused_and_its_files_come_back_from_the_log(trained):
    """The same command again does nothing; without its views, `evrun replay` makes the same ones."""
    place, _ = trained
    assert evrun("train", "--config", "run.yaml", cwd=place).code == 2
    run = place / OUTPUT / "first-training"
    before = {path: path.read_bytes() for path in run.glob("step*/**/*") if path.is_file()}
    shutil.rmtree(run / "step_0001")
    (run / "steps.jsonl").unlink()
    assert evrun("replay", run, cwd=place).code == 0
    assert {path: path.read_bytes() for path in run.glob("step*/**/*") if path.is_file()} == before
    assert evrun("replay", run, "--check", cwd=place).code == 0
