"""Answers in Anthropic's dialect, read from the body alone."""

import json

import pytest

from projections import normalise_usage, parse_answer

USAGE = {
    "input_tokens": 10,
    "cache_creation_input_tokens": 5,
    "cache_read_input_tokens": 20,
    "output_tokens": 7,
}


def read(*content, reason="end_turn", **more):
    """The answer of a message with these blocks."""
    message = {
        "type": "message",
        "role": "assistant",
        "content": list(content),
        "stop_reason": reason,
        **more,
    }
    return parse_answer(json.dumps(message).encode())


def text(said):
    """A block of text."""
    return {"type": "text", "text": said}


def use(arguments, identity="t1"):
    """A tool call."""
    return {"type": "tool_use", "id": identity, "name": "look", "input": arguments}


def test_texts_thoughts_and_calls_are_read_from_their_blocks():
    """Texts follow each other; thoughts are reasoning; arguments are the text of their object."""
    thought = {"type": "thinking", "thinking": "hm", "signature": "s"}
    answer = read(thought, text("I "), text("look"), use({"a": [1, "☃"]}), reason="tool_use", usage=USAGE)
    assert (answer.text, answer.reasoning, answer.problem) == ("I look", "hm", None)
    [call] = answer.tool_calls
    assert (call.id, call.name, json.loads(call.arguments)) == ("t1", "look", {"a": [1, "☃"]})
    assert answer.finish_reason == "tool_calls"
    assert [block["type"] for block in answer.blocks] == ["thinking", "text", "text", "tool_use"]


REASONS = {
    "end_turn": ("stop", None),
    "stop_sequence": ("stop", None),
    "max_tokens": ("length", None),
    "model_context_window_exceeded": ("length", None),
    "tool_use": ("tool_calls", None),
    "refusal": ("content_filter", "content filter"),
    "pause_turn": ("pause_turn", "unknown finish_reason: pause_turn"),
    None: (None, "no finish_reason"),
}


@pytest.mark.parametrize("reason", REASONS)
def test_every_stop_reason_has_its_meaning_and_unknown_ones_are_a_problem(reason):
    """Success needs evidence that is known; else the reason is told word for word."""
    answer = read(text("a"), reason=reason)
    expected, problem = REASONS[reason]
    assert answer.finish_reason == expected
    assert (answer.problem is None) == (problem is None)
    assert problem is None or problem in answer.problem


@pytest.mark.parametrize("content", [[], [text("")], [{"type": "thinking", "thinking": "hm"}], [None, 3]])
def test_a_message_without_text_or_call_is_no_answer(content):
    """Thoughts alone are none either, and odd blocks break nothing."""
    assert read(*content).problem is not None


def test_a_call_whose_arguments_were_cut_keeps_their_text():
    """As a stream leaves them; the model is told that they are no JSON."""
    assert read(use('{"a": '), reason="max_tokens").tool_calls[0].arguments == '{"a": '
    assert read(use({}), reason="tool_use").tool_calls[0].arguments == "{}"


def test_tokens_of_the_cache_are_input():
    """Read ones are told apart; written ones cost at least what input does."""
    usage = normalise_usage(read(text("a"), usage=USAGE).usage_raw)
    assert (usage.input_tokens, usage.cached_input_tokens, usage.output_tokens) == (35, 20, 7)


def test_an_error_is_told_in_its_words():
    """It is no message, whatever else stands in it."""
    error = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
    assert "Overloaded" in parse_answer(json.dumps(error).encode()).problem
