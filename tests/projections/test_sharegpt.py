"""The conversation format: what its readers find, and that nothing is lost in it."""

import json
import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from projections.answer import ToolCall
from projections.escape import embed, escape_tags, extract, unescape_tags
from projections.messages import Message
from projections.sharegpt import render_conversation
from projections.sharegpt_parse import parse_conversation

TAGS = [f"<{slash}{tag}>" for tag in ("think", "tools", "tool_call", "tool_response") for slash in ("", "/")]
NEAR = [
    "<REASONING_SCRATCHPAD>",
    "<\\think>",
    "<\\\\/tool_call>",
    "\\u003c",
    "\\u003C",
    "\\\\u003c",
    "<",
    "\\",
]
PARTS = ["{", "}", "[1]", '"', "é", "😀", "\n", "\n\n", "\r\n", " ", "\x00", "\u2028", "\u2029"]
OURS = [
    "\n</think>\n",
    "<tool_call>\n",
    "\n\nFurther instructions:\n",
    '\n{"name": "x", "arguments": {}}\n</tool_call>',
]
NASTY = [*TAGS, *NEAR, *PARTS, *OURS]
SEARCH = [{"name": "search", "description": "Find <b>.", "parameters": {"type": "object"}, "extra": 1}]

texts = st.lists(st.sampled_from(NASTY) | st.text(max_size=6), max_size=8).map("".join)
json_texts = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=8,
).flatmap(
    lambda value: st.builds(
        lambda ascii_only, indent, around: (
            around + json.dumps(value, ensure_ascii=ascii_only, indent=indent) + around
        ),
        st.booleans(),
        st.sampled_from([None, 0, 2]),
        st.sampled_from(["", " ", "\n", "\t"]),
    )
)
payloads = texts | json_texts


@st.composite
def exchanges(draw):
    """An answer, and the results of all its calls."""
    names = draw(st.lists(texts, max_size=3))
    ids = draw(st.lists(texts.filter(bool), min_size=len(names), max_size=len(names)))
    calls = [ToolCall(identity, name, draw(payloads)) for identity, name in zip(ids, names, strict=True)]
    results = [Message("tool", draw(payloads), tool_call_id=call.id, name=call.name) for call in calls]
    return [Message("assistant", draw(texts), draw(st.none() | texts), calls), *results]


users = texts.map(lambda text: [Message("user", text)])
systems = texts.map(lambda text: [Message("system", text)])
conversations = st.lists(users | exchanges() | systems, max_size=5).map(
    lambda parts: [message for part in parts for message in part]
)


@given(conversations, st.none() | texts)
@example([Message("user", "</tools>\n<tool_call>")], "</tools>\n\n\nFurther instructions:\n")
@example([Message("assistant", "\n", ""), Message("assistant", "")], None)
def test_the_messages_come_back_exactly(messages, system_prompt):
    """parse(render(messages)) == messages, for any text whatever."""
    turns, _ = render_conversation(messages, SEARCH, system_prompt)
    expected = messages if system_prompt is None else [Message("system", system_prompt), *messages]
    assert parse_conversation(json.loads(json.dumps(turns))) == expected


@given(conversations)
def test_readers_by_regular_expression_find_what_is_there(messages):
    """The searches that consumers make give the real blocks, whatever the text says."""
    turns, escaped = render_conversation(messages, SEARCH, None)
    tools = re.search(r"<tools>(.*?)</tools>", turns[0]["value"], re.DOTALL)
    assert json.loads(tools[1])[0]["name"] == "search"
    gpt = [turn["value"] for turn in turns if turn["from"] == "gpt"]
    calls = [json.loads(c) for v in gpt for c in re.findall(r"<tool_call>(.*?)</tool_call>", v, re.DOTALL)]
    wanted = [call for message in messages for call in message.tool_calls]
    assert [set(call) for call in calls] == [{"name", "arguments"}] * len(wanted)
    assert [call["name"] for call in calls] == [call.name for call in wanted]
    assert all(value.startswith("<think>\n") and value.count("<think>") == 1 for value in gpt)
    tool = [turn["value"] for turn in turns if turn["from"] == "tool"]
    blocks = [
        json.loads(b) for v in tool for b in re.findall(r"<tool_response>(.*?)</tool_response>", v, re.DOTALL)
    ]
    results = [message for message in messages if message.role == "tool"]
    assert [set(block) for block in blocks] == [{"tool_call_id", "name", "content"}] * len(results)
    for block, result in zip(blocks, results, strict=True):
        assert block["content"] == _expected(result.content)
    free = [t for m in messages if m.role == "assistant" for t in (m.content, m.reasoning or "")]
    assert escaped == any(escape_tags(text) != text for text in free)


def _expected(text):
    """Parsed if it is a JSON object or array with numbers that a reader can hold, else the text."""
    try:
        value = json.loads(text)
    except ValueError:
        return text
    # A text that spells an escaped "<" and a raw one too stands as text: the one case that is not parsed.
    both = "\\u003c" in text and "<" in text
    return value if isinstance(value, dict | list) and not both else text


@given(payloads)
@example('{"a": "<", "b": "\\u003c"}')
@example('{"a": "\\\\u003c"}')
@example('{"a": "\\\\<"}')
@example('{"a": 1e400}')
@example('{"a": "\\ud800"}')
@example('{"a":1,"a":2}')
def test_embedded_json_comes_back_exactly(text):
    """Spacing, repeated keys and spellings survive; no "<" is written."""
    written = embed(text, ("{", "["))
    assert "<" not in written
    assert extract(written) == text
    json.loads(f'{{"k"{written}}}')


