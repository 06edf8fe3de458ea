"""Runs in both dialects, streamed and not: the same trajectories, and the same ends of faults."""

import json
from pathlib import Path
from typing import Any

import pytest

from eventlog.events import ModelAnswered, ModelCallFailed
from tests.cli.shell import evrun
from tests.e2e.case import Case
from tests.endpoint.client import running_endpoint
from tests.runs import kill, start, wait_until

CALLS = [
    {"name": "write_file", "arguments": {"path": "a.txt", "content": "</tool_call> ☃"}, "id": "call_a"},
    {"name": "read_file", "arguments": {"path": "missing"}, "id": "call_b"},
]
TOOLS = {"match": {"turn": 1, "contains": "tool"}, "then": {"text": "I look.", "tool_calls": CALLS}}
MODES: dict[str, tuple[object, ...]] = {
    "openai": (),
    "openai streamed": ("--stream",),
    "anthropic": ("--api", "anthropic"),
    "anthropic streamed": ("--api", "anthropic", "--stream"),
}
PRICE = ("--price", "m=1,1", "--max-tokens", 50)


def row(made: dict[str, Any]) -> dict[str, Any]:
    """What of a trajectory does not depend on when it was made; a dialect may report more about tokens."""
    kept = (
        "prompt_index",
        "conversations",
        "completed",
        "partial",
        "api_calls",
        "tool_stats",
        "finish_reason",
    )
    usage = made["usage"] or {}
    counts = {name: usage[name] for name in ("input_tokens", "output_tokens") if name in usage}
    return {name: made[name] for name in kept} | {"usage": counts, "cost": made["cost_usd"]}


def test_the_same_answers_give_the_same_trajectories_in_all_modes(tmp_path: Path) -> None:
    """Text, reasoning, two tool calls and their results, tokens and cost: four runs, one result."""
    made = {}
    rules = [
        TOOLS,
        {"match": {"contains": "long"}, "then": {"text": "word " * 60}},
        {"match": {}, "then": {"stream": {"pieces": 3, "crlf": True, "comments": True}}},
    ]
    with running_endpoint(rules=rules) as endpoint:
        for name, options in MODES.items():
            (tmp_path / name).mkdir()
            case = Case(
                tmp_path / name, endpoint, "--toolsets", "file", "--system-prompt", "s", *PRICE, *options
            )
            case.write("use a tool", "plain ☃", "long")
            ended = case.first()
            assert (ended.code, ended.json["counts"]["kept"]) == (0, 3), ended
            made[name] = sorted(map(row, case.rows()), key=lambda one: one["prompt_index"])
            assert all(event.body.startswith(b"{") for event in case.events(ModelAnswered))
    for name in MODES:
        assert made[name] == made["openai"], name


def test_thoughts_go_back_as_they_came(tmp_path: Path) -> None:
    """Anthropic's dialect wants the signed blocks of a turn with its tool results; in order, unchanged."""
    with running_endpoint(rules=[TOOLS], keep_bodies=True) as endpoint:
        case = Case(
            tmp_path, endpoint, "--toolsets", "file", "--api", "anthropic", "--stream", *PRICE,
            "--tool-choice", "required",
        )  # fmt: skip
        case.write("use a tool")
        assert case.first().code == 0
        first, second = (one["body"] for one in endpoint.bodies())
    assert first["tool_choice"] == {"type": "any"}
    assert "tool_choice" not in second
    asked, said, results = second["messages"]
    assert (asked["role"], said["role"], results["role"]) == ("user", "assistant", "user")
    thought = "I thought about use a tool"
    assert said["content"][0] == {
        "type": "thinking", "thinking": thought, "signature": f"signed {len(thought)}",
    }  # fmt: skip
    assert [block["type"] for block in said["content"]] == ["thinking", "text", "tool_use", "tool_use"]
    assert [block["input"] for block in said["content"][2:]] == [call["arguments"] for call in CALLS]
    assert [block["tool_use_id"] for block in results["content"]] == ["call_a", "call_b"]


