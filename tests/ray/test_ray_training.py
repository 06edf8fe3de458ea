"""Training runs whose rollouts are on the nodes of a real cluster, one of which is killed in a step."""

import json
import sys
from collections import Counter

import pytest

from eventlog.events import RolloutFinished, RolloutJudged, SpendInDoubt
from tests.endpoint.client import running_endpoint
from tests.ray.accounts import check_accounts, events_of, workers_of
from tests.ray.cluster import NODES
from tests.runs import evrun, finish, start, wait_until
from tests.training.toys import RULE, Toy

ASKED = 2
"""So often each rollout asks a model."""

FUNCTION = f"""
import os

async def run(task, adapter, ctx):
    for number in range({ASKED}):
        await ctx.complete([{{"role": "user", "content": "%s %d" % (task["id"], number)}}])
    (ctx.directory / "pid").write_text(str(os.getpid()))
    rules = (adapter / "ADAPTER.md").read_text()
    (adapter / "ADAPTER.md").write_text("mine to spoil")
    return task["prompt"].upper() if {RULE!r} in rules else task["prompt"].lower()
"""

PROGRAM = f"""
import json, os, pathlib, sys, urllib.request

task = json.load(sys.stdin)
for number in range({ASKED}):
    body = {{"model": "m", "messages": [{{"role": "user", "content": "%s %d" % (task["id"], number)}}]}}
    request = urllib.request.Request(
        os.environ["OPENAI_BASE_URL"] + "/chat/completions", json.dumps(body).encode(),
        {{"Authorization": "Bearer " + os.environ["OPENAI_API_KEY"], "Content-Type": "application/json"}})
    urllib.request.urlopen(request).read()
rules = (pathlib.Path(os.environ["EVRUN_ADAPTER"]) / "ADAPTER.md").read_text()
print(task["prompt"].upper() if {RULE!r} in rules else task["prompt"].lower())
"""

CHAT_JUDGE = f"""
from evrun import JudgeResult

def score(task, output):
    good = output == "Answer to " + task["prompt"] + "!"
    return JudgeResult(1.0 if good else 0.0, "The rule is: {RULE}")
"""


def toy(directory, cluster, endpoint, kind, **changes):
    """The toy with rollouts that ask the endpoint, on the cluster."""
    made = Toy(
        directory, model="t/m", data__step_size=4,
        backends={"t": {"base_url": endpoint.base_url, "prices": {"m": {"input": 1, "output": 1}}}},
        agent__name="agent.py:run", agent__concurrency=4,
        trainer__executor="ray", trainer__ray_address=cluster.address, **changes,
    )  # fmt: skip
    config = json.loads(made.config.read_text())
    if kind == "function":
        (directory / "agent.py").write_text(FUNCTION)
    elif kind == "program":
        (directory / "program.py").write_text(PROGRAM)
        config["agent"]["name"] = f"command:{sys.executable} {directory / 'program.py'}"
    else:
        config["agent"] = {"name": "chat", "concurrency": 4, "params": {"toolsets": ["terminal"]}}
        (directory / "judge.py").write_text(CHAT_JUDGE)
    made.config.write_text(json.dumps(config))
    return made


def check_whole(made, cwd):
    """The log is whole, its money adds up, and each file is what it says."""
    for words in (("verify", made.run), ("audit", made.run), ("replay", made.run, "--check")):
        assert evrun(*words, cwd=cwd).code == 0, words


def scores(made):
    """The scores of the steps, by task; the bootstrap has none."""
    return [step["rollout"]["scores"] for step in made.steps()[1:]]


@pytest.mark.parametrize("kind", ["function", "program"])
def test_rollouts_of_own_agents_work_on_nodes_and_learn(kind, cluster, tmp_path):
    """Code and programs of the user's run on the nodes, with the adapter of their step, and are paid once."""
    with running_endpoint() as endpoint:
        made = toy(tmp_path, cluster, endpoint, kind)
        ended = evrun("train", "--config", made.config, cwd=tmp_path, **cluster.environment)
        assert ended.code == 0, ended
        served = endpoint.requests()
    tasks = {"t1", "t2", "t3", "t4"}
    assert scores(made) == [dict.fromkeys(tasks, 0.0), dict.fromkeys(tasks, 1.0)]
    assert len(served) == ASKED * 8
    check_accounts(events_of(made.run), served)
    check_whole(made, tmp_path)
    assert (made.run / "checkout/ADAPTER.md").read_text().rstrip().endswith(RULE)


def test_a_node_killed_in_a_step_loses_no_rollout_and_counts_none_twice(cluster, tmp_path):
    """The step has a score for each task; what was in flight on the node is in doubt, and all else paid."""
    call = {"tool_calls": [{"name": "terminal", "arguments": {"command": "printf x > f; cat f"}}]}
    rules = [{"match": {"turn": 1}, "then": call}, {"then": {"text": "Answer to {prompt}!"}}]
    with running_endpoint(latency_ms=1500, rules=rules) as endpoint:
        made = toy(tmp_path, cluster, endpoint, "chat")
        process = start("train", "--config", made.config, cwd=tmp_path, **cluster.environment)
        wait_until(
            lambda: endpoint.totals()["answered"] > 0 and len(workers_of(made.run)) >= NODES, "two workers"
        )
        # Each node has two of the four rollouts: of three calls in flight one is on the node that dies.
        wait_until(
            lambda: endpoint.totals()["answered"] >= 4 and endpoint.totals()["in_flight"] >= 3, "calls"
        )
        cluster.kill(cluster.alive[0])
        ended = finish(process)
        assert ended.code == 0, ended
        served = endpoint.requests()
    events = events_of(made.run)
    calls = check_accounts(events, served)
    assert calls.in_doubt.total() > 0
    assert all("node" in event.reason for event in events if isinstance(event, SpendInDoubt))
    ended_well = Counter(
        event.unit for event in events if isinstance(event, RolloutFinished) and event.status == "ok"
    )
    assert len(ended_well) == 8
    assert set(ended_well.values()) == {1}
    judged = Counter(event.unit for event in events if isinstance(event, RolloutJudged))
    assert judged == ended_well
    assert all(set(step.values()) == {1.0} and len(step) == 4 for step in scores(made))
    check_whole(made, tmp_path)
