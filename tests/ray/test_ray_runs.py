"""Batch runs whose sessions are on the nodes of a real cluster, which are killed in full flight.

`EVRUN_RAY_KILLS` says how often a node is killed in the long test (default 1, which is the test below).
"""

import os
from typing import Any

import msgspec
import pytest

from eventlog.events import (
    AttemptSuperseded,
    BudgetSpent,
    Event,
    RunStarted,
    SpendInDoubt,
)
from tests.endpoint.client import running_endpoint
from tests.ray.accounts import check_accounts, check_ended_once, events_of, workers_of
from tests.ray.cluster import NODES
from tests.runs import evrun, finish, gsm8k, kill, prompts_of, rows_of, start, wait_until, write_prompts

KILLS = int(os.environ.get("EVRUN_RAY_KILLS", "1"))
CONCURRENCY = 8


def command(cluster, endpoint, dataset, *more: object) -> list[object]:
    """A run on the cluster."""
    return [
        "run", dataset, "--run-name", "r", "--model", "m", "--base-url", endpoint.base_url,
        "--executor", "ray", "--ray-address", cluster.address, *more,
    ]  # fmt: skip


def in_flight(run, endpoint, answered: int) -> None:
    """Wait until both nodes are at work, so many requests were answered, and others are on their way.

    Of more than half of all that may be, some are on each node.
    """
    wait_until(
        lambda: endpoint.totals()["answered"] > 0 and len(workers_of(run)) >= NODES, "two workers at work"
    )

    def is_so() -> bool:
        totals = endpoint.totals()
        return totals["answered"] >= answered and totals["in_flight"] > CONCURRENCY // 2

    wait_until(is_so, f"{answered} answers, and calls in flight")


def facts_of(events: list[Event]) -> list[Any]:
    """Events without what is another in every run: times, processes, what calls and the run are called."""
    calls: dict[str, int] = {}
    found: list[Any] = []
    for event in events:
        fields = msgspec.structs.asdict(event)
        if "call" in fields:
            fields["call"] = calls.setdefault(fields["call"], len(calls))
        if isinstance(event, RunStarted):
            fields = {}
        for name in OF_ONE_RUN:
            fields.pop(name, None)
        found.append((type(event).__name__, fields))
    return found


OF_ONE_RUN = ("elapsed_ms", "request_id", "duration_ms", "active_ns", "pid", "host", "version")


TURNS = [
    {
        "match": {"turn": 1, "contains": "tool"},
        "then": {"tool_calls": [{"name": "terminal", "arguments": {"command": "printf abc > f; wc -c < f"}}]},
    }
]


def test_one_session_at_a_time_leaves_the_log_that_a_run_of_this_process_leaves(cluster, tmp_path):
    """The same events in the same order, so the same views; `replay --check` finds each byte again."""
    prompts = ["one", "two tool", "three", "four tool", "five"]
    found = []
    with running_endpoint(rules=TURNS) as endpoint:
        for place, more in (("local", []), ("ray", ["--executor", "ray", "--ray-address", cluster.address])):
            directory = tmp_path / place
            directory.mkdir()
            dataset = write_prompts(directory / "d.jsonl", prompts)
            ended = evrun(
                "run", dataset, "--run-name", "r", "--model", "m", "--base-url", endpoint.base_url,
                "--toolsets", "terminal", "--concurrency", 1, *more,
                cwd=directory, **cluster.environment,
            )  # fmt: skip
            assert ended.code == 0, ended
            assert evrun("replay", "r", "--check", cwd=directory).code == 0
            found.append(facts_of(events_of(directory / "data/r")))
    assert found[0] == found[1]


@pytest.mark.timeout(60 + 60 * KILLS)
def test_a_node_killed_in_full_flight_loses_nothing_and_doubles_nothing(cluster, tmp_path):
    """All prompts end exactly once; every request that was served is settled or in doubt, by name."""
    count = 80 * KILLS
    prompts = [f"prompt {number}{' tool' if number % 3 == 0 else ''}" for number in range(count)]
    dataset = write_prompts(tmp_path / "d.jsonl", prompts)
    with running_endpoint(latency_ms=400, rules=TURNS) as endpoint:
        process = start(
            *command(cluster, endpoint, dataset, "--toolsets", "terminal", "--concurrency", CONCURRENCY),
            cwd=tmp_path, **cluster.environment,
        )  # fmt: skip
        for number in range(KILLS):
            in_flight(tmp_path / "data/r", endpoint, 12 + 40 * number)
            cluster.kill(cluster.alive[number % 2])
            if number + 1 < KILLS:
                cluster.restore()
        ended = finish(process)
        assert ended.code == 0, ended
        served = endpoint.requests()
    run = tmp_path / "data/r"
    events = events_of(run)
    check_ended_once(events, count)
    assert sorted(prompts_of(run)) == sorted(prompts)
    calls = check_accounts(events, served)
    assert calls.in_doubt.total() > 0
    reasons = {event.reason for event in events if isinstance(event, SpendInDoubt)}
    assert all("node" in reason for reason in reasons), reasons
    # In words of ours, not in Ray's.
    ours = ("its node is gone", "its process has ended", "it cannot be reached")
    assert all(reason.endswith(ours) for reason in reasons), reasons
    # Only what was in flight on that node is asked again.
    assert len(served) <= count + sum(" tool" in prompt for prompt in prompts) + 2 * CONCURRENCY * KILLS
    assert evrun("verify", "r", cwd=tmp_path).code == 0
    assert evrun("audit", "r", cwd=tmp_path).code == 0
    assert evrun("replay", "r", "--check", cwd=tmp_path).code == 0


def test_a_driver_killed_in_full_flight_goes_on_where_its_log_ends(cluster, tmp_path):
    """Kill -9 of the one writer: the nodes' sessions end with it; a resume asks nothing answered again."""
    dataset = gsm8k(tmp_path / "d.jsonl", 50)
    with running_endpoint(latency_ms=400) as endpoint:
        process = start(
            *command(cluster, endpoint, dataset, "--toolsets", "none", "--concurrency", CONCURRENCY),
            cwd=tmp_path, **cluster.environment,
        )  # fmt: skip
        in_flight(tmp_path / "data/r", endpoint, 12)
        kill(process)
        ended = evrun(
            "run", "--run-name", "r", "--resume", "--executor", "ray", "--ray-address", cluster.address,
            cwd=tmp_path, **cluster.environment,
        )  # fmt: skip
        assert ended.code == 0, ended
        wait_until(lambda: endpoint.totals()["in_flight"] == 0, "the endpoint to come to rest")
        served = endpoint.requests()
    run = tmp_path / "data/r"
    events = events_of(run)
    check_ended_once(events, 50)
    check_accounts(events, served)
    assert sorted(prompts_of(run)) == sorted(row["prompt"] for row in rows_of(dataset))
    assert sum(isinstance(event, BudgetSpent) for event in events) == 50
    assert len(served) <= 50 + CONCURRENCY
    assert not [event for event in events if isinstance(event, AttemptSuperseded)]
