"""Clusters that come with a run, and clusters that go with their head."""

import signal
import subprocess
import sys
import tempfile
from contextlib import contextmanager

import psutil
import pytest

from tests.endpoint.client import running_endpoint
from tests.ray.cluster import running_cluster
from tests.runs import Ended, environment, evrun, finish, start, wait_until, write_prompts


@contextmanager
def own_cluster(place, endpoint, *prompts):
    """A run without an address, where no cluster is: the process."""
    dataset = write_prompts(place / "d.jsonl", list(prompts))
    with tempfile.TemporaryDirectory(prefix="ray-") as short:  # as sockets need it
        yield start(
            "run", dataset, "--run-name", "r", "--model", "m", "--base-url", endpoint.base_url, "--toolsets",
            "none", "--concurrency", 1, "--executor", "ray",
            cwd=place, RAY_TMPDIR=short, RAY_ADDRESS="", RAY_AUTH_MODE="disabled",
        )  # fmt: skip


def of_ray(process):
    """What lives of the cluster that a process has started."""
    return psutil.Process(process.pid).children(recursive=True)


def names(processes):
    """How they are called."""
    return {process.name() for process in processes}


@pytest.mark.timeout(120)
def test_a_run_without_an_address_starts_a_cluster_and_ends_it(tmp_path):
    """The cluster lives as long as the run, which ends as anywhere; no process of it is left."""
    with running_endpoint(latency_ms=2000) as endpoint, own_cluster(tmp_path, endpoint, *"abc") as process:
        wait_until(lambda: endpoint.totals()["answered"] > 1, "two answers")
        made = of_ray(process)
        assert {"raylet", "gcs_server"} <= names(made)
        ended = finish(process)
    assert (ended.code, "3 kept" in ended.stdout) == (0, True), ended
    assert psutil.wait_procs(made, timeout=5)[1] == []


@pytest.mark.timeout(120)
def test_an_interrupted_run_ends_its_cluster(tmp_path):
    """After Ctrl-C the call in flight is settled, and no process of the cluster is left."""
    with running_endpoint(latency_ms=1000) as endpoint, own_cluster(tmp_path, endpoint, *"abcdef") as process:
        wait_until(lambda: endpoint.totals()["answered"] > 0, "an answer")
        made = of_ray(process)
        assert "raylet" in names(made)
        process.send_signal(signal.SIGINT)
        ended = finish(process)
    assert (ended.code, "go on with" in ended.stdout) == (130, True), ended
    assert psutil.wait_procs(made, timeout=5)[1] == []


HASTY = """
from evrun.executors import pool
pool.GIVE_UP_S = 4.0
from cli.main import main
main()
"""


@pytest.mark.timeout(120)
def test_a_cluster_that_dies_with_its_head_ends_the_run_in_order(tmp_path):
    """Exit code 1 with a reason and how to go on; nothing hangs in Ray; here it goes on to its end.

    The half minute of patience is cut short, so that the test is.
    """
    dataset = write_prompts(tmp_path / "d.jsonl", [f"prompt {number}" for number in range(24)])
    with running_cluster() as cluster, running_endpoint(latency_ms=300) as endpoint:
        process = subprocess.Popen(
            [
                sys.executable, "-c", HASTY, "run", dataset, "--run-name", "r", "--model", "m", "--base-url",
                endpoint.base_url, "--toolsets", "none", "--concurrency", "2", "--executor", "ray",
                "--ray-address", cluster.address,
            ],
            cwd=tmp_path, env=environment(**cluster.environment), stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        wait_until(lambda: endpoint.totals()["answered"] > 2, "three answers")
        cluster.kill_all()
        stdout, stderr = process.communicate(timeout=50)
        ended = Ended(process.returncode, stdout, stderr)
        assert ended.code == 1, ended
        assert "the cluster does not answer" in ended.stdout, ended
        assert "go on with: evrun run --run-name r --resume" in ended.stdout, ended
        again = evrun("run", "--run-name", "r", "--resume", "--executor", "local", cwd=tmp_path)
    assert (again.code, "24 kept" in again.stdout) == (0, True), again
