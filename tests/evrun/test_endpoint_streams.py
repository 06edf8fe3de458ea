"""A whole answer told as a stream: put together again, it is the answer."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evrun.agents.endpoint_chat import chat_stream, pieces
from evrun.agents.endpoint_json import NotJson
from evrun.agents.endpoint_responses import responses_stream

words = st.text(max_size=40)
calls = st.lists(st.fixed_dictionaries({"id": words, "name": words, "arguments": words}), max_size=3)


def events(stream):
    """The JSON of each event of a stream, the mark at its end aside."""
    lines = [line for line in stream.decode().split("\n") if line.startswith("data: ")]
    return [json.loads(line[6:]) for line in lines if line != "data: [DONE]"]


def completion(message, **choice):
    """A chat completion with one choice."""
    choices = [{"index": 0, "message": message, "finish_reason": "stop", **choice}]
    head = {"id": "c1", "object": "chat.completion", "created": 17, "model": "m"}
    return {**head, "choices": choices, "usage": {"total_tokens": 3}}


def put_together(chunks, index=0):
    """The message that the deltas of a choice add up to, and its finish reasons."""
    message, reasons, tools = {}, [], {}
    for choice in (one for chunk in chunks for one in chunk["choices"] if one["index"] == index):
        reasons.append(choice["finish_reason"])
        for name, value in choice["delta"].items():
            if name == "tool_calls":
                for call in value:
                    whole = tools.setdefault(call["index"], {"function": {"arguments": ""}})
                    whole |= {key: item for key, item in call.items() if key not in ("index", "function")}
                    more = whole["function"]["arguments"] + call["function"]["arguments"]
                    whole["function"] = {**whole["function"], **call["function"], "arguments": more}
            elif isinstance(value, str):
                message[name] = (message.get(name) or "") + value
            else:
                message[name] = value
    return message | ({"tool_calls": list(tools.values())} if tools else {}), reasons


@settings(deadline=None)
@given(words | st.none(), words, calls, st.sampled_from(["reasoning", "reasoning_content", "thinking"]))
def test_the_deltas_of_a_chat_add_up_to_its_message(content, thought, asked, field):
    """Text, reasoning in each of its names, and tool calls, for any text."""
    tools = [
        {
            "id": call["id"],
            "type": "function",
            "function": {"name": call["name"], "arguments": call["arguments"]},
        }
        for call in asked
    ]
    message = {"role": "assistant", "content": content} | ({field: thought} if thought else {})
    message |= {"tool_calls": tools} if tools else {}
    whole = json.dumps(completion(message)).encode()
    chunks = events(chat_stream(whole, include_usage=False))
    together, reasons = put_together(chunks)
    assert together == message
    assert [reason for reason in reasons if reason] == ["stop"] == reasons[-1:]
    assert {chunk["object"] for chunk in chunks} == {"chat.completion.chunk"}
    assert not any("usage" in chunk for chunk in chunks)


def test_usage_is_told_only_where_it_was_asked_for():
    """In a chunk of its own without choices; every other chunk then says null, as OpenAI's do."""
    whole = json.dumps(completion({"role": "assistant", "content": "hi"})).encode()
    stream = chat_stream(whole, include_usage=True)
    *before, last = events(stream)
    assert (last["choices"], last["usage"]) == ([], {"total_tokens": 3})
    assert {chunk["usage"] for chunk in before} == {None}
    assert stream.endswith(b"data: [DONE]\n\n")


def test_several_choices_and_what_only_some_providers_give():
    """Choices by their index; log probabilities once; unknown fields once; details whole."""
    details = [{"type": "reasoning.text", "text": "so"}]
    first = {"role": "assistant", "content": "four words are here", "reasoning_details": details}
    whole = completion(first, logprobs={"content": [1, 2]}, native_finish_reason="end")
    refused = {"role": "assistant", "content": None, "refusal": "no"}
    whole["choices"].append({"index": 1, "message": refused, "finish_reason": "content_filter"})
    whole |= {"citations": ["u"], "provider": "p"}
    chunks = events(chat_stream(json.dumps(whole).encode(), include_usage=False))
    assert put_together(chunks, 0)[0] == first
    assert put_together(chunks, 1)[0] == refused
    told = [choice["logprobs"] for chunk in chunks for choice in chunk["choices"] if choice["logprobs"]]
    assert told == [{"content": [1, 2]}]
    assert [chunk["citations"] for chunk in chunks if "citations" in chunk] == [["u"]]
    assert {chunk["provider"] for chunk in chunks} == {"p"}
    ends = [choice for chunk in chunks for choice in chunk["choices"] if choice["finish_reason"]]
    assert [end.get("native_finish_reason") for end in ends] == ["end", None]