@pytest.mark.parametrize("mode", ["openai streamed", "anthropic streamed"])
def test_a_stream_that_breaks_off_is_in_doubt_and_tried_again(tmp_path: Path, mode: str) -> None:
    """Cut, ended early, an error inside: nothing of it is used, its money is in doubt, the next counts."""
    overloaded = {"type": "overloaded_error", "message": "Overloaded"}
    faults = {
        "cut": {"fault": "cut"},
        "early": {"stream": {"events": 2}},
        "error": {"stream": {"events": 4, "error": overloaded, "pieces": 2}},
    }
    rules = [{"match": {"prompt": prompt}, "times": 1, "then": then} for prompt, then in faults.items()]
    with running_endpoint(rules=rules) as endpoint:
        case = Case(tmp_path, endpoint, "--toolsets", "none", *PRICE, *MODES[mode])
        case.write(*faults)
        ended = case.first()
        assert (ended.code, ended.json["counts"]["kept"]) == (0, 3), ended
    failures = case.events(ModelCallFailed)
    assert sorted(event.error_class for event in failures) == ["connection", "connection", "server_error"]
    assert any("usage reported so far" in event.message for event in failures) == mode.startswith("anthropic")
    audit = evrun("audit", "r", "--json", cwd=tmp_path).json
    assert (audit["calls"]["in_doubt"], audit["calls"]["settled"]) == (3, 3)


def test_odd_servers_are_understood(tmp_path: Path) -> None:
    """One that takes no notice of the wish, one without a mark of the end, one that counts no tokens."""
    manners: dict[str, Any] = {"whole": False, "no mark": {"done": False}, "no usage": {"usage": False}}
    rules = [{"match": {"prompt": prompt}, "then": {"stream": how}} for prompt, how in manners.items()]
    with running_endpoint(rules=rules) as endpoint:
        case = Case(tmp_path, endpoint, "--toolsets", "none", "--stream", *PRICE)
        case.write(*manners)
        assert case.first().json["counts"]["kept"] == 3
    audit = evrun("audit", "r", "--json", cwd=tmp_path).json
    assert (audit["calls"]["in_doubt"], audit["calls"]["settled"]) == (1, 2)


def test_an_endpoint_that_refuses_to_count_a_stream_stops_the_run(tmp_path: Path) -> None:
    """One line that says how to go on; nothing is marked failed, and going on that way works."""
    error = {"message": "Unknown parameter: 'stream_options'", "type": "invalid_request_error"}
    with running_endpoint(rules=[{"match": {}, "then": {"status": 400, "error": error}}]) as endpoint:
        case = Case(tmp_path, endpoint, "--toolsets", "none", "--stream")
        case.write("a", "b")
        ended = case.first()
        assert (ended.code, ended.json["counts"]["failed"]) == (1, 0), ended
        assert "--no-stream" in ended.json["reason"]
        endpoint.set_rules([])
        assert case.resume("--no-stream").json["counts"]["kept"] == 2


ERRORS: dict[str, tuple[dict[str, Any], int, str]] = {
    "a wrong key": ({"status": 401}, 1, "ANTHROPIC_API_KEY"),
    "no credit": (
        {"status": 400, "error": {"message": "Your credit balance is too low to use the API."}}, 4, "credit",
    ),
    "a bill unpaid": ({"status": 402}, 4, "quota"),
    "a limit of the month": (
        {"status": 429, "error": {"message": "no", "details": {"error_code": "spend_limit_reached"}}},
        4, "quota",
    ),
    "a model that is not there": ({"status": 404, "error": {"message": "model: m"}}, 1, "model: m"),
    "a prompt too long": (
        {"status": 400, "error": {"message": "prompt is too long: 9 tokens > 8"}}, 3, "context_length",
    ),
    "too many bytes": ({"status": 413}, 3, "request_too_large"),
    "overloaded": ({"status": 529}, 3, "server_error"),
}  # fmt: skip


