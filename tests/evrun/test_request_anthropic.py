"""Requests in Anthropic's dialect: the same conversations as blocks, and nothing that the dialect refuses."""

import json
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evrun.batch.request import request_body
from evrun.batch.settings import Settings
from evrun.bounds import request_bound

SETTINGS = Settings(dataset="d", model="m", base_url="http://127.0.0.1:1/v1", api="anthropic", max_tokens=9)
TOOL = {"name": "look", "description": "Look.", "parameters": {"type": "object"}}


def text(said):
    """A block of text."""
    return {"type": "text", "text": said}


def call(identity="c1", arguments='{"a": 1.0}', name="look"):
    """A tool call in OpenAI's shape."""
    return {"id": identity, "type": "function", "function": {"name": name, "arguments": arguments}}


def result(identity="c1", said="seen"):
    """A tool's result in OpenAI's shape."""
    return {"role": "tool", "tool_call_id": identity, "content": said}


def sent(*messages, tools=()):
    """The body for these messages, read again."""
    return json.loads(request_body(SETTINGS, list(messages), list(tools), None))


USER = {"role": "user", "content": "p"}
TURNS = {
    "results and the words after them are one turn": (
        [USER, {"role": "assistant", "content": None, "tool_calls": [call("c1"), call("c2")]}, result("c1"),
         result("c2", ""), {"role": "user", "content": "go on"}],
        [("user", [text("p")]),
         ("assistant", [{"type": "tool_use", "id": "c1", "name": "look", "input": {"a": 1.0}},
                        {"type": "tool_use", "id": "c2", "name": "look", "input": {"a": 1.0}}]),
         ("user", [{"type": "tool_result", "tool_use_id": "c1", "content": [text("seen")]},
                   {"type": "tool_result", "tool_use_id": "c2"}, text("go on")])],
    ),
    "text comes before calls": (
        [USER, {"role": "assistant", "content": "I look", "tool_calls": [call()]}, result()],
        [("user", [text("p")]),
         ("assistant", [text("I look"),
                        {"type": "tool_use", "id": "c1", "name": "look", "input": {"a": 1.0}}]),
         ("user", [{"type": "tool_result", "tool_use_id": "c1", "content": [text("seen")]}])],
    ),
    "empty texts are left out": (
        [{"role": "user", "content": " \n"}, {"role": "assistant", "content": ""}, USER],
        [("user", [text("p")])],
    ),
    "one side's turns in a row are one": (
        [USER, {"role": "user", "content": "q"}], [("user", [text("p"), text("q")])],
    ),
    "parts: text and images": (
        [{"role": "user", "content": [text("see"), {"type": "image_url", "image_url": {"url": "http://x"}},
                                      {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA"}},
                                      {"type": "odd", "x": 1}]}],
        [("user", [text("see"), {"type": "image", "source": {"type": "url", "url": "http://x"}},
                   {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AA"}},
                   {"type": "odd", "x": 1}])],
    ),
    "ids in other letters, arguments that are no object": (
        [USER, {"role": "assistant", "content": None, "tool_calls": [call("call:1/x", "{oops")]},
         result("call:1/x")],
        [("user", [text("p")]),
         ("assistant", [{"type": "tool_use", "id": "call_1_x", "name": "look",
                         "input": {"invalid_json": "{oops"}}]),
         ("user", [{"type": "tool_result", "tool_use_id": "call_1_x", "content": [text("seen")]}])],
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", TURNS)
def test_a_conversation_becomes_turns_of_blocks(case):
    """The sides take turns, and nothing of what was said is lost."""
    messages, expected = TURNS[case]
    assert [(turn["role"], turn["content"]) for turn in sent(*messages)["messages"]] == expected


def test_system_turns_stand_apart_wherever_they_were():
    """Also those of developers, and those in the middle."""
    body = sent({"role": "system", "content": "a"}, USER, {"role": "developer", "content": [text("b")]}, USER)
    assert body["system"] == [text("a"), text("b")]
    assert body["messages"] == [{"role": "user", "content": [text("p"), text("p")]}]
    assert "system" not in sent(USER)


def test_an_answer_goes_back_as_it_came():
    """Signed thoughts between calls stay where they were; calls carry the ids by which results are told."""
    blocks = [
        {"type": "thinking", "thinking": "a", "signature": "s1"},
        text(""),
        {"type": "tool_use", "id": "", "name": "look", "input": {"n": 1}},
        {"type": "redacted_thinking", "data": "xyz"},
        {"type": "tool_use", "id": "t2", "name": "look", "input": "{cut"},
    ]
    said = {"role": "assistant", "content": None, "blocks": blocks,
            "tool_calls": [call("call_1_0", '{"n":1}'), call("t2", '{"invalid_json":"{cut"}')]}  # fmt: skip
    content = sent(USER, said, result("call_1_0"), result("t2"))["messages"][1]["content"]
    assert content[0] == blocks[0]
    assert content[2] == blocks[3]
    assert [(block["id"], block["input"]) for block in (content[1], content[3])] == [
        ("call_1_0", {"n": 1}),
        ("t2", {"invalid_json": "{cut"}),
    ]


def test_arguments_keep_their_numbers_and_half_characters_go_as_escapes():
    """No number is written in another way, however large."""
    said = {"role": "assistant", "content": None, "tool_calls": [call(arguments='{"n": 1e400, "m": 1.50}')]}
    assert b'{"n": 1e400, "m": 1.50}' in request_body(SETTINGS, [USER, said], [], None)
    odd = {"role": "user", "content": "\ud83d"}
    body = sent(odd, {**said, "tool_calls": [call()]})
    assert body["messages"][0]["content"] == [text("\ud83d")]
    assert body["messages"][1]["content"][0]["input"] == {"a": 1.0}


def test_a_tool_without_parameters_has_an_empty_schema():
    """The dialect requires one."""
    [tool] = sent(USER, tools=[{"name": "now", "description": "The time."}])["tools"]
    assert tool["input_schema"] == {"type": "object", "properties": {}}


def test_its_requests_have_bounds_and_thoughts_are_no_pictures():
    """Text, thoughts, calls and results are bounded by their bytes; a picture is not."""
    said = {"role": "assistant", "content": None, "tool_calls": [call(arguments='{"file": "image"}')]}
    body = request_body(SETTINGS, [USER, said, result(said='"image"')], [TOOL], None)
    bound = request_bound(body, None)
    assert (bound.media, bound.output_tokens) == (False, 9)
    assert bound.input_tokens > len(body)
    picture = {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "http://x"}}]}
    assert request_bound(request_body(SETTINGS, [picture], [], None), None).media


TEXTS = st.text(st.characters(exclude_categories=["Cs"]))
ROLES = st.sampled_from(["system", "user", "assistant"])
MESSAGES = st.lists(st.fixed_dictionaries({"role": ROLES, "content": TEXTS}), min_size=1, max_size=6)


@given(MESSAGES)
def test_every_text_that_says_something_is_sent_once(messages):
    """In its order, on its side, to the letter; and the same input gives the same bytes."""
    body = sent(*messages)
    assert request_body(SETTINGS, messages, [], None) == request_body(SETTINGS, messages, [], None)
    spoken = [(turn["role"], block["text"]) for turn in body["messages"] for block in turn["content"]]
    expected = [(m["role"], m["content"]) for m in messages if m["content"].strip()]
    assert spoken == [pair for pair in expected if pair[0] != "system"]
    roles = [turn["role"] for turn in body["messages"]]
    assert all(one != other for one, other in pairwise(roles))
