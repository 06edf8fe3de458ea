"""What a session intends is whole or not at all, and nothing that it was not asked to do happens."""

import json
import signal
from pathlib import Path

import psutil
import pytest

from tests.endpoint.client import running_endpoint
from tests.runs import evrun, finish, rows_of, start, wait_until, write_prompts

SECRET = "sk-test-0123456789abcdef"


def _run(tmp_path: Path, endpoint, *more: object, dataset: Path | None = None, **env: str):
    source = [] if dataset is None else [dataset]
    options = ["--run-name", "r", "--model", "m", "--base-url", endpoint.base_url, "--json"]
    return evrun("run", *source, *options, *more, cwd=tmp_path, **env)


def _events(tmp_path: Path, *types: str) -> list[dict]:
    listed = evrun("events", "r", "--json", cwd=tmp_path).stdout.splitlines()
    return [event for event in map(json.loads, listed) if event["type"] in types]


def test_changed_rule_and_all_that_follows_from_it_are_one_commit(tmp_path: Path) -> None:
    """--keep-all on a finished run: the setting and every restored trajectory share a commit; no call."""
    dataset = write_prompts(tmp_path / "p.jsonl", [f"p{n}" for n in range(30)])
    with running_endpoint(reasoning="") as endpoint:
        first = _run(tmp_path, endpoint, dataset=dataset)
        assert first.json["counts"]["discarded"] == 30
        asked = endpoint.totals()["requests"]
        kept = _run(tmp_path, endpoint, "--resume", "--keep-all")
        assert (kept.code, kept.json["counts"]["kept"]) == (0, 30)
        back = _run(tmp_path, endpoint, "--resume", "--require-reasoning")
        assert (back.code, back.json["counts"]["discarded"]) == (0, 30)
        assert endpoint.totals()["requests"] == asked
    for session in (2, 3):
        events = [
            e for e in _events(tmp_path, "SettingsChanged", "TrajectoryRestored") if e["session"] == session
        ]
        assert len(events) == 31
        assert len({event["time"] for event in events}) == 1
    finished = _events(tmp_path, "RunFinished")
    assert [event["data"]["counts"]["kept"] for event in finished] == [0, 30, 0]
    assert evrun("replay", "r", "--check", cwd=tmp_path).code == 0


@pytest.mark.parametrize("status", [400, 401, 500])
def test_key_in_a_providers_words_goes_nowhere(tmp_path: Path, status: int) -> None:
    """An endpoint that repeats the key in its refusal puts it into no file and no output."""
    dataset = write_prompts(tmp_path / "p.jsonl", ["a"])
    error = {"message": f"no: {SECRET} is not good"}
    rules = [{"match": {}, "then": {"status": status, "error": error}}]
    with running_endpoint(rules=rules) as endpoint:
        ended = _run(tmp_path, endpoint, "--retries", 0, dataset=dataset, OPENAI_API_KEY=SECRET)
    assert ended.code in {1, 3}
    written = b"".join(p.read_bytes() for p in (tmp_path / "data").rglob("*") if p.is_file())
    assert SECRET.encode() not in written
    assert SECRET not in ended.stdout + ended.stderr
    assert "redacted" in json.dumps(_events(tmp_path, "ModelCallFailed"))


def test_row_that_asks_for_a_container_fails_without_a_call(tmp_path: Path) -> None:
    """A row with an image is never run on the host instead; the others run."""
    dataset = tmp_path / "p.jsonl"
    dataset.write_text('{"prompt": "a", "image": "127.0.0.1:9/debian:12"}\n{"prompt": "b"}\n')
    with running_endpoint() as endpoint:
        ended = _run(tmp_path, endpoint, dataset=dataset)
        assert [request["prompt"] for request in endpoint.requests()] == ["b"]
    assert ended.code == 3, ended
    assert rows_of(tmp_path / "data/r/failed.jsonl")[0]["error"]["class"] in {"no_container", "image_pull"}


def test_another_attempt_asks_with_another_key_and_a_repeat_with_the_same(tmp_path: Path) -> None:
    """--retry-discarded wants another answer, so its idempotency key differs; a retry's does not."""
    dataset = write_prompts(tmp_path / "p.jsonl", ["a"])
    rules = [{"match": {}, "times": 1, "then": {"status": 500}}]
    with running_endpoint(rules=rules, reasoning="") as endpoint:
        _run(tmp_path, endpoint, dataset=dataset)
        _run(tmp_path, endpoint, "--resume", "--retry-discarded")
        keys = [request["idempotency_key"] for request in endpoint.requests()]
    assert len(keys) == 3
    assert keys[0] == keys[1] != keys[2]


def test_failed_row_that_is_gone_is_not_tried_again(tmp_path: Path) -> None:
    """A row that left the dataset stays in the outputs, and --retry-failed leaves it alone."""
    dataset = write_prompts(tmp_path / "p.jsonl", ["a", "b"])
    rules = [{"match": {}, "times": 2, "then": {"status": 400, "error": {"message": "no"}}}]
    with running_endpoint(rules=rules) as endpoint:
        first = _run(tmp_path, endpoint, dataset=dataset)
        assert first.code == 3, first
        write_prompts(dataset, ["a"])
        ended = _run(tmp_path, endpoint, "--resume", "--retry-failed", dataset=dataset)
        assert [request["prompt"] for request in endpoint.requests()[2:]] == ["a"]
        assert (ended.json["counts"]["kept"], ended.json["counts"]["failed"]) == (1, 1)
        again = _run(tmp_path, endpoint, "--resume", "--retry-failed", dataset=dataset)
        assert endpoint.totals()["requests"] == 3, again
    assert len(_events(tmp_path, "PromptsWithdrawn")) == 1


@pytest.mark.parametrize("option", [("--samples", 3), ("--max-samples", 1), ("--skip-bad-rows",)])
def test_option_that_changes_the_plan_needs_the_dataset(tmp_path: Path, option: tuple) -> None:
    """On a resume without a dataset it could only be ignored: exit 2, nothing recorded."""
    dataset = write_prompts(tmp_path / "p.jsonl", ["a", "b"])
    with running_endpoint() as endpoint:
        before = _run(tmp_path, endpoint, dataset=dataset).json["sequence"]
        refused = _run(tmp_path, endpoint, "--resume", *option)
    assert refused.code == 2, refused
    assert "give the dataset again" in refused.stderr
    assert evrun("status", "r", "--json", cwd=tmp_path).json["sequence"] == before


def test_what_a_tool_left_running_ends_with_a_stopped_run(tmp_path: Path) -> None:
    """A process that left its group does not outlive the run that a signal ended."""
    dataset = write_prompts(tmp_path / "p.jsonl", ["a"])
    call = {"name": "terminal", "arguments": {"command": "setsid sleep 617 > /dev/null 2>&1 & sleep 0.5"}}
    rules = [
        {"match": {"turn": 1}, "then": {"tool_calls": [call]}},
        {"match": {"turn": 2}, "then": {"latency_ms": 1500}},
    ]
    with running_endpoint(rules=rules) as endpoint:
        process = start(
            "run", dataset, "--run-name", "r", "--model", "m", "--base-url", endpoint.base_url,
            "--toolsets", "terminal", "--max-turns", 5, cwd=tmp_path,
        )  # fmt: skip
        wait_until(lambda: _sleeps() and endpoint.totals()["in_flight"] == 1, "turn 2")
        process.send_signal(signal.SIGTERM)
        assert finish(process).code == 143
    assert not _sleeps()


def _sleeps() -> bool:
    return any(process.info["cmdline"] == ["sleep", "617"] for process in psutil.process_iter(["cmdline"]))
