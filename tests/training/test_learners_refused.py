"""What the built-in learners cannot do without is refused before a run is there."""

import shutil

import pytest

from tests.cli.shell import evrun, evrun_process
from tests.runs import ROOT


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["evolver.name=gepa"], "data.val"),
        (["evolver.params.exampels=1"], "did you mean examples?"),
        (["evolver.params.tries=often"], "evolver.params.tries"),
        (["agent.params.model=local", "model="], "reflect needs a model"),
    ],
)
def test_a_learner_that_cannot_work_is_refused_at_the_start(tmp_path, words, says):
    """By the key to set; nothing is left behind."""
    place = copied(tmp_path)
    said = evrun("train", "--config", "run.yaml", *words, cwd=place)
    assert said.code == 2, said
    assert says in said.err
    assert not (place / ".demo").exists()


def test_without_the_package_gepa_is_refused_with_the_line_to_type(tmp_path):
    """On a machine where only evrun itself is installed."""
    place = copied(tmp_path)
    shutil.copy(place / "test.txt", place / "val.txt")
    (tmp_path / "away").mkdir()
    (tmp_path / "away/gepa.py").write_text("raise ModuleNotFoundError('No module named gepa', name='gepa')")
    without = {"PYTHONPATH": f"{tmp_path / 'away'}:{ROOT}"}
    words = ["evolver.name=gepa", "data.val=val.txt", "data.test="]
    said = evrun_process("train", "--config", "run.yaml", *words, cwd=place, environment=without)
    assert said.code == 2, said
    assert "pip install 'evrun[gepa]'" in said.err
    assert not (place / ".demo").exists()


def copied(directory):
    """The second example, to be changed."""
    place = directory / "example"
    shutil.copytree(ROOT / "examples/gsm8k_training", place, ignore=shutil.ignore_patterns(".demo"))
    return place
