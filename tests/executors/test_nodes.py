"""Prompts on workers: the driver's side and the worker's side against each other, in one process."""

import re

import msgspec
import pytest

from eventlog.events import (
    AttemptSuperseded,
    BudgetReserved,
    ModelAnswered,
    ModelAsked,
    PromptFailed,
    SpendInDoubt,
    ToolFinished,
    TrajectoryCompleted,
    decode_event,
    encode_event,
)
from eventlog.storage import LogReader
from evrun.batch import Switch
from evrun.effects.clock import monotonic
from projections import recorded
from tests.endpoint.client import running_endpoint
from tests.executors.here import Here, batch, rows
from tests.runs import rows_of

PROMPTS = [f"prompt {number}" for number in range(12)]
_CALL = re.compile(r"s\d+(n\d+)?\.c\d+")
WRITE = {"name": "terminal", "arguments": {"command": "echo a > f; cat f"}}
READ = {"name": "read_file", "arguments": {"path": "f"}}
TOOLS = [
    {"match": {"turn": 1}, "then": {"tool_calls": [WRITE]}},
    {"match": {"turn": 2}, "then": {"tool_calls": [READ]}},
]


@pytest.fixture(name="endpoint")
def _endpoint():
    with running_endpoint() as endpoint:
        yield endpoint


@pytest.fixture(autouse=True)
def _look_often(monkeypatch):
    """Nodes are looked at more often than on a real cluster."""
    monkeypatch.setattr("evrun.executors.pool.LOOK_S", 0.1)


def events_of(directory):
    """The events of a run."""
    return [record.event for record in recorded(LogReader.open(directory / "log"))]


def told(event):
    """An event without what differs from run to run: times, names of calls, the process."""
    timeless = {name: 0 for name in ("elapsed_ms", "duration_ms", "request_id") if hasattr(event, name)}
    same = msgspec.structs.replace(event, **timeless)
    return _CALL.sub("CALL", repr(same))


def work_of(directory):
    """What the work of a run has recorded: all between its plan and its end."""
    skipped = ("RunStarted", "SessionOpened", "SessionClosed", "PromptsPlanned")
    return [told(event) for event in events_of(directory) if type(event).__name__ not in skipped]


def timeless_rows(path):
    """Rows without what a clock or an id decides."""
    found = rows_of(path)
    for row in found:
        row.pop("duration_s")
        row["metadata"].pop("timestamp")
    return found


@pytest.mark.parametrize("agent", ["chat", "function", "command"])
def test_what_is_recorded_and_shown_is_what_a_local_run_does(endpoint, tmp_path, agent):
    """One at a time, the same events come in the same order, and the files hold the same."""
    endpoint.set_rules(TOOLS if agent == "chat" else [])
    given = {"base_url": endpoint.base_url, "concurrency": 1}
    if agent == "chat":
        given |= {"toolsets": ["terminal", "file"], "judge": f"{_judge(tmp_path)}:score"}
    elif agent == "function":
        given |= {"agent": f"{_agent(tmp_path)}:agent", "toolsets": ["file"]}
    else:
        given |= {"agent": f"command:python3 {_program(tmp_path)}"}
    dataset = rows(tmp_path, *PROMPTS[:3])
    local, _ = batch(dataset, tmp_path / "local", **given)
    away, _ = batch(dataset, tmp_path / "away", Here(1), **given)
    assert (local.exit_code, local.state.batch.counts["kept"]) == (0, 3)
    assert (away.exit_code, away.reason) == (0, None)
    assert work_of(tmp_path / "away/r") == work_of(tmp_path / "local/r")
    for name in ("trajectories.jsonl", "batch_1.jsonl"):
        assert timeless_rows(tmp_path / "away/r" / name) == timeless_rows(tmp_path / "local/r" / name)


def _judge(place):
    path = place / "judge.py"
    path.write_text("def score(prompt, trajectory):\n    return float(len(prompt))\n")
    return path


def _agent(place):
    path = place / "own_agent.py"
    path.write_text(
        "async def agent(prompt, ctx):\n"
        "    await ctx.tool('write_file', path='f', content=prompt)\n"
        "    first = await ctx.complete([{'role': 'user', 'content': prompt}])\n"
        "    said = {'role': 'assistant', 'content': first.text}\n"
        "    more = {'role': 'user', 'content': 'more'}\n"
        "    await ctx.complete([{'role': 'user', 'content': prompt}, said, more])\n"
    )
    return path


