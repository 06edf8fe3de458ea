"""Messages: what a row asks, what goes on the wire, and what a row is known by."""

import json

import pytest
from msgspec import structs

from eventlog.events import BudgetReserved, ModelAnswered, PromptStarted, ToolFinished
from projections.answer import ToolCall
from projections.asking import prompt_text, row_messages
from projections.conversation import Attempt
from projections.messages import Message, attempt_messages, request_messages

PLAIN = {"template": "{prompt}", "system_prompt": None}


def asked(row, settings=None):
    """A row's messages without what they look like in the row."""
    return [
        structs.replace(m, given=None) for m in row_messages(row, PLAIN if settings is None else settings)
    ]


def test_prompt_is_one_user_message_exactly_as_it_is():
    """Nothing is trimmed, and braces in a prompt are no template."""
    assert row_messages({"prompt": " {x} <think>\r\n"}, PLAIN) == [Message("user", " {x} <think>\r\n")]
    assert row_messages({"prompt": "a"}, {}) == [Message("user", "a")]


def test_template_is_filled_from_the_row():
    """Fields by name, other values as JSON, doubled braces as braces."""
    row = {"prompt": "p {n}", "n": 3, "list": ["é"]}
    settings = {"template": "{{{n}}} {prompt} {list}"}
    assert row_messages(row, settings)[0].content == '{3} p {n} ["é"]'


def test_template_that_names_a_missing_field_is_an_error():
    """The message names the field."""
    with pytest.raises(ValueError, match=r"\{answer\}, which the row does not have"):
        row_messages({"prompt": "p"}, {"template": "{answer}"})


def test_system_prompt_leads_unless_the_row_has_its_own():
    """A row's own system message wins."""
    settings = {"system_prompt": "S"}
    own = {"messages": [{"role": "system", "content": "mine"}, {"role": "user", "content": "q"}]}
    assert row_messages({"prompt": "q"}, settings) == [Message("system", "S"), Message("user", "q")]
    assert asked(own, settings) == [Message("system", "mine"), Message("user", "q")]


def test_both_spellings_of_turns_are_the_same_messages():
    """OpenAI's and ShareGPT's; the last user turn is the prompt, and what follows it is left out."""
    openai = [("system", "s"), ("user", "a"), ("assistant", "b"), ("user", "c"), ("assistant", "old answer")]
    share = {"user": "human", "assistant": "gpt"}
    rows = [
        {"messages": [{"role": role, "content": text} for role, text in openai]},
        {"conversations": [{"from": share.get(role, role), "value": text} for role, text in openai]},
        {"messages": [{"role": role, "content": [{"type": "text", "text": text}]} for role, text in openai]},
    ]
    expected = [Message("system", "s"), Message("user", "a"), Message("assistant", "b"), Message("user", "c")]
    assert [asked(row) for row in rows] == [expected] * 3


def test_template_is_for_the_last_user_turn():
    """Earlier turns are sent as they are."""
    row = {"messages": [{"role": "user", "content": "a"}, {"role": "user", "content": "b"}]}
    assert [m.content for m in row_messages(row, {"template": "<{prompt}>"})] == ["a", "<b>"]


def test_earlier_tool_turns_keep_their_calls():
    """Ids, raw arguments and reasoning are kept; a result is named after its call."""
    call = {"id": "x", "type": "function", "function": {"name": "f", "arguments": '{"a": 1}'}}
    turns = [
        {"role": "assistant", "content": None, "tool_calls": [call], "reasoning_content": "r"},
        {"role": "tool", "tool_call_id": "x", "content": "ok"},
        {"role": "user", "content": "q"},
    ]
    assert asked({"messages": turns})[:2] == [
        Message("assistant", "", "r", [ToolCall("x", "f", '{"a": 1}')]),
        Message("tool", "ok", tool_call_id="x", name="f"),
    ]


BAD = [
    ({}, "no prompt"),
    ({"messages": []}, "no prompt"),
    ({"messages": "x"}, "no prompt"),
    ({"messages": [3]}, "message 1: not an object"),
    ({"messages": [{"role": "user", "content": "a"}, {"role": "robot"}]}, "message 2: unknown role 'robot'"),
    ({"messages": [{"role": ["x"]}]}, "unknown role"),
    ({"messages": [{"role": "system", "content": "a"}]}, "no user turn"),
    ({"messages": [{"role": "user", "content": " \n"}]}, "blank prompt"),
    ({"messages": [{"role": "user", "content": {"a": 1}}]}, "neither text"),
    ({"messages": [{"role": "user", "content": [{"image_url": {}}]}]}, "neither text nor an object"),
    (
        {"messages": [{"role": "assistant", "tool_calls": [{}]}, {"role": "user", "content": "a"}]},
        "function name",
    ),
]


@pytest.mark.parametrize(("row", "words"), BAD, ids=range(len(BAD)))
def test_row_that_asks_nothing_is_an_error(row, words):
    """Both readers say what is wrong, and where."""
    with pytest.raises(ValueError, match=words):
        row_messages(row, PLAIN)
    with pytest.raises(ValueError, match=words):
        prompt_text(row)


