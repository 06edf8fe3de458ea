"""`evrun run --executor ray`: what is refused before anything is touched."""

import socket

import pytest

from tests.runs import evrun, write_prompts


def run(place, *more, **env):
    """A run of two prompts."""
    dataset = write_prompts(place / "d.jsonl", ["one", "two"])
    url = "http://127.0.0.1:9/v1"
    return evrun(
        "run", dataset, "--run-name", "r", *more, cwd=place, **{"OPENAI_BASE_URL": url, **env},
    )  # fmt: skip


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["--model", "m", "--executor", "slurm"], "expected one of local, ray"),
        (["--model", "m", "--ray_address", "auto"], "--ray-address without --executor ray"),
        (["--model", "local", "--executor=ray"], "the embedded model runs in this process alone"),
        (["--model", "m", "--executor", "ray", "--ray-address", "ray://h:1"], "not behind Ray's client"),
        (["--model", "m", "--executor", "ray", "--ray-address", ""], "--ray-address is empty"),
        (["--model", "m", "--executor", "ray", "--ray-address", "local"], "a cluster is started where none"),
    ],
    ids=["executor", "address", "embedded", "client", "empty", "named local"],
)
def test_what_nodes_cannot_do_is_refused(tmp_path, given, said):
    """Exit code 2, with what is expected, and no run directory is made."""
    ended = run(tmp_path, *given)
    assert (ended.code, said in ended.stderr) == (2, True), ended
    assert not (tmp_path / "data").exists()


def test_an_address_without_a_cluster_is_refused(tmp_path):
    """Nobody listens there: exit code 2 at once, with what works without one; nothing is written."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    ended = run(tmp_path, "--model", "m", "--executor", "ray", "--ray-address", f"127.0.0.1:{port}")
    assert (ended.code, f"127.0.0.1:{port}: nobody listens there" in ended.stderr) == (2, True), ended
    assert "--executor local" in ended.stderr
    assert not (tmp_path / "data").exists()
