"""A cluster that goes with its head. The last test here, so that no other has to wait for a new one."""

import subprocess
import sys

import pytest

from tests.endpoint.client import running_endpoint
from tests.runs import Ended, environment, evrun, wait_until, write_prompts

HASTY = """
from evrun.executors import pool, ray_cluster
pool.GIVE_UP_S, ray_cluster.ANSWER_S = 4.0, 2.0
from cli.main import main
main()
"""


@pytest.mark.timeout(120)
def test_a_cluster_that_dies_with_its_head_ends_the_run_in_order(cluster, tmp_path):
    """Exit code 1 with a reason and how to go on; nothing hangs in Ray; here it goes on to its end.

    The half minute of patience is cut short, so that the test is.
    """
    dataset = write_prompts(tmp_path / "d.jsonl", [f"prompt {number}" for number in range(24)])
    with running_endpoint(latency_ms=300) as endpoint:
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