@pytest.mark.parametrize("error", ERRORS)
def test_errors_in_anthropics_shape_mean_the_same(tmp_path: Path, error: str) -> None:
    """Who is at fault, by status, kind and words: the exit code and what is said."""
    then, code, words = ERRORS[error]
    with running_endpoint(rules=[{"match": {}, "then": then}]) as endpoint:
        case = Case(tmp_path, endpoint, "--toolsets", "none", "--retries", 0, *MODES["anthropic"], *PRICE)
        case.write("p")
        ended = evrun(*case.command("--json"), cwd=tmp_path)
    assert ended.code == code, ended
    failed = case.rows("failed.jsonl") if code == 3 else []
    assert words in (ended.json["reason"] or "") + json.dumps([one["error"] for one in failed])
    audit = evrun("audit", "r", "--json", cwd=tmp_path).json
    assert audit["calls"]["released"] == (0 if error == "overloaded" else 1)


def test_waiting_as_told_and_cached_tokens_in_anthropics_dialect(tmp_path: Path) -> None:
    """A 429 with its header is waited for; tokens read from and written to a cache are input, and paid."""
    usage = {
        "input_tokens": 10, "cache_read_input_tokens": 100, "cache_creation_input_tokens": 50,
        "output_tokens": 7,
    }  # fmt: skip
    wait = {"status": 429, "headers": {"retry-after": "0.05"}}
    rules = [{"match": {}, "times": 1, "then": wait}, {"match": {}, "then": {"usage": usage}}]
    with running_endpoint(rules=rules) as endpoint:
        case = Case(
            tmp_path, endpoint, "--toolsets", "none", "--retries", 0, *MODES["anthropic streamed"], *PRICE
        )
        case.write("p")
        assert case.first().code == 0
    [made] = case.rows()
    assert (made["usage"]["input_tokens"], made["usage"]["output_tokens"]) == (160, 7)
    assert made["usage"]["cached_input_tokens"] == 100


def test_a_run_in_anthropics_dialect_goes_on_after_a_kill(tmp_path: Path) -> None:
    """The rebuilt request is the recorded one: the answered call is not asked for again."""
    rules = [{"match": {"turn": 2}, "times": 1, "then": {"fault": "hang"}}, TOOLS]
    with running_endpoint(rules=rules) as endpoint:
        case = Case(tmp_path, endpoint, "--toolsets", "file", *MODES["anthropic streamed"], *PRICE)
        case.write("use a tool")
        process = start(*case.command(), cwd=tmp_path)
        wait_until(lambda: endpoint.totals()["faults"] == 1, "the second call to hang")
        kill(process)
        assert case.resume().json["counts"]["kept"] == 1
        assert [request["turn"] for request in endpoint.requests()] == [1, 2, 2]


def test_all_who_send_share_the_requests_of_a_minute(tmp_path: Path) -> None:
    """Three a minute for eight workers: three leave, nobody else does, and an interrupt ends the wait."""
    with running_endpoint() as endpoint:
        case = Case(tmp_path, endpoint, "--toolsets", "none", "--rpm", 3)
        case.write(*map(str, range(20)))
        process = start(*case.command("--json"), cwd=tmp_path)
        wait_until(lambda: case_kept(case) == 3, "three prompts to be kept")
        process.send_signal(2)
        stdout, _ = process.communicate(timeout=60)
        assert (process.returncode, endpoint.totals()["requests"]) == (130, 3)
        assert json.loads(stdout.splitlines()[-1])["counts"]["kept"] == 3
        # What was sent before is forgotten: a minute is a minute of the session.
        assert case.resume("--rpm", 1000).json["counts"]["kept"] == 20


def test_all_who_send_share_the_tokens_of_a_minute(tmp_path: Path) -> None:
    """One request sets aside all of them; its answer took less, and the next follow at once."""
    with running_endpoint() as endpoint:
        case = Case(tmp_path, endpoint, "--toolsets", "none", "--tpm", 1000, "--max-tokens", 900)
        case.write(*map(str, range(6)))
        assert case.first().json["counts"]["kept"] == 6
        assert endpoint.totals()["max_in_flight"] == 1


def case_kept(case: Case) -> int:
    """The kept rows so far, as the growing files show them."""
    try:
        return len(case.rows("batch_1.jsonl"))
    except (OSError, ValueError):
        return 0
