"""The loopback endpoint itself: what other tests lean on has to hold."""

import http.client
import json
import subprocess
import sys

import pytest

from .client import ROOT, running_endpoint
from .counting import parse_records, short_key
from .rules import Rule


def ask(endpoint, prompt="two and two", *, path="/v1/chat/completions", headers=None, **fields):
    """POST one request; (status, headers, body)."""
    connection = http.client.HTTPConnection("127.0.0.1", endpoint.port, timeout=20)
    body = json.dumps({"model": "test-model", "messages": [{"role": "user", "content": prompt}], **fields})
    try:
        connection.request("POST", path, body, headers or {})
        response = connection.getresponse()
        return response.status, dict(response.getheaders()), response.read()
    finally:
        connection.close()


def answer_of(body):
    """The first choice's message of a completion."""
    return json.loads(body)["choices"][0]["message"]


def test_the_same_request_gets_the_same_answer():
    """An answer is a function of the request, so that runs can be compared byte by byte."""
    with running_endpoint() as one, running_endpoint() as other:
        assert ask(one)[2] == ask(other)[2] == ask(one)[2]
        assert ask(one, "else")[2] != ask(one)[2]


def test_the_account_says_what_was_served_and_billed():
    """Each request with its digest, its order and its tokens."""
    with running_endpoint(rules=[{"match": {"prompt": "no"}, "then": {"status": 400}}]) as endpoint:
        ask(endpoint, "one two three", headers={"Idempotency-Key": "k1"})
        ask(endpoint, "no")
        account = endpoint.account()
    first, second = account["requests"]
    assert (first["n"], first["outcome"], first["prompt"], first["idempotency_key"]) == (
        1,
        "answered",
        "one two three",
        "k1",
    )
    assert (first["billed"], first["input_tokens"], first["output_tokens"]) == (True, 3, 11)
    assert (second["outcome"], second["status"], second["billed"]) == ("refused", 400, False)
    totals = account["totals"]
    assert (totals["billed"], totals["input_tokens"], totals["output_tokens"]) == (1, 3, 11)


def test_the_account_file_survives_a_kill(tmp_path):
    """What was answered is in the file before the answer leaves."""
    path = tmp_path / "account.jsonl"
    with running_endpoint(account_file=path) as endpoint:
        for number in range(5):
            ask(endpoint, f"p{number}")
        endpoint.kill()
    assert [json.loads(line)["prompt"] for line in path.read_text().splitlines()] == [
        f"p{n}" for n in range(5)
    ]


def test_a_client_that_leaves_is_booked_as_aborted_and_billed():
    """The work was done, whoever reads it."""
    with running_endpoint(latency_ms=60_000) as endpoint:
        connection = http.client.HTTPConnection("127.0.0.1", endpoint.port, timeout=20)
        connection.request("POST", "/v1/chat/completions", '{"messages": []}')
        while endpoint.totals()["in_flight"] == 0:
            pass
        connection.close()
        while endpoint.totals()["in_flight"] == 1:
            pass
        entry = endpoint.requests()[0]
    assert (entry["outcome"], entry["billed"]) == ("aborted", True)


def test_rules_are_used_in_order_and_used_up():
    """The first two requests of each prompt are refused; the second match is skipped by another."""
    rules = [{"times": 2, "each": True, "then": {"status": 429, "headers": {"retry-after": "1"}}}]
    with running_endpoint(rules=rules) as endpoint:
        seen = [ask(endpoint, prompt)[0] for prompt in ("a", "b", "a", "b", "a", "b")]
        assert seen == [429, 429, 429, 429, 200, 200]
        endpoint.set_rules([{"match": {"contains": "x"}, "skip": 1, "times": 1, "then": {"status": 500}}])
        assert [ask(endpoint, "xy")[0] for _ in range(3)] == [200, 500, 200]


def test_a_key_is_checked():
    """Both the right one and its absence."""
    with running_endpoint(api_key="k") as endpoint:
        assert ask(endpoint)[0] == 401
        assert ask(endpoint, headers={"Authorization": "Bearer k"})[0] == 200
        assert [entry["auth_ok"] for entry in endpoint.requests()] == [False, True]


