"""Cases of users: providers that ask to wait, refuse, answer strangely or not at all."""

# docs/cases.md says which case is tested where.

import json
import signal
import time
from pathlib import Path

from eventlog.events import ModelAnswered, SettingsChanged
from tests.e2e.case import Case, digest_of, hang
from tests.endpoint.client import running_endpoint
from tests.runs import evrun, finish, start, wait_until, write_prompts


def test_wait_that_is_asked_for_uses_up_no_retry_in_whatever_form_it_comes(tmp_path: Path) -> None:
    """Six refusals, no retry allowed: every prompt is kept, and no refusal costs anything."""
    hint = {"message": "Rate limit reached, please try again in 20ms."}
    forms = [
        {"status": 429, "headers": {"Retry-After": "1"}},
        {"status": 429, "headers": {"Retry-After": "0.05"}},
        {"status": 429, "headers": {"retry-after-ms": "30"}},
        {"status": 429, "error": hint},
        {"status": 402, "headers": {"Retry-After": "0.05"}},
        {"status": 503, "headers": {"Retry-After": "0.05"}},
    ]
    prompts = [f"form {number}" for number in range(len(forms))]
    rules = [
        {"match": {"prompt": prompt}, "times": 1, "then": then}
        for prompt, then in zip(prompts, forms, strict=True)
    ]
    with running_endpoint(rules=rules) as endpoint:
        case = Case(tmp_path, endpoint, "--toolsets", "none", "--retries", 0, "--price", "m=1,1")
        case.write(*prompts)
        ended = case.first()
        assert ended.code == 0, ended
        assert endpoint.totals()["refused"] == len(forms)
    audit = evrun("audit", "r", "--json", cwd=tmp_path).json
    # Only a 503 may have been worked on before it was refused.
    assert (audit["calls"]["released"], audit["calls"]["in_doubt"]) == (len(forms) - 1, 1)


def test_nobody_sends_while_a_wait_runs_and_the_wait_can_be_interrupted(tmp_path: Path) -> None:
    """One of four workers is told to wait for a minute: nothing more leaves, and Ctrl-C ends it at once."""
    refusal = {"status": 429, "headers": {"Retry-After": "60"}, "latency_ms": 0}
    rules = [{"match": {}, "times": 1, "then": refusal}]
    with running_endpoint(rules=rules, latency_ms=400) as endpoint:
        case = Case(tmp_path, endpoint, "--toolsets", "none", "--concurrency", 4)
        case.write(*map(str, range(40)))
        process = start(*case.command(), cwd=tmp_path)
        wait_until(lambda: endpoint.totals()["refused"] == 1, "the refusal")
        wait_until(lambda: endpoint.totals()["in_flight"] == 0, "the others in flight")
        before = endpoint.totals()["requests"]
        time.sleep(0.5)  # long enough for anybody who would send to have done so
        assert endpoint.totals()["requests"] == before < 40
        process.send_signal(signal.SIGINT)
        ended = finish(process, timeout_s=20)
        assert ended.code == 130, ended
        assert "stopping" in ended.stderr
        assert endpoint.totals()["requests"] == before
        assert case.resume().json["counts"]["kept"] == 40


def test_used_up_quota_pauses_the_run_with_one_clear_line(tmp_path: Path) -> None:
    """Exit 4, the provider's own words, nothing marked failed; the next month a resume goes on."""
    said = "You have reached your monthly limit"
    rules = [{"match": {"from_request": 3}, "then": {"status": 429, "error": {"message": said}}}]
    with running_endpoint(rules=rules) as endpoint:
        case = Case(tmp_path, endpoint, "--toolsets", "none", "--concurrency", 1)
        case.write(*"abcde")
        ended = case.first()
        assert (ended.code, ended.json["state"]) == (4, "paused")
        assert said in ended.json["reason"]
        assert (ended.json["counts"]["failed"], ended.json["counts"]["kept"]) == (0, 2)
        assert endpoint.totals()["requests"] == 3
        endpoint.set_rules([])
        resumed = case.resume()
        assert (resumed.code, resumed.json["counts"]["kept"]) == (0, 5)


