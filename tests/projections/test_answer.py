"""Reading answers: every dialect is understood, and what is no answer says why."""

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from eventlog.events import Usage
from projections.answer import Answer, ToolCall, normalise_usage, parse_answer


def body(message=None, finish="stop", **extra):
    """A response body with one choice."""
    return json.dumps({"choices": [{"message": message, "finish_reason": finish}], **extra}).encode()


def said(**message):
    """The answer read from a message with these fields."""
    return parse_answer(body({"role": "assistant", **message}))


REASONING = [
    {"content": "4", "reasoning": "two and two"},
    {"content": "4", "reasoning_content": "two and two"},
    {"content": "4", "thinking": "two and two"},
    {"content": "4", "reasoning": None, "reasoning_content": "two and two"},
    {"content": "4", "reasoning": "two and two", "reasoning_content": "two and two"},
    {"content": "4", "reasoning_details": [{"type": "reasoning.text", "text": "two and two"}]},
    {"content": "4", "reasoning_details": [{"type": "reasoning.summary", "summary": "two and two"}]},
    {"content": "4", "reasoning_details": [{"summary": [{"text": "two and two"}]}, {"data": "c2VjcmV0"}]},
    {"content": "4", "reasoning": {"content": "two and two"}},
    {"content": "<think>two and two</think>4"},
    {"content": "\n<think>\ntwo and two\n</think>\n\n4"},
    {"content": "<thinking>two and two</thinking>\n4"},
    {"content": "<REASONING_SCRATCHPAD>two and two</REASONING_SCRATCHPAD>\n4"},
    {"content": "two and two\n</think>\n\n4"},
    {"content": "<think>two and two</think>4", "reasoning": "two and two"},
    {"content": [{"type": "thinking", "thinking": [{"text": "two and two"}]}, {"type": "text", "text": "4"}]},
]


@pytest.mark.parametrize("message", REASONING, ids=range(len(REASONING)))
def test_reasoning_is_read_wherever_a_provider_puts_it(message):
    """Field names, details, parts and tags all give the same reasoning and the same text."""
    answer = said(**message)
    assert (answer.text, answer.reasoning, answer.problem) == ("4", "two and two", None)


def test_think_block_further_in_is_taken_out_of_the_text():
    """A block that begins a line is reasoning even after some text."""
    answer = said(content="First.\n<think>hm</think>\nSecond.")
    assert (answer.text, answer.reasoning) == ("First.\n\nSecond.", "hm")


def test_sentence_that_speaks_of_think_tags_is_left_alone():
    """Prose about the tags is text, not reasoning."""
    text = "Wrap it as <think>x</think>, then stop."
    assert (said(content=text).text, said(content=text).reasoning) == (text, None)


def test_native_reasoning_leaves_tags_inside_the_text_alone():
    """A provider that separates the reasoning means what it leaves in the text."""
    answer = said(content="Example:\n<think>x</think>", reasoning="r")
    assert (answer.text, answer.reasoning) == ("Example:\n<think>x</think>", "r")


def test_blank_reasoning_is_none():
    """Whitespace is no reasoning."""
    assert said(content="4", reasoning=" \n").reasoning is None
    assert said(content="<think>\n</think>\n4").reasoning is None


def test_text_without_tags_is_exact():
    """No trimming: whitespace around a text belongs to it."""
    assert said(content="  a < b \r\n").text == "  a < b \r\n"


