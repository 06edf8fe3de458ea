"""Signals: the first ends a run gracefully, the second at once; either way nothing is lost."""

import signal
import time
from pathlib import Path

import pytest

from tests.endpoint.client import running_endpoint
from tests.runs import evrun, finish, gsm8k, prompts_of, start, wait_until


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_first_signal_lets_calls_finish_and_says_how_to_go_on(tmp_path: Path, number: int, code: int) -> None:
    """Calls in flight finish and are kept, nothing new starts; exit 130 or 143; a resume goes on."""
    dataset = gsm8k(tmp_path / "prompts.jsonl", 40)
    with running_endpoint(latency_ms=400) as endpoint:
        process = start(
            "run", dataset, "--run-name", "r", "--model", "m", "--base-url", endpoint.base_url, cwd=tmp_path
        )
        wait_until(lambda: endpoint.totals()["answered"] >= 8, "answers")
        process.send_signal(number)
        ended = finish(process)
        assert ended.code == code, ended
        assert "--resume" in ended.stdout
        totals = endpoint.totals()
        assert totals["aborted"] == 0
        status = evrun("status", "r", "--json", cwd=tmp_path).json
        assert status["state"] == "interrupted"
        assert status["counts"]["kept"] == totals["answered"] == len(prompts_of(tmp_path / "data/r"))
        resumed = evrun("run", "--run-name", "r", "--resume", cwd=tmp_path)
        assert resumed.code == 0, resumed
        assert endpoint.totals()["requests"] == 40
    assert evrun("replay", "r", "--check", cwd=tmp_path).code == 0


def test_second_signal_leaves_at_once_and_the_run_goes_on_later(tmp_path: Path) -> None:
    """A second SIGINT does not wait for a call that never answers; the run resumes."""
    dataset = gsm8k(tmp_path / "prompts.jsonl", 3)
    rules = [{"match": {}, "times": 3, "then": {"fault": "hang"}}]
    with running_endpoint(rules=rules) as endpoint:
        process = start(
            "run", dataset, "--run-name", "r", "--model", "m", "--base-url", endpoint.base_url, cwd=tmp_path
        )
        wait_until(lambda: endpoint.totals()["faults"] == 3, "calls in flight")
        process.send_signal(signal.SIGINT)
        time.sleep(0.3)
        process.send_signal(signal.SIGINT)
        assert finish(process, timeout_s=10).code == 130
        resumed = evrun("run", "--run-name", "r", "--resume", "--json", cwd=tmp_path)
    assert resumed.code == 0, resumed
    assert resumed.json["counts"]["kept"] == 3
    audit = evrun("audit", "r", "--json", cwd=tmp_path).json
    assert audit["calls"]["in_doubt"] == 3
