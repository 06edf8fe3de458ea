"""What rows ask: turns as they are, templates over any fields, batch lines, and what each is known by."""

import pytest

from projections import batch_request, request_messages, with_own_fields
from projections.asking import prompt_text, row_messages
from projections.batch_lines import asking_fields, own_tools
from projections.messages import Message
from projections.templates import fill, template_fields

CALL = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": '{"a":1}'}}
TURNS = [
    {"role": "developer", "content": "Be brief.", "name": "d"},
    {"role": "user", "content": "first"},
    {"role": "assistant", "content": None, "tool_calls": [CALL], "reasoning_content": "hm"},
    {"role": "tool", "tool_call_id": "c1", "content": [{"type": "text", "text": "ok"}]},
    {
        "role": "user",
        "content": [{"type": "text", "text": "look"}, {"type": "image_url", "image_url": {"url": "u"}}],
    },
]
SHARE = [
    {"from": "system", "value": "S"},
    {"from": "human", "value": "a"},
    {"from": "gpt", "value": "b"},
    {"from": "human", "value": "c"},
]


def sent(row, **settings):
    """What goes on the wire for a row."""
    return request_messages(row_messages(row, settings), settings)


def test_turns_in_openai_s_shape_are_sent_exactly_as_they_are():
    """Names, parts, images, null contents, tool calls and results: nothing is dropped and nothing added."""
    for name in ("messages", "conversations"):
        assert sent({name: TURNS}) == TURNS
    assert [m.content for m in row_messages({"messages": TURNS}, {})][-1] == "look[image_url]"


def test_turns_in_sharegpt_s_shape_become_messages():
    """The last human turn is the prompt; an answer after it is left out."""
    wanted = [("system", "S"), ("user", "a"), ("assistant", "b"), ("user", "c")]
    row = {"conversations": [*SHARE, {"from": "gpt", "value": "old"}]}
    assert [(m["role"], m["content"]) for m in sent(row)] == wanted


def test_an_ephemeral_prompt_joins_a_system_message_whatever_its_shape():
    """Text is added to text, a part to parts."""
    parts = [{"type": "text", "text": "S", "cache_control": {"type": "ephemeral"}}]
    for content, wanted in (("S", "S\n\nE"), (parts, [*parts, {"type": "text", "text": "\n\nE"}])):
        row = {"messages": [{"role": "system", "content": content}, {"role": "user", "content": "q"}]}
        assert sent(row, ephemeral_system_prompt="E")[0]["content"] == wanted
        assert row["messages"][0]["content"] == content


def test_a_tool_turn_that_no_endpoint_takes_is_refused_unless_it_is_left_out():
    """One without an id, in front of the prompt; behind it nobody sends it."""
    tool = {"from": "tool", "value": "x"}
    with pytest.raises(ValueError, match="message 2: a tool turn without a tool_call_id"):
        row_messages({"conversations": [SHARE[1], tool, SHARE[3]]}, {})
    assert len(row_messages({"conversations": [SHARE[1], tool]}, {})) == 1
    legacy = [{"role": "function", "name": "f", "content": "x"}, {"role": "user", "content": "q"}]
    assert sent({"messages": legacy}) == legacy


def test_a_template_needs_no_prompt_where_it_names_none():
    """Its fields make the prompt, text as it is and anything else as JSON."""
    row = {"question": "Why?", "n": 3, "tags": ["é", None], "First Name": "A", "prompt": 7}
    text = "{question} {n} {tags} {First Name} {{n}} { x } {} {'a': 1}"
    assert row_messages(row, {"template": text}) == [
        Message("user", "Why? 3 [\"é\",null] A {n} { x } {} {'a': 1}")
    ]


@pytest.mark.parametrize(
    ("row", "template", "words"),
    [
        ({"a": 1}, "{b}", r"names \{b\}, which the row does not have \(found the fields a\)"),
        ({}, "{b}", r"which the row does not have \(found none\)"),
        ({"a": "x"}, "{prompt} {a}", "no prompt, and no list of messages"),
        ({"a": " "}, "{a}", "blank prompt"),
        ({"messages": "x", "a": "b"}, "{prompt} {a}", "no prompt, and no list of messages"),
    ],
)
def test_a_row_that_does_not_fit_a_template_is_refused_by_the_field(row, template, words):
    """The field, and what was found instead."""
    with pytest.raises(ValueError, match=words):
        row_messages(row, {"template": template})


