"""The endpoint's other manners: Anthropic's dialect, streams of every kind, bodies that it kept."""

import json
import urllib.error
import urllib.request

import pytest

from tests.endpoint.client import running_endpoint

_open = urllib.request.build_opener(urllib.request.ProxyHandler({})).open


def post(endpoint, path, headers=None, **fields):
    """Status and body of a request."""
    body = json.dumps({"model": "m", **fields}).encode()
    request = urllib.request.Request(endpoint.base_url + path, data=body, headers=headers or {})
    try:
        with _open(request, timeout=30) as response:
            return response.status, response.read()
    except urllib.error.HTTPError as error:
        return error.code, error.read()


USER = {"role": "user", "content": [{"type": "text", "text": "go"}]}
TURN = {"role": "assistant", "content": [{"type": "tool_use", "id": "t", "name": "f", "input": {}}]}
RESULT = {
    "role": "user",
    "content": [{"type": "tool_result", "tool_use_id": "t", "content": "three more words"}],
}


def test_a_message_is_the_completion_in_the_other_dialect():
    """The same text, thoughts and account; results of tools are no prompt, and a turn is a turn."""
    rules = [
        {"match": {"turn": 1}, "then": {"tool_calls": [{"name": "f", "arguments": {"a": 1}, "id": "t"}]}}
    ]
    with running_endpoint(rules=rules) as endpoint:
        first = json.loads(post(endpoint, "/messages", messages=[USER], max_tokens=9)[1])
        second = json.loads(
            post(endpoint, "/messages?beta=true", messages=[USER, TURN, RESULT], system="be so")[1]
        )
        requests = endpoint.requests()
    assert [block["type"] for block in first["content"]] == ["thinking", "tool_use"]
    assert (first["content"][1]["input"], first["stop_reason"]) == ({"a": 1}, "tool_use")
    assert second["content"][-1] == {"type": "text", "text": "Answer to go"}
    assert (second["stop_reason"], second["usage"]["input_tokens"]) == ("end_turn", 6)
    assert [(request["prompt"], request["turn"], request["billed"]) for request in requests] == [
        ("go", 1, True),
        ("go", 2, True),
    ]


def test_errors_and_keys_are_in_the_dialects_own_shape():
    """Its envelope and kinds; its header for the key."""
    with running_endpoint(api_key="k", rules=[{"match": {}, "then": {"status": 529}}]) as endpoint:
        status, body = post(endpoint, "/messages", messages=[USER])
        assert (status, json.loads(body)["error"]["type"]) == (401, "authentication_error")
        status, body = post(endpoint, "/messages", {"x-api-key": "k"}, messages=[USER])
        assert (status, json.loads(body)["type"], json.loads(body)["error"]["type"]) == (
            529, "error", "overloaded_error",
        )  # fmt: skip


def test_a_stream_is_cut_commented_and_ended_as_the_rule_says():
    """Pieces, line ends, comments, a mark or none, usage only where it was asked for."""
    rules = [
        {"match": {"prompt": "crlf"}, "then": {"stream": {"pieces": 4, "crlf": True, "comments": True}}},
        {"match": {"prompt": "short"}, "then": {"stream": {"events": 1, "error": {"message": "no"}}}},
        {"match": {"prompt": "whole"}, "then": {"stream": False}},
    ]

    def streamed(prompt, **more):
        messages = [{"role": "user", "content": prompt}]
        return post(endpoint, "/chat/completions", messages=messages, stream=True, **more)[1].decode()

    with running_endpoint(rules=rules) as endpoint:
        crlf = streamed("crlf", stream_options={"include_usage": True})
        assert crlf.endswith("data: [DONE]\r\n\r\n")
        assert '"usage"' in crlf
        assert ": still here\r\n\r\n" in crlf
        assert '"content":"Answ"' in crlf
        assert '"usage"' not in streamed("plain")
        short = streamed("short")
        assert short.count("data:") == 2
        assert short.endswith('data: {"error":{"message":"no"}}\n\n')
        assert json.loads(streamed("whole"))["object"] == "chat.completion"


def test_bodies_and_headers_are_kept_when_asked():
    """In the order in which they came."""
    with running_endpoint(keep_bodies=True) as endpoint:
        post(endpoint, "/messages", {"X-Title": "t"}, messages=[USER])
        [kept] = endpoint.bodies()
    assert (kept["path"], kept["headers"]["x-title"]) == ("/v1/messages", "t")
    assert kept["body"] == {"model": "m", "messages": [USER]}
    with running_endpoint() as endpoint:
        post(endpoint, "/messages", messages=[USER])
        assert endpoint.bodies() == []


def test_a_slip_about_a_stream_is_refused():
    """As with every word of a rule."""
    from tests.endpoint.rules import Rule

    with pytest.raises(ValueError, match="unknown"):
        Rule({"then": {"stream": {"peices": 3}}})
