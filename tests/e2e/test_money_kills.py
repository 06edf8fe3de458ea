"""Killed under a cap, again and again: the truth stays in the bracket, the bracket stays within the cap.

`EVRUN_MONEY_SEEDS` says how many games are played (default 2, a slice for CI; the full suite is 50).
"""

import os
import random
import time
from pathlib import Path

import pytest

from tests.e2e.money import account, check_all_named, check_promise
from tests.endpoint.client import running_endpoint
from tests.runs import evrun, finish, gsm8k, kill, prompts_of, rows_of, start, wait_until

SEEDS = int(os.environ.get("EVRUN_MONEY_SEEDS", "2"))
PROMPTS = 120
CONCURRENCY = 6
KILLS = 5
PRICE = "m=0.1,100"
TEXT = "word " * 40
"""With the reasoning of eight words an answer has 48 tokens of the 64 that it may have."""
REASONING = "I have thought about this for a while"
CAP, RAISED = 490_000_000, 2_000_000_000
"""The cap is about 75 calls at their bounds: what is in doubt after five kills, and half of the work."""


def _usd(nano: int) -> str:
    return f"{nano / 10**9:.2f}"


@pytest.mark.timeout(240)
@pytest.mark.parametrize("seed", range(SEEDS))
def test_the_truth_is_in_the_bracket_and_within_the_cap_at_every_stop(tmp_path: Path, seed: int) -> None:
    """Five kills, the cap, a higher cap: settled <= truth <= settled + in doubt + reserved <= cap."""
    chance = random.Random(seed)
    dataset = gsm8k(tmp_path / "d.jsonl", PROMPTS)
    run = tmp_path / "data/r"
    with running_endpoint(latency_ms=40, latency_spread_ms=80, text=TEXT, reasoning=REASONING) as endpoint:
        command: list[object] = [
            "run", dataset, "--run-name", "r", "--model", "m", "--base-url", endpoint.base_url, "--resume",
            "--toolsets", "none", "--price", PRICE, "--max-tokens", 64, "--concurrency", CONCURRENCY,
            "--budget-usd", _usd(CAP),
        ]  # fmt: skip
        for _ in range(KILLS):
            asked = endpoint.totals()["requests"] + chance.randint(1, 6)
            process = start(*command, cwd=tmp_path)
            wait_until(lambda asked=asked: endpoint.totals()["requests"] >= asked, f"{asked} requests")
            time.sleep(chance.uniform(0, 0.12))
            assert kill(process).code == -9
            check_promise(account(run, endpoint, PRICE), CAP)
            check_all_named(run, endpoint)

        paused = evrun(*command, "--json", cwd=tmp_path)
        assert paused.code == 4, paused
        assert "--budget-usd" in paused.json["reason"]
        counts = paused.json["counts"]
        assert 0 < counts["kept"] < PROMPTS
        assert counts["failed"] == counts["discarded"] == 0
        found = account(run, endpoint, PRICE)
        check_promise(found, CAP)
        assert found.reserved == 0
        asked_once = endpoint.totals()["requests"]
        again = evrun("run", "--run-name", "r", "--resume", "--json", cwd=tmp_path)
        assert (again.code, endpoint.totals()["requests"]) == (4, asked_once)

        done = evrun(
            "run", "--run-name", "r", "--resume", "--budget-usd", _usd(RAISED), "--json", cwd=tmp_path
        )
        assert done.code == 0, done
        assert done.json["counts"]["kept"] == PROMPTS
        found = account(run, endpoint, PRICE)
        check_promise(found, CAP, RAISED)
        check_all_named(run, endpoint)
        # An answer that was recorded is never asked for again: every further request is a call in doubt.
        assert endpoint.totals()["billed"] <= PROMPTS + len(found.state.ledger.in_doubt)
    assert sorted(prompts_of(run)) == sorted(row["prompt"] for row in rows_of(dataset))
    assert evrun("replay", "r", "--check", cwd=tmp_path).code == 0
    audit = evrun("audit", "r", "--json", cwd=tmp_path)
    assert audit.code == 0, audit
    assert int(audit.json["settled_usd"].replace(".", "").ljust(10, "0")) == found.settled


def test_of_fifty_calls_at_once_against_a_cap_for_three_three_are_sent(tmp_path: Path) -> None:
    """Each costs exactly its bound; the cap is met to the last nano-USD and then pauses the run."""
    dataset = gsm8k(tmp_path / "d.jsonl", 50)
    with running_endpoint(latency_ms=100, text="word " * 70, reasoning="because") as endpoint:
        ended = evrun(
            "run", dataset, "--run-name", "r", "--model", "m", "--base-url", endpoint.base_url, "--toolsets",
            "none", "--price", "m=0,100", "--max-tokens", 50, "--concurrency", 50, "--budget-usd", "0.015",
            "--json", cwd=tmp_path,
        )  # fmt: skip
        assert ended.code == 4, ended
        totals = endpoint.totals()
        assert (totals["requests"], totals["max_in_flight"]) == (3, 3)
        found = account(tmp_path / "data/r", endpoint, "m=0,100")
    assert (found.settled, found.truth, found.cap) == (15_000_000, 15_000_000, 15_000_000)


def test_three_of_fifty_that_hang_keep_the_others_back_and_stay_in_doubt(tmp_path: Path) -> None:
    """While three may have cost all of the cap, nobody else is sent: not now, and not after a kill."""
    dataset = gsm8k(tmp_path / "d.jsonl", 50)
    rules = [{"match": {}, "then": {"fault": "hang"}}]
    with running_endpoint(rules=rules) as endpoint:
        command: list[object] = [
            "run", dataset, "--run-name", "r", "--model", "m", "--base-url", endpoint.base_url, "--toolsets",
            "none", "--price", "m=0,100", "--max-tokens", 50, "--concurrency", 50, "--budget-usd", "0.0199",
        ]  # fmt: skip
        process = start(*command, cwd=tmp_path)
        wait_until(lambda: endpoint.totals()["faults"] == 3, "three requests")
        time.sleep(0.3)
        assert kill(process).code == -9
        resumed = finish(start("run", "--run-name", "r", "--resume", "--json", cwd=tmp_path))
        assert resumed.code == 4, resumed
        assert endpoint.totals()["requests"] == 3
        found = account(tmp_path / "data/r", endpoint, "m=0,100")
    assert (found.settled, found.in_doubt, len(found.state.ledger.in_doubt)) == (0, 15_000_000, 3)
    assert resumed.json["counts"]["failed"] == 0