def _program(place):
    path = place / "program.py"
    path.write_text(
        "import json, os, urllib.request\n"
        "messages = [{'role': 'user', 'content': os.environ['EVRUN_PROMPT']}]\n"
        "body = json.dumps({'model': 'm', 'messages': messages}).encode()\n"
        "url = os.environ['OPENAI_BASE_URL'] + '/chat/completions'\n"
        "headers = {'Authorization': 'Bearer ' + os.environ['OPENAI_API_KEY']}\n"
        "asked = urllib.request.Request(url, body, headers)\n"
        "print(urllib.request.urlopen(asked).read())\n"
    )
    return path


def test_sessions_are_shared_out_over_all_nodes(endpoint, tmp_path):
    """Each node works, as many sessions at once as `--concurrency` says and no more; the cluster is left."""
    cluster = Here(2, 2)
    result, _ = batch(rows(tmp_path, *PROMPTS), tmp_path, cluster, base_url=endpoint.base_url, concurrency=4)
    assert result.state.batch.counts["kept"] == len(PROMPTS)
    worked = {line.place.node for line in cluster.lines if len(line.said) > 1}
    assert worked == {place.node for place in cluster.nodes}
    assert endpoint.totals()["max_in_flight"] <= 4
    assert cluster.closed


def test_a_cap_holds_over_all_workers(endpoint, tmp_path):
    """Ten calls are allowed, and ten are made, however many workers ask; then the run is paused."""
    result, _ = batch(
        rows(tmp_path, *PROMPTS), tmp_path, Here(2, 2), base_url=endpoint.base_url, caps={"calls": 10}
    )
    assert (result.exit_code, result.name) == (4, "paused")
    assert endpoint.totals()["requests"] == result.state.ledger.total.settled_calls == 10


def test_a_request_that_can_never_be_sent_ends_its_prompt(endpoint, tmp_path):
    """What the driver refuses for good fails the prompt there as here, with the beginning of its attempt."""
    result, _ = batch(
        rows(tmp_path, "one"), tmp_path, Here(1), base_url=endpoint.base_url, prices=["m=1,1"], max_tokens=9,
        caps={"prompt_usd": 1},
    )  # fmt: skip
    assert result.state.batch.failed_by_class == {"prompt_budget": 1}
    kinds = [type(event).__name__ for event in events_of(tmp_path / "r")]
    assert kinds[kinds.index("PromptStarted") + 1] == "PromptFailed"
    assert endpoint.totals()["requests"] == 0


def test_a_provider_that_wants_a_pause_holds_everybody_back(endpoint, tmp_path):
    """A 429 that one worker is told keeps the others from sending too; waiting as told fails nothing."""
    endpoint.set_rules([{"match": {}, "times": 1, "then": {"status": 429, "headers": {"Retry-After": "1"}}}])
    began = monotonic()
    result, _ = batch(
        rows(tmp_path, *PROMPTS), tmp_path, Here(1, 1), base_url=endpoint.base_url, concurrency=2, retries=0
    )
    assert result.state.batch.counts["kept"] == len(PROMPTS)
    assert monotonic() - began >= 1


def test_a_wrong_key_ends_the_run_from_wherever_it_was_seen(tmp_path):
    """The worker that is refused stops all of them, with the line that a local run has; nothing fails."""
    with running_endpoint(api_key="another") as endpoint:
        result, _ = batch(rows(tmp_path, *PROMPTS), tmp_path, Here(1, 1), base_url=endpoint.base_url)
    assert (result.exit_code, result.name) == (1, "failed")
    assert "refused the key (--api-key-env OPENAI_API_KEY)" in result.reason
    assert result.state.batch.counts["failed"] == 0


