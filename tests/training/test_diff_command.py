"""`evrun diff RUN A B`: from the log alone, by every name that a version has."""

import shutil

import pytest

from tests.cli.shell import evrun
from tests.training.versions import Made


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A run of three steps on top of another one's, whose tree is gone."""
    directory = tmp_path_factory.mktemp("diff")
    first = Made(directory, "first")
    first.step("of the first\n", tags=["ckpt-step-1"])
    first.close()
    run = Made(directory, start_from="first/ckpt-step-1")
    run.commits = {"start": run.head}
    run.commits["1"] = run.step("one\n", tags=["ckpt-step-1"])
    run.step("two\n", invalid="x" * 50_000)
    run.commits["invalid"] = run.git("rev-parse", "toy^")
    run.step("two\n", tags=["ckpt-epoch-1"])
    run.commits["final"] = run.final()
    run.finish()
    shutil.rmtree(run.tree)
    return run


def diff(made, *arguments):
    """What the command says, run where the runs are."""
    return evrun("diff", *arguments, "--output-dir", made.run.parent, cwd=made.run.parent)


def test_a_patch_is_printed_and_what_it_is_about_on_stderr(made):
    """From step 1 to step 2: the one file, as git shows it."""
    said = diff(made, "toy", "1", "2")
    assert said.code == 0
    assert said.out == (
        "diff --git a/ADAPTER.md b/ADAPTER.md\n--- a/ADAPTER.md\n+++ b/ADAPTER.md\n@@ -1 +1 @@\n-one\n+two\n"
    )
    assert said.err.startswith(f"1 (step 1, {made.commits['1'][:12]}) → 2 (")
    assert said.err.endswith("): 1 file differs\n")


def test_the_same_as_json(made):
    """Names, commits and steps of both, and each file with its patch."""
    found = diff(made, made.run, "start", "ckpt-step-1", "--json").json
    assert found["run"] == "toy"
    assert found["a"] == {"name": "start", "commit": made.commits["start"], "step": None}
    assert found["b"] == {"name": "ckpt-step-1", "commit": made.commits["1"], "step": 1}
    (file,) = found["files"]
    assert (file["path"], file["change"]) == ("ADAPTER.md", "changed")
    assert "-of the first\n+one\n" in file["diff"]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("root", "# Instructions\n\nDo what the task asks.\n"),
        ("start", "of the first\n"),
        ("1", "one\n"),
        ("step:1", "one\n"),
        ("step 1", "one\n"),
        ("toy/ckpt-step-1", "one\n"),
        ("ckpt-epoch-1", "two\n"),
        ("3", "two\n"),
        ("head", "two\n"),
        ("final", "two\n"),
        ("toy/final", "two\n"),
    ],
)
def test_a_version_has_many_names(made, name, text):
    """Steps, tags with the run's name and without it, and the places that have names of their own."""
    file, *_ = diff(made, "toy", name, made.commits["invalid"][:10], "--json").json["files"]
    assert file["path"] == "ADAPTER.md"
    removed = [
        line[1:] for line in file["diff"].split("\n") if line.startswith("-") and not line.startswith("---")
    ]
    assert "\n".join([*removed, ""]) == text


def test_commits_of_the_starting_point_are_versions_too(made):
    """The log holds them; the final adapter is compared with now where nothing else is said."""
    root = diff(made, "toy", "root", "start", "--json").json["a"]["commit"]
    assert (
        diff(made, "toy", root, "start", "--json").json["files"]
        == (diff(made, "toy", "root", "start", "--json").json["files"])
    )
    said = diff(made, "toy", made.commits["final"])
    assert "deleted file mode 100644\n--- a/CARD.md\n" in said.out
    same = diff(made, "toy", "2", "3")
    assert (same.code, same.out) == (0, "")
    assert same.err.endswith("no files differ\n")


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("7", "toy has no committed step 7"),
        ("step:7", "toy has no committed step 7"),
        ("ckpt-step-7", "no version 'ckpt-step-7' of toy"),
        ("abc", "no version 'abc' of toy"),
        ("0123456789", "no version '0123456789' of toy"),
    ],
)
def test_a_version_that_is_not_there_is_refused(made, name, said):
    """With what there is instead; exit 2."""
    refused = diff(made, "toy", name, "head")
    assert (refused.code, refused.out) == (2, "")
    assert said in refused.err
    assert "hint: steps 1 to 3, root, start, head, final, a tag or a commit" in refused.err


def test_a_run_that_trains_nothing_is_refused(tmp_path):
    """A run of prompts has no adapter, and a name that is no run's is said as everywhere."""
    asked = evrun("diff", "nothing", "1", cwd=tmp_path)
    assert asked.code == 2
    assert "no run 'nothing'" in asked.err