def test_a_repeat_is_answered_once_where_the_endpoint_honours_the_key():
    """Same answer, no second bill."""
    with running_endpoint(honour_idempotency=True) as endpoint:
        answers = [ask(endpoint, headers={"Idempotency-Key": "k"})[2] for _ in range(2)]
        totals = endpoint.totals()
    assert answers[0] == answers[1]
    assert (totals["answered"], totals["repeated"], totals["billed"]) == (1, 1, 1)


def test_answers_can_be_shaped_by_turn():
    """Tool calls first, text after; reasoning where it is asked for."""
    rules = [
        {"match": {"turn": 1}, "then": {"tool_calls": [{"name": "t", "arguments": {"a": 1}}]}},
        {"match": {"turn": 2}, "then": {"text": "done {prompt}", "reasoning_field": "tags"}},
    ]
    with running_endpoint(rules=rules) as endpoint:
        first = answer_of(ask(endpoint, "go")[2])
        second = answer_of(
            ask(
                endpoint,
                messages=[
                    {"role": "user", "content": "go"},
                    {"role": "assistant", "content": None},
                    {"role": "tool", "content": "x"},
                ],
            )[2]
        )
    assert first["tool_calls"][0]["function"] == {"name": "t", "arguments": '{"a":1}'}
    assert second["content"] == "<think>I thought about go</think>done go"


def test_usage_can_be_wrong_or_missing():
    """Ten times what it should be, or nothing at all."""
    rules = [
        {"match": {"prompt": "ten"}, "then": {"usage_factor": 10}},
        {"match": {"prompt": "none"}, "then": {"usage": None}},
    ]
    with running_endpoint(rules=rules) as endpoint:
        plain, ten = (json.loads(ask(endpoint, p)[2])["usage"]["completion_tokens"] for p in ("one", "ten"))
        assert ten == 10 * plain
        assert "usage" not in json.loads(ask(endpoint, "none")[2])


def test_the_output_cap_cuts_the_answer():
    """As an endpoint does, with the reason."""
    with running_endpoint(reasoning="", text="a b c d") as endpoint:
        whole = json.loads(ask(endpoint, max_tokens=2)[2])
    assert whole["choices"][0]["finish_reason"] == "length"
    assert whole["choices"][0]["message"]["content"] == "a b"
    assert whole["usage"]["completion_tokens"] == 2


@pytest.mark.parametrize("spec", [{"when": {}}, {"match": {"promt": "x"}}, {"then": {"fault": "explode"}}])
def test_a_rule_with_a_slip_is_refused(spec):
    """A rule that is silently ignored makes a test that cannot fail."""
    with pytest.raises(ValueError, match="unknown"):
        Rule(spec)


def test_it_ends_when_its_stdin_closes():
    """So that no endpoint outlives a test that was killed."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.endpoint"], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    said = json.loads(process.stdout.readline())
    assert said["base_url"] == f"http://127.0.0.1:{said['port']}/v1"
    process.stdin.close()
    assert process.wait(20) == 0
    process.stdout.close()


def test_an_account_of_counts_says_the_same_sums_in_seventeen_bytes_a_request():
    """Refused and answered ones; the records hold key, tokens and bill in the order of the requests."""
    rules = [{"match": {"prompt": "no"}, "then": {"status": 400}}]
    found = []
    for counts_only in (False, True):
        with running_endpoint(rules=rules, counts_only=counts_only) as endpoint:
            for number, prompt in enumerate(("one", "no", "two words")):
                ask(endpoint, prompt, headers={"Idempotency-Key": f"k{number}"})
            found.append(endpoint.totals())
            raw = endpoint.records() if counts_only else b""
    assert found[0] == found[1]
    assert len(raw) == 3 * 17
    records = parse_records(raw)
    assert [one.key for one in records] == [short_key(f"k{number}") for number in range(3)]
    assert [one.billed for one in records] == [True, False, True]
    assert [one.input_tokens for one in records] == [1, 1, 2]