def test_told_to_end_it_lets_calls_in_flight_finish(tmp_path):
    """After a stop nothing new is sent, what was sent is settled, and a local session goes on from there."""
    switch = Switch()

    def see(record):
        if isinstance(record.event, BudgetReserved):
            switch.turn()

    dataset = rows(tmp_path, *PROMPTS)
    with running_endpoint(latency_ms=100) as endpoint:
        result, _ = batch(
            dataset, tmp_path, Here(2), base_url=endpoint.base_url, concurrency=2, see=see, switch=switch
        )
        assert (result.exit_code, result.name) == (130, "interrupted")
        sent = endpoint.totals()["requests"]
        assert result.state.ledger.total.settled_calls == sent < len(PROMPTS)
        again, _ = batch(None, tmp_path, resume=True)
        assert again.state.batch.counts["kept"] == len(PROMPTS) == endpoint.totals()["requests"]


def test_a_lost_node_loses_and_doubles_nothing(tmp_path):
    """Its open calls are in doubt, naming it; its prompts end elsewhere; the account agrees with the log."""
    cluster = Here(1, 1)

    def see(record):
        answered.append(record) if isinstance(record.event, ModelAnswered) else None
        if len(answered) == 3 and len(cluster.nodes) == 2:
            cluster.lose(cluster.nodes[0])

    answered = []
    with running_endpoint(latency_ms=50, latency_spread_ms=50) as endpoint:
        result, notes = batch(
            rows(tmp_path, *PROMPTS), tmp_path, cluster, base_url=endpoint.base_url, concurrency=4, see=see
        )
        account = endpoint.totals()
    assert (result.exit_code, result.state.batch.counts["kept"]) == (0, len(PROMPTS))
    events = events_of(tmp_path / "r")
    ends = [event.unit for event in events if isinstance(event, TrajectoryCompleted)]
    assert len(ends) == len(set(ends)) == len(PROMPTS)
    doubts = [event for event in events if isinstance(event, SpendInDoubt)]
    assert doubts
    assert all("on node 127.0.0.1 (node0-of) was lost: it was killed" in doubt.reason for doubt in doubts)
    settled = sum(isinstance(event, ModelAnswered) for event in events)
    assert settled <= account["requests"] <= settled + len(doubts)
    assert sum(isinstance(event, BudgetReserved) for event in events) == settled + len(doubts)
    assert result.state.ledger.reserved == {}
    assert any("was lost: it was killed" in note for note in notes)


@pytest.mark.parametrize("agent", ["chat", "function"])
def test_what_a_lost_worker_has_made_is_not_missed_by_anybody(tmp_path, agent):
    """An attempt whose tools have worked on a lost node is superseded, as when a directory is gone."""
    given = {"agent": f"{_agent(tmp_path)}:agent"} if agent == "function" else {}
    cluster = Here(1, 1)

    def see(record):
        if isinstance(record.event, ToolFinished) and len(cluster.nodes) == 2:
            cluster.lose(next(line.place for line in cluster.lines if line.worker._links))

    with running_endpoint(rules=TOOLS) as endpoint:
        result, _ = batch(
            rows(tmp_path, "one"), tmp_path, cluster, base_url=endpoint.base_url, concurrency=2,
            toolsets=["terminal", "file"], see=see, **given,
        )  # fmt: skip
    assert result.state.batch.counts["kept"] == 1
    (superseded,) = [event for event in events_of(tmp_path / "r") if isinstance(event, AttemptSuperseded)]
    assert superseded.reason == "its working directory is gone"


def test_a_prompt_that_ends_its_workers_ends_itself(endpoint, tmp_path):
    """After three workers that were lost with it a prompt fails, and the others are worked on."""
    cluster = Here(4)

    def see(record):
        if isinstance(record.event, BudgetReserved) and record.event.unit == poisoned[0]:
            for line in cluster.lines:
                if any(link.session for link, _ in line.worker._links.values()):
                    line.kill()

    def first(record):
        if not poisoned and hasattr(record.event, "rows"):
            row = record.event.rows[0]
            poisoned.append(f"prompt:{row.content.hex()}#1.1")
        if poisoned:
            see(record)

    poisoned = []
    result, _ = batch(
        rows(tmp_path, *PROMPTS[:3]), tmp_path, cluster, base_url=endpoint.base_url, concurrency=1, see=first
    )
    assert result.exit_code == 3
    assert result.state.batch.counts["kept"] == 2
    (failed,) = [event for event in events_of(tmp_path / "r") if isinstance(event, PromptFailed)]
    assert (failed.error_class, failed.retryable) == ("worker_lost", True)


