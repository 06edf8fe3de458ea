"""A real Ray cluster on this machine: a head that does no work, and nodes that can be killed sharply.

It lives in a process of its own, ``python -m tests.ray.cluster``, so that whoever tests imports no Ray, and
so that it ends with the tests however these end: its stdin is a pipe that closes then. Everything that Ray
leaves on the disk is under a directory of its own, so that ``--ray-address auto`` of others does not find it.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from functools import cache
from typing import Any, NamedTuple

import psutil

from tests.runs import ROOT, environment, wait_until

CPUS = 2
"""So many CPUs each node says that it has; the head has none, so that no work goes there."""
NODES = 2
_STORE_BYTES = 80 * 1024 * 1024
_HEALTH = {
    "health_check_initial_delay_ms": 0,
    "health_check_period_ms": 500,
    "health_check_timeout_ms": 2000,
    "health_check_failure_threshold": 2,
}
"""A node that is not heard of is dead after seconds, where it would be half a minute."""
_QUIET = {"RAY_AUTH_MODE": "disabled", "RAY_USAGE_STATS_ENABLED": "0"}


class Node(NamedTuple):
    """A node: as Ray names it, and the process that is its raylet."""

    name: str
    raylet: int

    @property
    def is_alive(self) -> bool:
        """Whether its raylet runs."""
        try:
            return psutil.Process(self.raylet).status() != psutil.STATUS_ZOMBIE
        except psutil.NoSuchProcess:
            return False

    def workers(self) -> list[int]:
        """Its processes that are neither the raylet nor Ray's own agents."""
        children = psutil.Process(self.raylet).children()
        return [child.pid for child in children if not _is_agent(child)]


class RunningCluster:
    """A running cluster. `address`, with `environment`, is for drivers; `is_whole` until its end."""

    def __init__(self, process: "subprocess.Popen[str]", said: dict[str, Any]) -> None:
        self._process = process
        self.address: str = said["address"]
        self.nodes = [Node(**node) for node in said["nodes"]]
        self.environment = {**_QUIET, "RAY_ADDRESS": ""}
        self.is_whole = True

    @property
    def alive(self) -> list[Node]:
        """The nodes that were not killed."""
        return [node for node in self.nodes if node.is_alive]

    def kill(self, node: Node) -> None:
        """End a node as a power cut would: all its processes at once, with no time to say anything."""
        raylet = psutil.Process(node.raylet)
        raylet.suspend()  # It must not tell the head of its workers' end.
        for child in raylet.children(recursive=True):
            child.kill()
        raylet.kill()
        wait_until(lambda: not node.is_alive, "a node's end")

    def kill_all(self) -> None:
        """End the whole cluster, its head too, as a power cut would."""
        everything = psutil.Process(self._process.pid).children(recursive=True)
        for process in everything:
            process.suspend()
        for process in everything:
            process.kill()
        self.is_whole = False

    def restore(self) -> None:
        """Add nodes until there are as many as at first."""
        while len(self.alive) < NODES:
            assert self._process.stdin is not None
            self._process.stdin.write("\n")
            self._process.stdin.flush()
            self.nodes.append(Node(**_said(self._process)))


@contextmanager
def starting_cluster() -> Iterator[Callable[[], RunningCluster]]:
    """A cluster of a head and two nodes, for the length of a `with`: what waits until it is there."""
    with tempfile.TemporaryDirectory(prefix="ray-") as place:  # of a short name, as sockets need it
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.ray.cluster"],
            cwd=ROOT,
            env=environment(RAY_TMPDIR=place, **_QUIET),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        try:
            yield cache(lambda: RunningCluster(process, _said(process)))
        finally:
            process.communicate()


def _said(process: "subprocess.Popen[str]") -> dict[str, Any]:
    assert process.stdout is not None
    line = process.stdout.readline()
    if not line:
        raise RuntimeError("the cluster did not start; what it said is above")
    said: dict[str, Any] = json.loads(line)
    return said


def _is_agent(process: psutil.Process) -> bool:
    return any("agent" in word.lower() for word in process.cmdline()[:3])


def main() -> None:
    """The cluster: says where it is, adds a node for each line, and ends with its stdin."""
    from ray.cluster_utils import Cluster  # type: ignore[import-not-found, unused-ignore]

    common = {
        "object_store_memory": _STORE_BYTES,
        "include_log_monitor": False,
    }
    say = sys.stdout
    with redirect_stdout(sys.stderr):
        cluster = Cluster(
            initialize_head=True,
            head_node_args={
                "num_cpus": 0,
                "include_dashboard": False,
                "no_monitor": True,
                "_system_config": _HEALTH,
                **common,
            },
        )

        def node() -> dict[str, Any]:
            added = cluster.add_node(num_cpus=CPUS, **common)
            (raylet,) = added.all_processes["raylet"]
            return {"name": added.node_id, "raylet": raylet.process.pid}

        try:
            nodes = [node() for _ in range(NODES)]
            print(json.dumps({"address": cluster.address, "nodes": nodes}), file=say, flush=True)
            for _ in sys.stdin:
                print(json.dumps(node()), file=say, flush=True)
        finally:
            _end(cluster)


def _end(cluster: Any) -> None:
    """End all of it: what was killed before is waited for, the rest is killed."""
    mine = psutil.Process().children(recursive=True)
    for process in mine:
        process.kill()
    psutil.wait_procs(mine)
    os._exit(0)  # Ray's own hooks would look for what is gone.


if __name__ == "__main__":
    main()