def test_half_a_surrogate_pair_and_a_large_number_go_through_a_stream():
    """What the provider wrote is what the program reads, digit for digit."""
    raw = b'{"choices":[{"message":{"content":"a\\ud83d"},"finish_reason":"stop"}],"created":1.50}'
    stream = chat_stream(raw, include_usage=False)
    assert b"\\ud83d" in stream
    assert stream.count(b'"created":1.50') == len(events(stream))


@settings(deadline=None)
@given(st.text(max_size=30))
def test_pieces_are_few_none_empty_and_the_text(text):
    """At most four, and nothing is lost between them."""
    parts = pieces(text)
    assert "".join(parts) == text
    assert "" not in parts
    assert len(parts) <= 4


RESPONSE = {
    "id": "resp_1",
    "object": "response",
    "status": "completed",
    "output": [
        {
            "id": "rs_1",
            "type": "reasoning",
            "summary": [{"type": "summary_text", "text": "thought"}],
            "content": [{"type": "reasoning_text", "text": "all of it"}],
        },
        {
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "status": "completed",
            "content": [
                {"type": "output_text", "text": "hello there", "annotations": [{"type": "file_path"}]},
                {"type": "refusal", "refusal": "not this"},
            ],
        },
        {"id": "fc_1", "type": "function_call", "call_id": "c", "name": "f", "arguments": '{"a": 1}'},
        {"id": "ct_1", "type": "custom_tool_call", "call_id": "d", "name": "g", "input": "raw"},
        {"id": "ws_1", "type": "web_search_call", "status": "completed"},
    ],
    "usage": {"total_tokens": 3},
}


def test_a_response_is_told_item_by_item_in_order():
    """Numbered from 0; each item is added, filled and done; the whole comes last."""
    told = events(responses_stream(json.dumps(RESPONSE).encode()))
    assert [event["sequence_number"] for event in told] == list(range(len(told)))
    assert (told[0]["type"], told[-1]["type"]) == ("response.created", "response.completed")
    assert (told[0]["response"]["output"], told[0]["response"]["status"]) == ([], "in_progress")
    assert told[-1]["response"] == RESPONSE
    done = [event["item"] for event in told if event["type"] == "response.output_item.done"]
    assert done == RESPONSE["output"]
    added = [event["item"] for event in told if event["type"] == "response.output_item.added"]
    assert [item["type"] for item in added] == [item["type"] for item in done]
    assert (added[1]["content"], added[2]["arguments"], added[3]["input"]) == ([], "", "")
    assert [item.get("status") for item in added] == [None, "in_progress", None, None, "in_progress"]


@pytest.mark.parametrize(
    ("kind", "field", "expected"),
    [
        ("response.output_text", "text", "hello there"),
        ("response.refusal", "refusal", "not this"),
        ("response.function_call_arguments", "arguments", '{"a": 1}'),
        ("response.custom_tool_call_input", "input", "raw"),
        ("response.reasoning_summary_text", "text", "thought"),
        ("response.reasoning_text", "text", "all of it"),
    ],
)
def test_the_deltas_of_a_response_add_up(kind, field, expected):
    """For every kind of text that a response holds."""
    told = events(responses_stream(json.dumps(RESPONSE).encode()))
    assert "".join(event["delta"] for event in told if event["type"] == f"{kind}.delta") == expected
    assert [event[field] for event in told if event["type"] == f"{kind}.done"] == [expected]


@pytest.mark.parametrize("status", ["failed", "incomplete"])
def test_a_response_that_did_not_complete_ends_as_what_it_is(status):
    """A program must not take half an answer for a whole one."""
    told = events(responses_stream(json.dumps(RESPONSE | {"status": status}).encode()))
    assert told[-1]["type"] == f"response.{status}"


@pytest.mark.parametrize("told", [responses_stream, lambda raw: chat_stream(raw, include_usage=False)])
@pytest.mark.parametrize(
    "raw",
    [
        b"<html>",
        b"[]",
        b"{}",
        b'{"choices": 1, "output": 1}',
        b'{"choices": [1], "output": [1]}',
        b'{"choices": [{"message": {"tool_calls": [1]}}], "output": [{"type": "reasoning", "content": [1]}]}',
        b'{"choices": [{}], "output": [{"type": "message", "content": [{"type": "output_text"}]}]}',
    ],
)
def test_what_is_no_answer_is_no_stream(told, raw):
    """It is said, and never told as an empty answer."""
    with pytest.raises(NotJson):
        told(raw)