def test_content_may_be_a_list_of_parts():
    """Parts are one text."""
    assert said(content=[{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]).text == "ab"


def test_tool_calls_keep_their_raw_arguments():
    """What does not parse is kept as it is; missing arguments are none; an object becomes its text."""
    calls = [
        {"id": "x", "function": {"name": "f", "arguments": '{"a":1}{"a":1}'}},
        {"id": None, "function": {"name": "g"}},
        {"id": 7, "function": {"name": "h", "arguments": {"b": 2}}},
        "junk",
    ]
    answer = parse_answer(body({"content": None, "tool_calls": calls}, "tool_calls"))
    assert answer.tool_calls == [
        ToolCall("x", "f", '{"a":1}{"a":1}'),
        ToolCall("", "g", "{}"),
        ToolCall("7", "h", '{"b":2}'),
    ]
    assert (answer.text, answer.problem) == ("", None)


def test_legacy_function_call_is_a_tool_call():
    """The older spelling is read too."""
    message = {"content": None, "function_call": {"name": "f", "arguments": "{}"}}
    assert parse_answer(body(message, "function_call")).tool_calls == [ToolCall("", "f", "{}")]


@pytest.mark.parametrize(
    ("finish", "reason"),
    [
        ("stop", "stop"),
        ("end_turn", "stop"),
        ("EOS", "stop"),
        ("max_tokens", "length"),
        ("tool_use", "tool_calls"),
    ],
)
def test_known_finish_reasons_are_one_spelling(finish, reason):
    """Aliases come out in OpenAI's words."""
    answer = parse_answer(body({"content": "a"}, finish))
    assert (answer.finish_reason, answer.problem) == (reason, None)


PROBLEMS = [
    (b"", "empty"),
    (b" \n", "empty"),
    (b"<html><body>502</body></html>", "HTML"),
    (b'{"choices": [{"mess', "cut"),
    (b"upstream error", "not JSON"),
    (b"[]", "array"),
    (b"null", "null"),
    (b"3", "number"),
    (b"[" * 200_000, "cannot be read"),
    (b"\xff\xfe", "not JSON"),
    (b'{"error": {"message": "model overloaded"}}', "model overloaded"),
    (b'{"error": "quota"}', "quota"),
    (b'{"error": {}}', "an error"),
    (b"{}", "no choices"),
    (b'{"choices": []}', "no choices"),
    (b'{"choices": null}', "no choices"),
    (b'{"choices": [3]}', "number"),
    (b'{"choices": [{"finish_reason": "stop"}]}', "no message"),
    (b'{"choices": [{"error": {"message": "upstream died"}, "message": {}}]}', "upstream died"),
    (body({"content": ""}), "neither text nor tool calls"),
    (body({"content": None}), "neither text nor tool calls"),
    (body({"content": " \n "}), "neither text nor tool calls"),
    (body({"content": "", "reasoning": "long"}, "length"), "token limit"),
    (body({"content": "<think>on and on"}, "length"), "token limit"),
    (body({"content": "fine"}, "galactic_rays"), "galactic_rays"),
    (body({"content": "fine"}, None), "no finish_reason"),
    (body({"content": "fine"}, 3), "unknown finish_reason: 3"),
    (body({"content": "fine"}, "content_filter"), "content filter"),
    (body({"content": None, "refusal": "I will not."}), "I will not."),
]


@pytest.mark.parametrize(("raw", "words"), PROBLEMS, ids=range(len(PROBLEMS)))
def test_what_is_no_answer_says_why(raw, words):
    """Success needs positive evidence; its lack is a problem in plain words."""
    problem = parse_answer(raw).problem
    assert problem is not None
    assert words in problem


def test_unknown_finish_reason_is_kept_verbatim_with_the_text():
    """A caller can still see what came."""
    answer = parse_answer(body({"content": "fine"}, "Galactic_Rays"))
    assert (answer.text, answer.finish_reason) == ("fine", "Galactic_Rays")


@pytest.mark.parametrize("escape", [rb"\ud800", b"\xed\xa0\x80"])
def test_lone_surrogates_are_survived(escape):
    """An escape or bytes that no UTF-8 text can hold become U+FFFD; a pair stays its character."""
    raw = (
        b'{"choices": [{"message": {"content": "a' + escape + rb'b\ud83d\ude00"}, "finish_reason": "stop"}]}'
    )
    answer = parse_answer(raw)
    assert (answer.text, answer.problem) == ("a\ufffdb\U0001f600", None)
    msgspec.json.encode(answer.text)


def test_reasoning_nested_without_end_is_a_problem():
    """What the parser can hold, the reader need not be able to walk."""
    raw = b'{"choices": [{"message": {"content": "a", "reasoning": %b}, "finish_reason": "stop"}]}'
    problem = parse_answer(raw % (b"[" * 700 + b"]" * 700)).problem
    assert problem is not None
    assert "nested too deeply" in problem


def test_part_of_a_type_that_is_no_text_is_read():
    """Hypothesis found it: a list cannot be looked up in a set."""
    assert said(content=[{"type": [], "text": "a"}]).text == "a"


LOOPS = [
    "<think></think>",
    "a\n<think>",
    "</think>a\n<think>",
    "x\n<think>a</think>\n",
    "<think>\n",
    "</think>",
]


@pytest.mark.parametrize("loop", LOOPS, ids=range(len(LOOPS)))
@pytest.mark.timeout(20)
def test_model_that_loops_over_tags_is_read_in_linear_time(loop):
    """A megabyte of tags would take hours if each were looked for to the end of the text."""
    said(content="x" + loop * (1_000_000 // len(loop)))
    said(content=loop * (1_000_000 // len(loop)))


def test_usage_comes_with_the_answer():
    """The provider's own object is kept raw; anything else is none."""
    assert parse_answer(body({"content": "a"}, usage={"prompt_tokens": 3})).usage_raw == {"prompt_tokens": 3}
    assert parse_answer(body({"content": "a"}, usage=[1])).usage_raw is None


USAGES = [
    ({"prompt_tokens": 5, "completion_tokens": 7}, Usage(5, None, 7, None)),
    ({"input_tokens": 5, "output_tokens": 7}, Usage(5, None, 7, None)),
    ({"prompt_tokens": 5, "prompt_tokens_details": {"cached_tokens": 0}}, Usage(5, 0, None, None)),
    ({"completion_tokens": 7, "completion_tokens_details": {"reasoning_tokens": 4}}, Usage(None, None, 7, 4)),
    (
        {"input_tokens": 5, "input_tokens_details": {"cached_tokens": 2}, "output_tokens": 1,
         "output_tokens_details": {"reasoning_tokens": 0}},
        Usage(5, 2, 1, 0),
    ),
    ({"prompt_tokens": 5, "prompt_cache_hit_tokens": 3}, Usage(5, 3, None, None)),
    (
        {"input_tokens": 5, "cache_read_input_tokens": 10, "cache_creation_input_tokens": 1},
        Usage(16, 10, None, None),
    ),
    ({"prompt_tokens": 12.0}, Usage(12, None, None, None)),
    ({"prompt_tokens": -1, "completion_tokens": "7"}, Usage(None, None, None, None)),
    ({"prompt_tokens": True, "completion_tokens": 1.5}, Usage(None, None, None, None)),
    ({"prompt_tokens": 2**63, "completion_tokens": 2**63 - 1}, Usage(None, None, 2**63 - 1, None)),
    # Reasoning beside the output: xAI and Gemini, with its count and without; the total shows it.
    (
        {"prompt_tokens": 5, "completion_tokens": 7, "total_tokens": 112,
         "completion_tokens_details": {"reasoning_tokens": 100}},
        Usage(5, None, 107, 100),
    ),
    ({"prompt_tokens": 5, "completion_tokens": 7, "total_tokens": 112}, Usage(5, None, 107, None)),
    (
        {"promptTokenCount": 5, "candidatesTokenCount": 7, "thoughtsTokenCount": 9, "totalTokenCount": 21},
        Usage(5, None, 16, 9),
    ),
    # Reasoning within the output, and totals that explain nothing.
    (
        {"prompt_tokens": 5, "completion_tokens": 7, "total_tokens": 12,
         "completion_tokens_details": {"reasoning_tokens": 4}},
        Usage(5, None, 7, 4),
    ),
    (
        {"prompt_tokens": 5, "completion_tokens": 7, "total_tokens": 50,
         "completion_tokens_details": {"reasoning_tokens": 4}},
        Usage(5, None, 7, 4),
    ),
    ({"prompt_tokens": 5, "completion_tokens": 7, "total_tokens": 3}, Usage(5, None, 7, None)),
    ({"prompt_tokens_details": None, "completion_tokens_details": "x"}, Usage(None, None, None, None)),
    (None, Usage(None, None, None, None)),
    ([], Usage(None, None, None, None)),
]  # fmt: skip


@pytest.mark.parametrize(("raw", "usage"), USAGES, ids=range(len(USAGES)))
def test_usage_is_null_where_it_is_not_reported(raw, usage):
    """All spellings are read; junk, negative and missing counts are null, never 0."""
    assert normalise_usage(raw) == usage


KEYS = [
    "choices",
    "message",
    "content",
    "finish_reason",
    "tool_calls",
    "function",
    "name",
    "arguments",
    "id",
    "error",
    "reasoning",
    "reasoning_details",
    "usage",
    "text",
    "type",
    "refusal",
]
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(KEYS),
            inner,
            max_size=4,
        )
    ),
    max_leaves=20,
)


@given(st.binary() | json_values.map(lambda value: json.dumps(value).encode()))
def test_nothing_makes_the_reader_raise(raw):
    """Any bytes give an answer, and one that can be encoded again."""
    answer = parse_answer(raw)
    assert isinstance(answer, Answer)
    msgspec.json.encode(
        [answer.text, answer.reasoning, answer.tool_calls, answer.finish_reason, answer.problem]
    )


@given(json_values, json_values, st.sampled_from(["stop", "length", None, 3]))
def test_no_message_makes_the_reader_raise(content, other, finish):
    """A well-formed envelope around anything at all is read too."""
    message = {"content": content, "tool_calls": other, "reasoning_details": other, "function_call": content}
    parse_answer(body(message, finish))


@given(json_values)
def test_no_usage_makes_the_reader_raise(raw):
    """Whatever stands where counts should be."""
    normalise_usage({"prompt_tokens": raw, "prompt_tokens_details": raw})
    normalise_usage(raw)
