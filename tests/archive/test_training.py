"""A training run in an archive: read there, made again from there, and brought back."""

import pytest

from tests.projections.training_views import tree
from tests.runs import evrun
from tests.training.toys import Toy


@pytest.fixture(scope="module")
def toy(tmp_path_factory):
    """A run of one epoch with its archive `kept` beside it."""
    toy = Toy(tmp_path_factory.mktemp("toy"), trainer__epochs=1)
    assert evrun("train", "--config", toy.config, "--json", cwd=toy.directory).code == 0
    said = evrun("archive", toy.run, "kept", "--json", cwd=toy.directory)
    assert said.code == 0, said
    return toy


def test_everything_of_a_training_run_is_made_from_its_archive(toy, tmp_path):
    """Views and versions: the same files as from the run, and `--check` agrees."""
    kept = toy.directory / "kept"
    for source, out in ((toy.run, "a"), (kept, "b")):
        said = evrun("replay", source, "--out", tmp_path / out, cwd=tmp_path)
        assert said.code == 0, said
    assert tree(tmp_path / "b") == tree(tmp_path / "a")
    assert evrun("replay", kept, "--check", "--out", tmp_path / "a", cwd=tmp_path).code == 0


def test_a_training_run_comes_back_and_is_complete(toy, tmp_path):
    """Restored elsewhere, its views and refs are made, and its status is what it was."""
    there = Toy(tmp_path / "there", trainer__epochs=1)
    said = evrun("archive", "--restore", toy.directory / "kept", there.run, cwd=tmp_path)
    assert said.code == 0, said
    assert evrun("replay", there.run, cwd=tmp_path).code == 0
    assert evrun("replay", there.run, "--check", cwd=tmp_path).code == 0
    of_run, of_back = (evrun("status", run, "--json", cwd=tmp_path).json for run in (toy.run, there.run))
    of_run.pop("dir"), of_back.pop("dir")
    assert of_back == of_run