def test_prompt_text_is_the_prompt_or_all_the_messages():
    """Key order does not matter; an earlier turn does."""
    turns = [{"role": "system", "content": "s"}, {"role": "user", "content": "é"}]
    turned = [dict(reversed(turn.items())) for turn in turns]
    text = prompt_text({"messages": turns})
    assert text == '[{"content":"s","role":"system"},{"content":"é","role":"user"}]'
    assert prompt_text({"messages": turned}) == text
    assert prompt_text({"messages": turns[1:]}) != text
    assert prompt_text({"prompt": " x\ud800"}) == " x\ud800"


def test_lone_surrogates_do_not_reach_the_wire():
    """U+FFFD stands in their place."""
    messages = row_messages(
        {"prompt": "a\ud800", "f": "\udc00"}, {"template": "{prompt}{f}", "system_prompt": "\ud800"}
    )
    assert [m.content for m in messages] == ["\ufffd", "a\ufffd\ufffd"]


def test_wire_has_what_trajectories_do_not():
    """The ephemeral prompt joins the system message, the prefill follows it."""
    settings = {"ephemeral_system_prompt": "E", "prefill": [{"role": "user", "content": "P"}]}
    asked = [Message("system", "S"), Message("user", "q")]
    assert request_messages(asked, settings) == [
        {"role": "system", "content": "S\n\nE"},
        {"role": "user", "content": "P"},
        {"role": "user", "content": "q"},
    ]
    assert request_messages(asked[1:], settings)[0] == {"role": "system", "content": "E"}
    assert request_messages(asked, {}) == [
        {"role": "system", "content": "S"},
        {"role": "user", "content": "q"},
    ]
    assert asked[0].content == "S"


def test_wire_shape_of_calls_and_results():
    """Arguments go back verbatim if a server can read them, else inside an object that it can."""
    calls = [ToolCall("x", "f", '{"a": 1}'), ToolCall("y", "g", '{"a":1}{"a":1}')]
    messages = [Message("assistant", "", "r", calls), Message("tool", "ok", tool_call_id="x", name="f")]
    assistant, tool = request_messages(messages, {})
    assert (assistant["role"], assistant["content"]) == ("assistant", None)
    assert assistant["tool_calls"][0] == {
        "id": "x",
        "type": "function",
        "function": {"name": "f", "arguments": '{"a": 1}'},
    }
    assert json.loads(assistant["tool_calls"][1]["function"]["arguments"]) == {
        "invalid_json": '{"a":1}{"a":1}'
    }
    assert tool == {"role": "tool", "tool_call_id": "x", "content": "ok"}


def answer(*names, ids=None, text=None):
    """A response body that calls these tools."""
    calls = [
        {"id": ids[n] if ids else f"id{n}", "function": {"name": name, "arguments": "{}"}}
        for n, name in enumerate(names)
    ]
    message = {"content": text, "tool_calls": calls}
    choice = {"message": message, "finish_reason": "tool_calls" if calls else "stop"}
    return json.dumps({"choices": [choice]}).encode()


def attempt_of(*turns):
    """An attempt: (answer body, {position: content}) a turn."""
    attempt = Attempt.start(PromptStarted("u", 1, [], b""), 0, 1)
    for number, (body, results) in enumerate(turns, 1):
        attempt.reserved(BudgetReserved(f"c{number}", "u", 1, "rollout", "m", "e", b"", None, 1, 1, ""))
        attempt.answered(ModelAnswered(f"c{number}", body, 1, None))
        for position, content in results.items():
            attempt.tool_finished(
                ToolFinished("u", 1, number, position, content, success=True, duration_ms=1)
            )
    return attempt


def test_results_are_paired_in_call_order():
    """Whatever order they finished in; a call without a result has no message."""
    attempt = attempt_of((answer("f", "g", "h"), {2: b"third", 0: b"first"}), (answer(text="done"), {}))
    messages = attempt_messages(attempt)
    assert [m.role for m in messages] == ["assistant", "tool", "tool", "assistant"]
    assert [(m.tool_call_id, m.name, m.content) for m in messages[1:3]] == [
        ("id0", "f", "first"),
        ("id2", "h", "third"),
    ]


def test_missing_and_repeated_ids_become_ids_of_their_place():
    """The same ones every time, unique over the whole attempt."""
    turns = (
        (answer("f", "g", "h", ids=["a", "a", None]), {0: b"1", 1: b"2", 2: b"3"}),
        (answer("f", ids=["a"]), {}),
    )
    attempt = attempt_of(*turns)
    messages = attempt_messages(attempt)
    assert [c.id for c in messages[0].tool_calls] == ["a", "call_1_1", "call_1_2"]
    assert [m.tool_call_id for m in messages[1:4]] == ["a", "call_1_1", "call_1_2"]
    assert messages[4].tool_calls[0].id == "call_2_0"
    assert attempt_messages(attempt) == messages == attempt_messages(attempt_of(*turns))


def test_answer_that_holds_nothing_is_left_out():
    """A body that is no answer leaves no turn."""
    assert attempt_messages(attempt_of((b"<html>", {}))) == []


def test_tool_results_that_are_no_text_are_survived():
    """Bytes that are no UTF-8 become U+FFFD."""
    messages = attempt_messages(attempt_of((answer("f", "g"), {0: b"a\xff", 1: b"\xed\xa0\x80"})))
    assert [m.content for m in messages[1:]] == ["a\ufffd", "\ufffd"]