def test_without_any_node_left_the_run_can_be_gone_on_with(endpoint, tmp_path, monkeypatch):
    """The run ends with exit code 1 and says why; here it goes on, and nothing answered is asked again."""
    monkeypatch.setattr("evrun.executors.pool.GIVE_UP_S", 0.5)
    cluster = Here(1)

    def see(record):
        if isinstance(record.event, TrajectoryCompleted) and cluster.nodes:
            cluster.lose(cluster.nodes[0])

    dataset = rows(tmp_path, *PROMPTS)
    result, _ = batch(dataset, tmp_path, cluster, base_url=endpoint.base_url, concurrency=1, see=see)
    assert (result.exit_code, result.name) == (1, "failed")
    assert "no worker is left on the cluster: worker 1 on node 127.0.0.1 (node0-of) was lost" in result.reason
    again, _ = batch(None, tmp_path, resume=True)
    assert (again.exit_code, again.state.batch.counts["kept"]) == (0, len(PROMPTS))
    assert endpoint.totals()["requests"] <= len(PROMPTS) + 1


def test_a_worker_of_other_versions_gets_no_work(endpoint, tmp_path):
    """It refuses by itself, and the run says which versions do not agree, and on which node."""

    def older(opening):
        return msgspec.structs.replace(opening, versions={**opening.versions, "evrun": "0.0.1"})

    result, _ = batch(rows(tmp_path, "one"), tmp_path, Here(1, at_open=older), base_url=endpoint.base_url)
    assert result.exit_code == 1
    assert "a worker on node 127.0.0.1 (node0-of) could not be opened: it has evrun" in result.reason
    assert "the driver has 0.0.1" in result.reason
    assert endpoint.totals()["requests"] == 0


def test_the_key_is_told_to_workers_and_written_nowhere(tmp_path):
    """A worker asks with the driver's key; no file of the run holds it."""
    cluster = Here(1)
    with running_endpoint(api_key="sk-key-of-the-test") as endpoint:
        endpoint.set_rules([{"match": {}, "then": {"text": "your key is sk-key-of-the-test"}}])
        result, _ = batch(rows(tmp_path, "one"), tmp_path, cluster, base_url=endpoint.base_url)
    assert result.state.batch.counts["kept"] == 1
    assert cluster.openings[0].secrets == {"OPENAI_API_KEY": "sk-key-of-the-test"}
    files = [path for path in (tmp_path / "r").rglob("*") if path.is_file()]
    assert files
    assert not [path for path in files if b"sk-key-of-the-test" in path.read_bytes()]


def test_an_agent_that_asks_several_things_at_once_is_told_in_order(endpoint, tmp_path):
    """Requests that differ from one another are told relative to what is in the log before them."""
    path = tmp_path / "fan.py"
    path.write_text(
        "import asyncio\n"
        "async def agent(prompt, ctx):\n"
        "    shared = [{'role': 'user', 'content': prompt}]\n"
        "    asked = [[*shared, {'role': 'user', 'content': str(n)}] for n in range(8)]\n"
        "    await asyncio.gather(*map(ctx.complete, asked))\n"
        "    await ctx.complete([*shared, {'role': 'user', 'content': 'last'}])\n"
    )
    result, _ = batch(
        rows(tmp_path, "one", "two"), tmp_path, Here(1), base_url=endpoint.base_url, agent=f"{path}:agent"
    )
    assert result.state.batch.counts["kept"] == 2
    told_before = set()
    for event in events_of(tmp_path / "r"):
        if isinstance(event, ModelAsked):
            assert event.base in {"", *told_before}
            told_before.add(event.call)
    assert len(told_before) == 18


def test_events_are_carried_as_the_log_has_them(endpoint, tmp_path):
    """What a worker asks to be recorded is in the log to the byte."""
    cluster = Here(1)
    batch(rows(tmp_path, "one"), tmp_path, cluster, base_url=endpoint.base_url)
    asked = [event for line in cluster.lines for data in line.said for event in _events_in(data)]
    in_log = {encode_event(event) for event in events_of(tmp_path / "r")}
    assert asked
    assert {encode_event(decode_event(event)) for event in asked} <= in_log


def _events_in(data):
    from evrun.executors.wire import Record, Reserve, from_worker

    message = from_worker(data)
    if isinstance(message, Reserve):
        return [*message.first, message.reserved]
    return message.events if isinstance(message, Record) else []
