"""Clusters that come with a run, and go with it."""

import signal
import tempfile
from contextlib import ExitStack, contextmanager

import psutil
import pytest

from tests.endpoint.client import running_endpoint
from tests.runs import finish, start, wait_until, write_prompts


@contextmanager
def own_cluster(place, endpoint, *prompts):
    """A run without an address, where no cluster is: the process."""
    place.mkdir()
    dataset = write_prompts(place / "d.jsonl", list(prompts))
    with tempfile.TemporaryDirectory(prefix="ray-") as short:  # as sockets need it
        yield start(
            "run", dataset, "--run-name", "r", "--model", "m", "--base-url", endpoint.base_url, "--toolsets",
            "none", "--concurrency", 1, "--executor", "ray",
            cwd=place, RAY_TMPDIR=short, RAY_ADDRESS="", RAY_AUTH_MODE="disabled",
        )  # fmt: skip


def of_ray(process):
    """What lives of the cluster that a process has started, by process; how it is called."""
    return {child: child.name() for child in psutil.Process(process.pid).children(recursive=True)}


@pytest.mark.timeout(120)
def test_a_run_without_an_address_starts_a_cluster_and_ends_it(tmp_path):
    """Each of two has one of its own as long as it lasts: one ends, one is interrupted; no process is left.

    They are there at once, since most of it is waiting for Ray.
    """
    with ExitStack() as stack:
        endpoints = [stack.enter_context(running_endpoint(latency_ms=1000)) for _ in range(2)]
        runs = [
            stack.enter_context(own_cluster(tmp_path / name, endpoint, *prompts))
            for name, endpoint, prompts in zip(
                ("brief", "long"), endpoints, ("abc", map(str, range(60))), strict=True
            )
        ]
        made = []
        for run, endpoint in zip(runs, endpoints, strict=True):
            wait_until(lambda endpoint=endpoint: endpoint.totals()["answered"] > 0, "an answer")
            made.append(of_ray(run))
        runs[1].send_signal(signal.SIGINT)
        brief, long = map(finish, runs)
    assert (brief.code, "3 kept" in brief.stdout) == (0, True), brief
    assert (long.code, "go on with" in long.stdout) == (130, True), long
    assert all({"raylet", "gcs_server"} <= set(names.values()) for names in made), made
    assert psutil.wait_procs([*made[0], *made[1]], timeout=5)[1] == []