def test_a_template_takes_the_text_of_the_last_turn_and_leaves_its_images():
    """The image stays on the wire, after the text."""
    (*_, last) = sent({"messages": TURNS, "style": "short"}, template="{style}: {prompt}")
    assert last["content"] == [{"type": "text", "text": "short: look"}, TURNS[-1]["content"][1]]
    (plain,) = sent({"messages": [TURNS[1]]}, template="<{prompt}>")
    assert plain == {"role": "user", "content": "<first>"}


def test_a_row_is_known_by_what_its_template_names():
    """Words of the template and other fields do not matter; a named field does, and earlier turns do."""
    row = {"q": "Why?", "style": "short", "id": 1}
    known = prompt_text(row, "{q}")
    assert known == prompt_text({**row, "id": 2, "style": "long"}, "Say: {q}!")
    assert known != prompt_text({**row, "q": "How?"}, "{q}")
    assert known != prompt_text(row, "{q} {style}")
    assert prompt_text({"prompt": "p", "q": 1}, "-> {prompt}") == prompt_text({"prompt": "p"})
    turns = {"messages": TURNS, "q": "x"}
    assert prompt_text(turns, "{q}") != prompt_text({**turns, "messages": TURNS[4:]}, "{q}")
    # A field that is text is not the same as one that is its JSON.
    assert prompt_text({"q": 1}, "{q}") != prompt_text({"q": "1"}, "{q}")


def test_names_of_a_template():
    """What is a field and what is text."""
    assert template_fields("{a} {{b}} {c-d} {e f} {1} {g:2} {prompt}") == {"a", "c-d", "e f", "prompt"}
    assert fill("{{{a}}}", {"a": "x"}, "") == "{x}"


BODY = {
    "model": "m",
    "messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "Well,"}],
}
LINE = {"custom_id": "a", "method": "POST", "url": "/v1/chat/completions", "body": BODY}


def test_a_batch_line_asks_its_messages_whatever_comes_last():
    """All of them, as they are; a system prompt of the run leads where there is none."""
    assert sent(LINE) == BODY["messages"]
    assert sent(LINE, system_prompt="S") == [{"role": "system", "content": "S"}, *BODY["messages"]]
    assert batch_request(LINE) is BODY
    assert batch_request({**LINE, "prompt": "p"}) is None
    assert batch_request({"prompt": "p", "body": {}}) is None


def test_a_batch_line_is_known_by_its_name_and_all_that_it_asks():
    """Another name or another temperature is another request."""
    other = {**LINE, "custom_id": "b"}
    warmer = {**LINE, "body": {**BODY, "temperature": 1}}
    assert len({prompt_text(row) for row in (LINE, other, warmer)}) == 3
    assert prompt_text({**LINE, "body": dict(reversed(BODY.items()))}) == prompt_text(LINE)


def test_a_batch_line_s_own_fields_take_the_place_of_the_run_s():
    """Also where the same is said in another spelling; the model and the messages are not its own to say."""
    run = {"model": "m", "messages": [], "max_tokens": 5, "temperature": 0, "top_p": 1, "reasoning": {"a": 1}}
    body = {**BODY, "max_completion_tokens": 9, "temperature": 1, "reasoning_effort": "low", "stream": False}
    assert with_own_fields(run, {**LINE, "body": body}) == {
        "model": "m",
        "messages": [],
        "top_p": 1,
        "max_completion_tokens": 9,
        "temperature": 1,
        "reasoning_effort": "low",
    }
    assert with_own_fields(run, {"prompt": "p", "temperature": 1}) is run


def test_what_a_row_does_not_ask_is_carried_along():
    """Each form leaves out its own field and nothing else."""
    assert asking_fields({"prompt": "p", "conversations": SHARE}, "{prompt}") == {"prompt", "messages"}
    assert "prompt" not in asking_fields({"prompt": "p", "q": 1}, "{q}")
    assert asking_fields({"prompt": None, "messages": TURNS}, "{prompt}") >= {"prompt", "messages"}
    assert asking_fields(LINE, "{prompt}") == {"body"}


def test_tools_of_a_batch_line_are_read_and_junk_is_not():
    """Only what has a function with a name."""
    tools = [{"type": "function", "function": {"name": "f"}}, {"type": "web_search"}, 3, {"function": {}}]
    assert own_tools({**LINE, "body": {**BODY, "tools": tools}}) == [{"name": "f"}]
    assert own_tools({**LINE, "body": {**BODY, "tools": "x"}}) == []
    assert own_tools({"prompt": "p"}) == []
