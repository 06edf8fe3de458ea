"""Killed at random moments, again and again: nothing is lost, nothing answered is asked again.

`EVRUN_KILLS` says how many moments (default 40, a slice for CI; the full suite is 200).
"""

import contextlib
import os
import random
import subprocess
import time
from collections import Counter
from pathlib import Path

import pytest

from tests.endpoint.client import running_endpoint
from tests.runs import evrun, finish, gsm8k, kill, prompts_of, rows_of, start, views_of

KILLS = int(os.environ.get("EVRUN_KILLS", "40"))
PROMPTS = 24 * KILLS
CONCURRENCY = 8
RESUME = "--resume"
LONGEST_LIFE_S = 0.5


@pytest.mark.timeout(60 + 6 * KILLS)
def test_run_killed_at_random_moments_is_complete_and_repeats_no_answered_call(tmp_path: Path) -> None:
    """Kill -9 at random moments, resume until done: all prompts once, answered calls never sent again."""
    chance = random.Random(20261129)
    dataset = gsm8k(tmp_path / "prompts.jsonl", PROMPTS)
    asked = sorted(row["prompt"] for row in rows_of(dataset))
    account = tmp_path / "account.jsonl"
    kills = 0
    with running_endpoint(latency_ms=120, account_file=account) as endpoint:
        command: list[object] = [
            "run", dataset, "--run-name", "r", "--model", "m", "--base-url", endpoint.base_url,
            "--toolsets", "none", RESUME, "--concurrency", CONCURRENCY,
        ]  # fmt: skip
        while kills < KILLS:
            process = start(*command, cwd=tmp_path)
            time.sleep(chance.uniform(0, LONGEST_LIFE_S))
            assert process.poll() is None, finish(process)
            kill(process)
            kills += 1
            if command[-1] is not RESUME and _planned(tmp_path):
                command = ["run", "--run-name", "r", RESUME]
        last = finish(start(*command, "--json", cwd=tmp_path), timeout_s=60 + 3 * KILLS)
        assert last.code == 0, last
        requests = endpoint.requests()
    run = tmp_path / "data/r"
    assert sorted(prompts_of(run)) == asked
    assert evrun("verify", "r", cwd=tmp_path).code == 0
    assert evrun("replay", "r", "--check", cwd=tmp_path).code == 0
    served = Counter(request["prompt"] for request in requests)
    # Only a call whose answer was not yet durable may be sent again: at most those in flight, once per kill.
    assert sum(served.values()) <= PROMPTS + CONCURRENCY * kills
    assert _answers_recorded_twice(run, tmp_path) == 0
    assert views_of(run)


def _planned(tmp_path: Path) -> bool:
    """Whether the run knows all its rows, so that the dataset is needed no more."""
    status = evrun("status", "r", "--json", cwd=tmp_path)
    return status.code == 0 and status.json["counts"]["total"] == PROMPTS


def _answers_recorded_twice(run: Path, tmp_path: Path) -> int:
    """How many prompts have more than one recorded answer, though none of them needed a second attempt."""
    listed = evrun("events", run, "--type", "ModelAnswered", "--json", cwd=tmp_path)
    assert listed.code == 0, listed
    units = Counter(line.split('"unit": ')[1].split(",")[0] for line in listed.stdout.splitlines())
    return sum(count > 1 for count in units.values())


def test_kill_within_a_moment_of_the_resume_costs_nothing(tmp_path: Path) -> None:
    """Resume, kill within 200 ms, resume: finished prompts are not asked again."""
    dataset = gsm8k(tmp_path / "prompts.jsonl", 30)
    with running_endpoint(latency_ms=50) as endpoint:
        first = start(
            "run", dataset, "--run-name", "r", "--model", "m", "--base-url", endpoint.base_url, cwd=tmp_path
        )
        while endpoint.totals()["answered"] < 15:
            time.sleep(0.01)
        kill(first)
        for delay in (0.05, 0.1, 0.15, 0.2):
            again = start("run", "--run-name", "r", "--resume", cwd=tmp_path)
            with contextlib.suppress(subprocess.TimeoutExpired):
                again.wait(delay)
            kill(again)
        ended = evrun("run", "--run-name", "r", "--resume", cwd=tmp_path)
        assert ended.code == 0, ended
        repeats = endpoint.totals()["requests"] - 30
    assert repeats <= 8 * 5
    assert len(prompts_of(tmp_path / "data/r")) == 30
    assert _answers_recorded_twice(tmp_path / "data/r", tmp_path) == 0
