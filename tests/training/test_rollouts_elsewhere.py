"""Rollouts on workers: the same as in the driver's own process, whatever becomes of a worker."""

import re

import msgspec
import pytest

from eventlog.events import (
    BudgetReserved,
    ModelAnswered,
    RolloutFinished,
    RolloutStarted,
    SpendInDoubt,
    ToolStarted,
)
from evrun.errors import leaf
from evrun.executors.losses import MOST_LOST
from evrun.executors.rollouts import RolloutExtra
from tests.endpoint.client import running_endpoint
from tests.executors.here import Here
from tests.training.rolling import Stand, output_of, written

ONE = {"a": {"id": "a", "prompt": "What is a?", "answer": "Answer to What is a?"}}
TWO = ONE | {"b": {"id": "b", "prompt": "What is b?", "answer": "Answer to What is b?"}}
ASKING = """
async def run(task, adapter, ctx):
    said = [(await ctx.complete([{"role": "user", "content": f"{task['id']}{n}"}])).text for n in range(3)]
    return " ".join(said)
"""
TOOL = {
    "match": {"turn": 1},
    "then": {"tool_calls": [{"name": "terminal", "arguments": {"command": "pwd"}}]},
}
_CALL = re.compile(r"s\d+(n\d+)?\.c\d+")
_OTHER = ("elapsed_ms", "duration_ms", "wall_ms", "request_id")


@pytest.fixture(autouse=True)
def _look_often(monkeypatch):
    """Nodes are looked at more often than on a real cluster."""
    monkeypatch.setattr("evrun.executors.pool.LOOK_S", 0.1)


@pytest.fixture
def endpoint():
    """An endpoint that keeps bodies."""
    with running_endpoint(keep_bodies=True) as running:
        yield running


def told(event):
    """An event without what differs from run to run: times, names of calls."""
    same = {name: 0 for name in _OTHER if hasattr(event, name)}
    return _CALL.sub("CALL", repr(msgspec.structs.replace(event, **same)))


def lose_at(stand, kind, count=1):
    """The node that is at work dies once so many events of a kind are durable."""
    seen, callers = [], []

    def see(record):
        if isinstance(record.event, BudgetReserved):
            callers.append(_CALL.fullmatch(record.event.call).group(1)[1:])
        if isinstance(record.event, kind):
            seen.append(record)
            if len(seen) == count:
                (line,) = [
                    one for one in stand.cluster.lines if one.name.startswith(f"worker {callers[-1]} ")
                ]
                stand.cluster.lose(line.place)

    stand.see = see


@pytest.mark.parametrize("kind", ["chat", "function"])
def test_rollouts_on_a_worker_leave_the_same_events_as_here(kind, tmp_path, endpoint):
    """One at a time: the same facts in the same order; the adapter is carried along, and spoils nobody's."""
    found = []
    for place in ("here", "there"):
        directory = tmp_path / place
        directory.mkdir()
        agent = kind if kind == "chat" else f"{written(directory, ASKING)}run"
        stand = Stand(directory, TWO, base_url=endpoint.base_url, agent=agent)
        stand.adapter = directory / "adapter"
        stand.adapter.mkdir()
        (stand.adapter / "ADAPTER.md").write_text("Be short.")
        stand.cluster = None if place == "here" else Here(2)
        for task in TWO:
            stand.run(task)
        found.append([told(event) for event in stand.events()[2:]])
        assert not list(directory.glob("work/*"))
    # The second session has a number of its own in both.
    assert found[0] == found[1]


def test_a_lost_worker_costs_what_was_in_flight_and_nothing_that_was_answered(tmp_path):
    """An agent goes on elsewhere with its recorded answer; the open call is in doubt, and made again."""
    with running_endpoint(latency_ms=100) as endpoint:
        agent = f"{written(tmp_path, ASKING)}run"
        stand = Stand(tmp_path, ONE, base_url=endpoint.base_url, agent=agent)
        stand.cluster = Here(1, 1)
        lose_at(stand, BudgetReserved, 2)
        stand.run()
        asked = [request["prompt"] for request in endpoint.requests()]
    assert [(one.attempt, one.carried) for one in stand.events(RolloutStarted)] == [(1, False), (1, True)]
    (doubt,) = stand.events(SpendInDoubt)
    assert re.search(r"worker \d on node .* was lost", doubt.reason)
    (end,) = stand.events(RolloutFinished)
    assert output_of(end) == "Answer to a0 Answer to a1 Answer to a2"
    assert len(stand.events(ModelAnswered)) == 3
    assert asked.count("a0") == asked.count("a2") == 1
    assert stand.rollout("a").judged


def test_tools_whose_directory_is_gone_are_not_taken_for_done(tmp_path):
    """A worker is lost in the middle of a tool: its attempt is superseded, another makes all of it anew."""
    with running_endpoint(rules=[TOOL, {"then": {"text": "done"}}]) as endpoint:
        stand = Stand(tmp_path, ONE, base_url=endpoint.base_url, toolsets=["terminal"])
        stand.cluster = Here(1, 1)
        lose_at(stand, ToolStarted)
        stand.run()
    first, second = stand.events(RolloutFinished)
    assert (first.status, first.error_class) == ("error", "superseded")
    assert (second.attempt, output_of(second)) == (2, "done")
    assert stand.rollout("a").failures == 0


def test_a_task_that_ends_its_workers_fails_and_keeps_nobody_busy_for_ever(tmp_path, endpoint):
    """After so many lost workers the attempt is an error of its own class; others are judged."""
    stand = Stand(
        tmp_path, TWO, base_url=endpoint.base_url, agent=f"{written(tmp_path, ASKING)}run", retries=0
    )
    stand.cluster = Here(1)

    def see(record):
        event = record.event
        if isinstance(event, BudgetReserved) and event.unit.endswith(":a"):
            stand.cluster.lines[-1].kill()

    stand.see = see
    stand.run("a")
    stand.run("b")
    (failed, well) = stand.events(RolloutFinished)
    assert (failed.status, failed.error_class) == ("error", "worker_lost")
    assert f"{MOST_LOST} workers were lost" in failed.message
    assert len(stand.events(SpendInDoubt)) == MOST_LOST
    assert well.status == "ok"


def test_a_node_with_other_code_of_the_agent_works_on_nothing(tmp_path, endpoint):
    """Its workers do not open, and say which file differs; the run ends and can be gone on with."""

    def other(opening):
        extra = msgspec.msgpack.decode(opening.extra, type=RolloutExtra)
        extra = msgspec.structs.replace(extra, code={"agent.name": "0" * 64})
        return msgspec.structs.replace(opening, extra=msgspec.msgpack.encode(extra))

    stand = Stand(tmp_path, ONE, base_url=endpoint.base_url, agent=f"{written(tmp_path, ASKING)}run")
    stand.cluster = Here(1, at_open=other)
    with pytest.raises(ExceptionGroup) as caught:
        stand.run()
    assert "the agent's code on this node is not the driver's: agent.name" in str(leaf(caught.value))
    assert endpoint.requests() == []
    stand.cluster = Here(1)
    stand.run()
    assert stand.rollout("a").judged
