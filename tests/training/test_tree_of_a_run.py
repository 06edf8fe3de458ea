"""Versions of real training runs: what kills, deletions and edits do to their tree."""

import shutil

import pytest

from eventlog.events import StepCommitted
from eventlog.storage import LogReader
from projections import recorded
from tests import warm
from tests.runs import environment, evrun
from tests.training.adapters import MANIFEST, directory_of, files
from tests.training.toys import Toy
from tests.training.versions import git

REFS = ("for-each-ref", "--format=%(refname) %(objectname)")


def train(toy, *arguments):
    """The command on the toy's configuration."""
    return evrun("train", "--config", toy.config, *arguments, "--json", cwd=toy.directory)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A run that is finished."""
    toy = Toy(tmp_path_factory.mktemp("trained"), agent__concurrency=1, trainer__epochs=1)
    assert train(toy).code == 0
    return toy


def boundaries(toy):
    """The sequences of the events that committed steps with tags."""
    with LogReader.open(toy.run / "log") as reader:
        return [
            record.sequence
            for record in recorded(reader)
            if isinstance(record.event, StepCommitted) and record.event.tags
        ]


def test_a_tag_that_a_kill_left_out_is_made_at_the_next_start(trained, tmp_path):
    """Killed after the step was recorded and before its tags: they are there when the run has gone on."""
    toy = Toy(tmp_path, agent__concurrency=1, trainer__epochs=1)
    sequence = boundaries(trained)[0]
    arguments = [str(toy.config), str(sequence)]
    with warm.start(
        "tests.training.dying:main", arguments, cwd=tmp_path, environment=environment()
    ) as process:
        process.communicate(60)
    assert boundaries(toy) == [sequence]
    assert "refs/tags/toy/" not in git(toy.tree, *REFS)
    checked = evrun("replay", toy.run, "--check", "--json", cwd=tmp_path)
    assert "tree/refs/tags/toy/ckpt-epoch-1" in {
        one["path"] for one in checked.json["files"] if not one["same"]
    }
    assert train(toy).code == 0
    assert [line.split()[0] for line in git(toy.tree, *REFS).splitlines()] == [
        line.split()[0] for line in git(trained.tree, *REFS).splitlines()
    ]
    assert evrun("replay", toy.run, "--check", cwd=tmp_path).code == 0


def test_a_deleted_tree_comes_back_by_replay_and_by_a_start(trained):
    """The same refs with the same hashes, `<run>/final` among them, and git's own check is content."""
    before = git(trained.tree, *REFS)
    assert "refs/tags/toy/final" in before
    for again in (("replay", trained.run), ("train", "--config", trained.config)):
        shutil.rmtree(trained.tree)
        assert evrun("replay", trained.run, "--check", cwd=trained.directory).code == 1
        done = evrun(*again, cwd=trained.directory)
        assert done.code == (0 if again[0] == "replay" else 2), done
        assert git(trained.tree, *REFS) == before
        assert git(trained.tree, "fsck", "--strict", "--full") == ""
    assert evrun("replay", trained.run, "--check", cwd=trained.directory).code == 0


def test_a_template_edited_under_its_version_is_refused_by_both_kinds_of_start(tmp_path):
    """A new run says what changed against the tree, an unfinished one what changed against its record."""
    place = directory_of(
        tmp_path / "kit", files({"adapter.yaml": MANIFEST.replace("max_bytes: 60", "max_bytes: 600")})
    )
    first = Toy(tmp_path, "first", template=str(place), trainer__budget={"usd": 0.4}, **BOUND)
    assert train(first).code == 4
    (place / "RULES.md").write_text("be mean\n")
    resumed = train(first, "trainer.budget.usd=4")
    assert resumed.code == 2
    assert "template has another content" in resumed.stderr
    second = Toy(tmp_path, "second", template=str(place))
    before = git(tmp_path / "runs/trees/kit", *REFS)
    refused = train(second)
    assert refused.code == 2
    assert "kit@1.0: not what it was" in refused.stderr
    assert "RULES.md changed" in refused.stderr
    assert not second.run.exists()
    assert git(tmp_path / "runs/trees/kit", *REFS) == before
    assert second.paid() == first.paid()


BOUND = {"agent__bound": {"usd": 0.1}, "evolver__bound": {"usd": 0.05}}


def test_a_start_that_is_refused_leaves_nothing(tmp_path):
    """No run directory, no tree, nothing paid."""
    toy = Toy(tmp_path, start_from="toy/ckpt-step-9")
    refused = train(toy)
    assert refused.code == 2
    assert "start_from toy/ckpt-step-9: there is no tree" in refused.stderr
    assert not toy.run.exists()
    assert not toy.tree.exists()
    assert not toy.paid()


def test_a_run_starts_from_another_ones_version_and_outlives_it(trained, tmp_path):
    """It scores from its first step what the other one had learned, and rebuilds its branch alone."""
    toy = Toy(tmp_path, "second", start_from="toy/final", trainer__epochs=1)
    shutil.copytree(trained.tree, toy.tree)
    assert train(toy).code == 0
    assert [step["rollout"]["mean_score"] for step in toy.steps() if step["step"]] == [1.0] * 2
    shutil.rmtree(toy.tree)
    assert evrun("replay", toy.run, cwd=tmp_path).code == 0
    assert "step 1 (epoch 1)" in git(toy.tree, "log", "--format=%s", "second")
    assert "refs/tags/toy/" not in git(toy.tree, *REFS)