def test_answer_without_evidence_fails_its_prompt_with_the_reason_verbatim(tmp_path: Path) -> None:
    """Unknown finish reason, none, empty body, HTML: each its own failure, the rest is kept."""
    answers: dict[str, tuple[dict[str, object], str, str]] = {
        "banana": ({"finish_reason": "banana"}, "unusable_answer", "banana"),
        "no reason": ({"finish_reason": None}, "unusable_answer", "no finish_reason"),
        "no text": ({"text": ""}, "unusable_answer", "neither text nor tool calls"),
        "empty": ({"body": ""}, "unreadable_answer", "empty"),
        "page": ({"html": True}, "unreadable_answer", "HTML"),
        "half": ({"fault": "half_json"}, "unreadable_answer", "cut"),
        "moderated": ({"finish_reason": "content_filter"}, "content_policy", "content filter"),
        "error": ({"status": 400, "body": '{"error": {"message": "half \\ud83d"}}'}, "bad_request", "half ?"),
    }
    rules = [{"match": {"prompt": prompt}, "then": then} for prompt, (then, _, _) in answers.items()]
    with running_endpoint(rules=rules) as endpoint:
        case = Case(tmp_path, endpoint, "--toolsets", "none", "--retries", 0)
        case.write(*answers, "fine")
        ended = case.first()
    assert ended.code == 3, ended
    assert ended.json["counts"]["kept"] == 1
    by_prompt = {
        next(turn["value"] for turn in row["conversations"] if turn["from"] == "human"): row["error"]
        for row in case.rows("failed.jsonl")
    }
    for prompt, (_, error_class, words) in answers.items():
        assert words in by_prompt[prompt]["message"], prompt
        assert by_prompt[prompt]["class"] == error_class, prompt


def test_one_prompt_too_long_in_a_thousand_fails_alone(tmp_path: Path) -> None:
    """Nobody else is held up, tried again or left out; exit 3, and the row says why."""
    said = {"message": "This model's maximum context length is 8 tokens", "code": "context_length_exceeded"}
    rules = [{"match": {"prompt": "500"}, "then": {"status": 400, "error": said}}]
    with running_endpoint(rules=rules) as endpoint:
        case = Case(tmp_path, endpoint, "--toolsets", "none", "--concurrency", 32, "--batch-size", 500)
        case.write(*map(str, range(1000)))
        ended = case.first()
        counts = ended.json["counts"]
        assert (ended.code, counts["kept"], counts["failed"]) == (3, 999, 1), ended
        assert endpoint.totals()["requests"] == 1000
    [failed] = case.rows("failed.jsonl")
    assert (failed["error"]["class"], failed["error"]["message"]) == ("context_length", said["message"])


def test_lost_answers_have_a_deadline_and_a_class_and_are_in_doubt(tmp_path: Path) -> None:
    """Never answered, closed, reset, cut, no HTTP: bounded tries, then failed; each try may have cost."""
    faults = ("hang", "trickle", "close", "reset", "cut", "garbage")
    rules = [{"match": {"prompt": fault}, "then": {"fault": fault}} for fault in faults]
    with running_endpoint(rules=rules) as endpoint:
        case = Case(
            tmp_path, endpoint, "--toolsets", "none", "--retries", 1, "--request-timeout", 1,
            "--price", "m=1,1", "--max-tokens", 50,
        )  # fmt: skip
        case.write(*faults, "fine")
        ended = case.first()
        assert ended.code == 3, ended
        assert endpoint.totals()["faults"] == 2 * len(faults)
    classes = case.statistics()["failed_by_class"]
    assert classes["timeout"] == 2
    assert sum(classes.values()) == len(faults)
    audit = evrun("audit", "r", "--json", cwd=tmp_path).json
    assert (audit["calls"]["in_doubt"], audit["calls"]["settled"]) == (2 * len(faults), 1)