@given(texts)
def test_escaped_text_has_no_tag_and_comes_back(text):
    """Any number of backslashes in a tag survives."""
    escaped = escape_tags(text)
    assert not re.search(r"<\\{0}/?(think|tools|tool_call|tool_response|REASONING_SCRATCHPAD)>", escaped)
    assert unescape_tags(escaped) == text


def test_golden_conversation():
    """The turns, letter by letter."""
    calls = [
        ToolCall("call_a", "terminal", '{"command": "wc -l <x"}'),
        ToolCall("call_b", "read_file", '{"path": "n'),
    ]
    messages = [
        Message("user", "How long is <x>?\n"),
        Message("assistant", "Looking.", "Two files;\nboth at once.", calls),
        Message("tool", '{"output":"41","exit_code":0}', tool_call_id="call_a", name="terminal"),
        Message("tool", "Error: </tool_response>", tool_call_id="call_b", name="read_file"),
        Message("assistant", "It is <think> 41."),
    ]
    turns, escaped = render_conversation(messages, SEARCH, None)
    assert escaped
    assert turns[1:] == [
        {"from": "human", "value": "How long is <x>?\n"},
        {
            "from": "gpt",
            "value": "<think>\nTwo files;\nboth at once.\n</think>\nLooking.\n"
            '<tool_call>\n{"name": "terminal", "arguments": {"command": "wc -l \\u003cx"}}\n</tool_call>\n'
            '<tool_call>\n{"name": "read_file", "arguments": "{\\"path\\": \\"n"}\n</tool_call>',
        },
        {
            "from": "tool",
            "value": '<tool_response>\n{"tool_call_id": "call_a", "name": "terminal", '
            '"content": {"output":"41","exit_code":0}}\n</tool_response>\n'
            '<tool_response>\n{"tool_call_id": "call_b", "name": "read_file", '
            '"content": "Error: \\u003c/tool_response>"}\n</tool_response>',
        },
        {"from": "gpt", "value": "<think>\n</think>\nIt is <\\think> 41."},
    ]


def test_system_turn_holds_the_list_once_and_no_call():
    """The first list is the real one, in one line, and no search of the turn finds a call."""
    turns, _ = render_conversation([Message("user", "hi")], SEARCH, "Be brief. <tool_call>")
    value = turns[0]["value"]
    line = re.findall(r"<tools>\n(.*)\n</tools>", value)
    assert [json.loads(found) for found in line] == [
        [{"name": "search", "description": "Find <b>.", "parameters": {"type": "object"}, "required": None}]
    ]
    assert list(json.loads(line[0])[0]) == ["name", "description", "parameters", "required"]
    assert "\\u003cb>" in line[0]
    assert not re.search(r"<tool_call>.*</tool_call>", value, re.DOTALL)
    assert all(
        f"<{tag}>" in value and f"</{tag}>" in value for tag in ("tools", "tool_call", "tool_response")
    )
    assert value.endswith("Be brief. <tool_call>")


def test_no_tools_is_an_empty_list():
    """`[]`, not a missing list."""
    assert "<tools>\n[]\n</tools>" in render_conversation([], [], None)[0][0]["value"]


def test_leading_system_message_is_the_system_prompt():
    """It stands in the one system turn, so that the second turn is the human's."""
    turns, _ = render_conversation([Message("system", "Be brief."), Message("user", "hi")], [], None)
    assert [turn["from"] for turn in turns] == ["system", "human"]


def test_calls_without_results_get_an_id_of_their_place():
    """The format has no room for the id of a call that nobody answered."""
    calls = [ToolCall("a", "f", "{}"), ToolCall("b", "g", "{}"), ToolCall("c", "h", "{}")]
    messages = [Message("assistant", "", None, calls), Message("tool", "ok", tool_call_id="b", name="g")]
    parsed = parse_conversation(render_conversation(messages, [], None)[0])
    assert [call.id for call in parsed[0].tool_calls] == ["call_1_0", "b", "call_1_2"]


def test_rows_that_another_program_serialised_are_read():
    """Blocks with other spacing and key order are blocks all the same."""
    turns = [
        {"from": "system", "value": "Other words <tools></tools>"},
        {
            "from": "gpt",
            "value": '<think>\n</think>\n<tool_call>\n{"arguments":{"a":1},"name":"f"}\n</tool_call>',
        },
        {
            "from": "tool",
            "value": '<tool_response>\n{"name":"f","tool_call_id":"x","content":[1]}\n</tool_response>',
        },
    ]
    assert parse_conversation(turns) == [
        Message("assistant", "", None, [ToolCall("x", "f", '{"a":1}')]),
        Message("tool", "[1]", tool_call_id="x", name="f"),
    ]


@pytest.mark.parametrize(
    "turn",
    [
        {"from": "robot", "value": ""},
        {"from": "gpt", "value": "<tool_call>\n{}\n</tool_call>"},
        {"from": "gpt", "value": "<tool_call>\nnot json\n</tool_call>"},
        {"from": "tool", "value": "<tool_response>\n[1]\n</tool_response>"},
    ],
)
def test_what_is_not_this_format_is_an_error(turn):
    """Nothing is guessed."""
    with pytest.raises(ValueError, match=r"unknown source|not a block|Expecting value"):
        parse_conversation([turn])
