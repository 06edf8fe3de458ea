"""Tool-calling conversations, from outside: recorded, run once, resumed in the middle."""

import json
import signal
from pathlib import Path

import psutil

from tests.endpoint.client import running_endpoint
from tests.runs import evrun, finish, kill, rows_of, start, wait_until, write_prompts

COUNT_LINES = "printf 'a\\nb\\n' > f; wc -l < f"
TWO_SLEEPERS = "sleep 613 & sleep 614"


def _call(name: str, **arguments: object) -> dict[str, object]:
    return {"name": name, "arguments": arguments}


def test_tool_calling_trajectory_holds_calls_results_and_counts(tmp_path: Path) -> None:
    """A terminal call and a file call run in the attempt's own directory and stand in the row."""
    dataset = write_prompts(tmp_path / "p.jsonl", ["how many lines?"])
    rules = [
        {"match": {"turn": 1}, "then": {"tool_calls": [_call("terminal", command=COUNT_LINES)]}},
        {"match": {"turn": 2}, "then": {"tool_calls": [_call("read_file", path="f"), _call("nosuch", x=1)]}},
    ]  # fmt: skip
    with running_endpoint(rules=rules) as endpoint:
        ended = evrun(
            "run", dataset, "--run-name", "r", "--model", "m", "--base-url", endpoint.base_url,
            "--toolsets", "terminal,file", "--unknown-tools", "keep", cwd=tmp_path,
        )  # fmt: skip
        assert ended.code == 0, ended
        assert endpoint.totals()["requests"] == 3
    row = rows_of(tmp_path / "data/r/trajectories.jsonl")[0]
    assert row["api_calls"] == 3
    assert row["completed"] is True
    assert row["toolsets_used"] == ["terminal", "file"]
    assert row["tool_stats"]["terminal"] == {"count": 1, "success": 1, "failure": 0}
    assert row["tool_stats"]["read_file"] == {"count": 1, "success": 1, "failure": 0}
    assert "nosuch" not in row["tool_stats"]
    assert row["unknown_tool_calls"] == 1
    assert [turn["from"] for turn in row["conversations"]] == [
        "system",
        "human",
        "gpt",
        "tool",
        "gpt",
        "tool",
        "gpt",
    ]
    first = json.loads(row["conversations"][3]["value"].split("\n")[1])
    assert first["content"]["output"].strip() == "2"


def test_attempt_killed_between_calls_goes_on_from_its_last_answer(tmp_path: Path) -> None:
    """Ten model calls, killed in the ninth: resume sends what was not answered and runs no tool again."""
    dataset = write_prompts(tmp_path / "p.jsonl", ["count up"])
    rules = [
        {"match": {"turn": turn}, "then": {"tool_calls": [_call("write_file", path=f"f{turn}", content="x")]}}
        for turn in range(1, 10)
    ]
    slow = {"match": {"turn": 9}, "times": 1, "then": {"fault": "hang"}}
    with running_endpoint(rules=[slow, *rules]) as endpoint:
        process = start(
            "run", dataset, "--run-name", "r", "--model", "m", "--base-url", endpoint.base_url,
            "--toolsets", "file", "--max-turns", 12, cwd=tmp_path,
        )  # fmt: skip
        wait_until(lambda: endpoint.totals()["faults"] == 1, "turn 9")
        kill(process)
        ended = evrun("run", "--run-name", "r", "--resume", cwd=tmp_path)
        assert ended.code == 0, ended
        # Eight answered before, then turn 9 once more and turn 10.
        assert endpoint.totals()["answered"] == 10
    row = rows_of(tmp_path / "data/r/trajectories.jsonl")[0]
    assert row["api_calls"] == 10
    assert row["attempt"] == 1
    assert row["tool_stats"]["write_file"] == {"count": 9, "success": 9, "failure": 0}


def test_tool_interrupted_by_a_kill_leaves_no_orphan_and_a_new_attempt_starts(tmp_path: Path) -> None:
    """Kill -9 while a terminal call sleeps: no process survives the resume, and the attempt is superseded."""
    dataset = write_prompts(tmp_path / "p.jsonl", ["sleep"])
    rules = [
        {
            "match": {"turn": 1},
            "times": 1,
            "then": {"tool_calls": [_call("terminal", command=TWO_SLEEPERS)]},
        }
    ]
    with running_endpoint(rules=rules) as endpoint:
        process = start(
            "run", dataset, "--run-name", "r", "--model", "m", "--base-url", endpoint.base_url,
            "--toolsets", "terminal", cwd=tmp_path,
        )  # fmt: skip
        wait_until(lambda: len(_sleepers()) == 2, "the tool to run")
        process.send_signal(signal.SIGKILL)
        finish(process)
        ended = evrun("run", "--run-name", "r", "--resume", cwd=tmp_path)
        assert ended.code == 0, ended
    assert _sleepers() == []
    row = rows_of(tmp_path / "data/r/trajectories.jsonl")[0]
    assert row["attempt"] == 2
    events = evrun("events", "r", "--type", "AttemptSuperseded", "--json", cwd=tmp_path)
    assert "not safe to repeat" in events.json["data"]["reason"]


def _sleepers() -> list[int]:
    found = []
    for process in psutil.process_iter(["cmdline"]):
        command = process.info["cmdline"] or []
        if command[:1] == ["sleep"] and command[-1] in {"613", "614"}:
            found.append(process.pid)
    return found


def test_three_turns_of_unknown_tools_end_as_partial(tmp_path: Path) -> None:
    """A model that calls tools that do not exist is stopped after three turns; the row says partial."""
    dataset = write_prompts(tmp_path / "p.jsonl", ["x"])
    rules = [{"match": {}, "then": {"tool_calls": [_call("nosuch")]}}]
    with running_endpoint(rules=rules) as endpoint:
        evrun(
            "run", dataset, "--run-name", "r", "--model", "m", "--base-url", endpoint.base_url,
            "--toolsets", "file", "--unknown-tools", "keep", cwd=tmp_path,
        )  # fmt: skip
        assert endpoint.totals()["requests"] == 3
    row = rows_of(tmp_path / "data/r/trajectories.jsonl")[0]
    assert (row["completed"], row["partial"], row["finish_reason"]) == (False, True, "invalid_tool_calls")
