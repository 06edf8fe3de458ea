"""Where rollouts are to be worked on, as it is typed: refused before anything is made where it cannot be."""

import socket

import pytest

from tests.cli.shell import evrun
from tests.training.toys import Toy


@pytest.mark.parametrize("command", ["train", "eval"])
def test_a_cluster_that_is_not_there_is_refused_and_nothing_is_made(command, tmp_path):
    """Exit 2, the address named; no log, no tree, no call of anybody's."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        toy = Toy(tmp_path)
        more = ["--adapter", "none"] if command == "eval" else []
        where = ["--executor", "ray", "--ray-address", address]
        said = evrun(command, "--config", toy.config, *more, *where, cwd=tmp_path)
    assert said.code == 2
    assert f"--ray-address {address}: nobody listens there" in said.err
    assert not (tmp_path / "runs").exists()
    assert not toy.paid()


def test_an_address_that_nobody_would_ask_is_refused(tmp_path):
    """With the executor local, typed beside it."""
    toy = Toy(tmp_path)
    said = evrun("train", "--config", toy.config, "--executor", "local", "--ray-address", "h:1", cwd=tmp_path)
    assert said.code == 2
    assert "--ray-address without --executor ray" in said.err


def test_the_options_are_the_keys_of_the_configuration(tmp_path):
    """`--executor` is checked as `trainer.executor` is."""
    said = evrun("train", "--config", Toy(tmp_path).config, "--executor", "slurm", cwd=tmp_path)
    assert said.code == 2
    assert "trainer.executor: expected one of local, ray, found 'slurm'" in said.err


def test_the_embedded_model_is_not_to_be_had_on_nodes(tmp_path):
    """It runs in one process, so a run that wants it on nodes is refused before anything is written."""
    toy = Toy(tmp_path, model="local", agent__params={}, agent__name="chat")
    said = evrun("train", "--config", toy.config, "--executor", "ray", cwd=tmp_path)
    assert said.code == 2
    assert "the embedded model runs in this process alone" in said.err
    assert not (tmp_path / "runs").exists()