def test_endpoint_of_the_environment_is_used_shown_and_recorded(tmp_path: Path) -> None:
    """OPENAI_BASE_URL and no flag: no request goes anywhere else, and its only model is chosen."""
    with running_endpoint(models=["only-one"]) as endpoint:
        dataset = write_prompts(tmp_path / "d.jsonl", ["p"])
        ended = evrun("run", dataset, "--run-name", "r", cwd=tmp_path, OPENAI_BASE_URL=endpoint.base_url)
        assert ended.code == 0, ended
        assert f"only-one at {endpoint.base_url}" in ended.stderr
        assert endpoint.requests()[0]["model"] == "only-one"
        resumed = evrun(
            "run", "--run-name", "r", "--resume", cwd=tmp_path, OPENAI_BASE_URL="http://other:1/v1"
        )
        assert resumed.code == 0, resumed
        case = Case(tmp_path, endpoint)
        assert case.events(SettingsChanged) == []


def test_model_is_asked_for_when_several_are_there(tmp_path: Path) -> None:
    """Exit 2 naming them; nothing is sent and no run is begun."""
    with running_endpoint(models=["one", "two"]) as endpoint:
        dataset = write_prompts(tmp_path / "d.jsonl", ["p"])
        ended = evrun("run", dataset, "--run-name", "r", "--base-url", endpoint.base_url, cwd=tmp_path)
        assert ended.code == 2, ended
        assert "one, two" in ended.stderr
        assert endpoint.totals()["requests"] == 0
    assert not (tmp_path / "data/r/log").exists()


def test_switched_off_reasoning_is_on_the_wire_as_it_was_asked_for(tmp_path: Path) -> None:
    """The endpoint received exactly this body."""
    expected = {
        "model": "m",
        "messages": [{"role": "user", "content": "p"}],
        "max_tokens": 7,
        "reasoning_effort": "none",
        "top_k": 3,
    }
    with running_endpoint() as endpoint:
        case = Case(tmp_path, endpoint, "--toolsets", "none", "--reasoning-disabled", "--max-tokens", 7)
        case.write("p")
        assert case.first("--extra-body", '{"top_k": 3}', "--keep-all").code == 0
        body = json.dumps(expected, separators=(",", ":")).encode()
        assert endpoint.requests()[0]["digest"] == digest_of(body)


def test_reasoning_is_read_wherever_it_stands_and_kept_raw(tmp_path: Path) -> None:
    """Four fields and the tags: none is set aside, each row shows the thought, the log the field."""
    fields = ("reasoning", "reasoning_content", "thinking", "reasoning_details", "tags")
    rules = [{"match": {"prompt": field}, "then": {"reasoning_field": field}} for field in fields]
    with running_endpoint(rules=rules) as endpoint:
        case = Case(tmp_path, endpoint)
        case.write(*fields)
        assert case.first().json["counts"]["kept"] == len(fields)
    for row in case.rows():
        human, answer = (turn["value"] for turn in row["conversations"][-2:])
        assert answer == f"<think>\nI thought about {human}\n</think>\nAnswer to {human}"
    raw = b"".join(event.body for event in case.events(ModelAnswered)).decode()
    assert all(f'"{field}":' in raw for field in fields if field != "tags")
    assert "<think>" in raw


def test_endpoint_that_dies_is_waited_for_and_then_fails_prompts_and_not_the_run(tmp_path: Path) -> None:
    """After a first success a refused connection may come back; when it does not, a resume finishes."""
    with running_endpoint(rules=[hang(prompt="b")]) as endpoint:
        case = Case(tmp_path, endpoint, "--toolsets", "none", "--concurrency", 1, "--retries", 1)
        case.write("a", "b", "c")
        process = start(*case.command("--json"), cwd=tmp_path)
        wait_until(lambda: endpoint.totals()["faults"] == 1, "the first answer and a hanging call")
        endpoint.kill()
        ended = finish(process)
    assert ended.code in {1, 3}, ended
    assert ended.json["counts"]["kept"] == 1
    with running_endpoint() as endpoint:
        again = ("--retry-failed", "--base-url", endpoint.base_url)
        assert case.resume(*again).json["counts"]["kept"] == 3
