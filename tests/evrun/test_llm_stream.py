"""Streamed answers, put together: whoever reads them sees what would have come in one piece."""

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evrun.effects.llm_outcomes import Answered, Lost
from evrun.effects.llm_stream import from_stream
from projections import normalise_usage, parse_answer
from tests.endpoint.anthropic import message_of
from tests.endpoint.streams import message_stream_of, stream_of

HOW = st.fixed_dictionaries(
    {"pieces": st.integers(1, 9), "crlf": st.booleans(), "comments": st.booleans(), "done": st.booleans()}
)
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
ARGUMENTS = st.dictionaries(TEXT, TEXT | st.integers(-(2**53), 2**53), max_size=3).map(json.dumps)
CALLS = st.lists(
    st.tuples(st.text("abc_", min_size=1), ARGUMENTS | st.sampled_from(["", "{", '{"a": 1}{"a": 1}'])),
    max_size=3,
)
USAGE = st.fixed_dictionaries({"prompt_tokens": st.integers(0, 99), "completion_tokens": st.integers(0, 99)})
FIELDS = st.sampled_from(["reasoning", "reasoning_content", "thinking", "reasoning_details", None])


def calls_of(pairs):
    """Tool calls, each with an id of its own."""
    return [
        {"id": f"call_{n}", "type": "function", "function": {"name": name, "arguments": arguments}}
        for n, (name, arguments) in enumerate(pairs)
    ]


@st.composite
def completions(draw, arguments=None):
    """A chat completion in one piece, with what a message can hold."""
    message = {"role": "assistant", "content": draw(TEXT | st.none())}
    thought, field = draw(TEXT), draw(FIELDS)
    if field is not None and thought:
        message[field] = [{"type": "reasoning.text", "text": thought}] if "details" in field else thought
    pairs = draw(CALLS if arguments is None else st.lists(st.tuples(st.text("ab", min_size=1), arguments)))
    if pairs:
        message["tool_calls"] = calls_of(pairs)
    if draw(st.booleans()):
        message["refusal"] = draw(TEXT)
    reason = draw(st.sampled_from(["stop", "length", "tool_calls", "content_filter", "banana"]))
    choice = {"index": 0, "message": message, "finish_reason": reason}
    return {"id": "c", "object": "chat.completion", "model": "m", "choices": [choice], "usage": draw(USAGE)}


def assembled(stream, failure=None):
    """The outcome of a stream of these bytes."""
    return from_stream(Answered(200, stream, {}, 5), failure)


def read(body):
    """An answer and its tokens, as all that comes after reads them."""
    answer = parse_answer(body)
    return answer, normalise_usage(answer.usage_raw)


@given(completions(), HOW)
def test_a_streamed_answer_reads_as_the_one_in_one_piece(whole, how):
    """Texts in pieces of any size, reasoning in any field, tool calls by index, any line ends."""
    body = msgspec.json.encode(whole)
    outcome = assembled(stream_of(body, how))
    assert isinstance(outcome, Answered)
    assert read(outcome.body) == read(body)
    assert json.loads(outcome.body)["object"] == "chat.completion"


@given(completions(arguments=ARGUMENTS), HOW)
def test_a_streamed_message_is_the_message_in_one_piece(whole, how):
    """In Anthropic's dialect: its blocks of text, of signed thoughts and of tool calls, to the letter."""
    whole["choices"][0]["message"].pop("refusal", None)
    body = message_of(msgspec.json.encode(whole))
    outcome = assembled(message_stream_of(body, how))
    assert isinstance(outcome, Answered)
    assert json.loads(outcome.body) == json.loads(body)
    assert read(outcome.body) == read(body)


WHOLE = {
    "id": "c",
    "model": "m",
    "choices": [
        {
            "index": 0,
            "message": {
                "role": "assistant",
                "content": "häß ☃ 𝄞 lich",
                "tool_calls": calls_of([("f", '{"x": 1}')]),
            },
            "finish_reason": "tool_calls",
        }
    ],
    "usage": {"prompt_tokens": 3, "completion_tokens": 4},
}  # fmt: skip
BODY = msgspec.json.encode(WHOLE)
STREAM = stream_of(BODY, {"pieces": 2})


def chunks(*values, end="data: [DONE]\n\n"):
    """A stream of these values."""
    return ("".join(f"data: {json.dumps(value)}\n\n" for value in values) + end).encode()


def delta(finish=None, **fields):
    """One chunk of one choice."""
    return {"choices": [{"index": 0, "delta": fields, "finish_reason": finish}]}


def test_a_stream_that_breaks_off_anywhere_is_lost_until_it_was_whole():
    """Cut after any byte, also in half a character: half an answer never counts, a whole one always does."""
    reason = STREAM.index(b'"finish_reason":"tool_calls"')
    whole_from = STREAM.index(b"\n", reason)
    for end in range(len(b"data:"), len(STREAM)):
        outcome = assembled(STREAM[:end])
        assert isinstance(outcome, Answered) == (end >= whole_from), end
        if isinstance(outcome, Answered):
            answer = parse_answer(outcome.body)
            assert (answer.text, answer.tool_calls[0].arguments) == ("häß ☃ 𝄞 lich", '{"x": 1}')


def test_what_a_broken_stream_said_about_tokens_is_told():
    """The loss keeps its class, and its message tells the tokens so far."""
    lost = Lost("timeout", "no answer in time", 9)
    partly = chunks({**delta(content="a"), "usage": {"prompt_tokens": 17}}, end="")
    outcome = assembled(partly, lost)
    assert (outcome.reason, outcome.elapsed_ms) == ("timeout", 5)
    assert outcome.message.startswith("no answer in time; usage reported so far:")
    assert "17" in outcome.message
    begun = message_stream_of(message_of(BODY), {"events": 3})
    outcome = assembled(begun)
    assert (outcome.reason, '"input_tokens": 3' in outcome.message) == ("connection", True)


def test_a_whole_answer_counts_though_the_connection_broke_after_it():
    """It said why it ended: nothing of it can be missing. Without its usage, the money stays in doubt."""
    whole = chunks(delta(content="a"), delta(finish="stop"), end="")
    outcome = assembled(whole, Lost("connection", "broke", 1))
    assert parse_answer(outcome.body).text == "a"
    assert parse_answer(outcome.body).usage_raw is None


def test_an_endpoint_that_answers_in_one_piece_has_answered():
    """It took no notice of the wish: its JSON is the answer; of half a JSON the loss stays."""
    assert assembled(BODY) == Answered(200, BODY, {}, 5)
    lost = Lost("connection", "broke", 1)
    assert assembled(BODY[:30], lost) is lost
    assert assembled(b"", None) == Answered(200, b"", {}, 5)


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_line_ends_comments_names_and_a_mark_at_the_front_are_no_matter(end):
    """As the format of events allows them; also several lines of data, and no space after the colon."""
    split = json.dumps(delta(content="b"), indent=1).splitlines()
    lines = [
        "\ufeff: hello", "", "event: chunk", "id: 7", f"data:{json.dumps(delta(content='a'))}", "", ":", "",
        *(f"data: {line}" for line in split), "", "retry: 5", f"data: {json.dumps(delta(finish='stop'))}", "",
        "data: [DONE]", "",
    ]  # fmt: skip
    outcome = assembled(end.join(lines).encode())
    assert parse_answer(outcome.body).text == "ab"


def test_a_server_without_blank_lines_is_understood():
    """Each line is an event then, the mark of the end too."""
    lines = [json.dumps(value) for value in (delta(content="a"), delta(content="b"), delta(finish="stop"))]
    stream = "".join(f"data: {line}\n" for line in [*lines, "[DONE]"]).encode()
    assert parse_answer(assembled(stream).body).text == "ab"


def test_what_is_no_json_between_events_makes_an_answer_unreadable():
    """Nobody knows what it would have said."""
    stream = b"data: <html>\n\n" + chunks(delta(content="a"), delta(finish="stop"))
    outcome = assembled(stream)
    assert isinstance(outcome, Lost)
    assert "<html>" in outcome.message


def test_an_error_within_a_stream_is_an_answer_with_that_error():
    """With what had come before it, so that nobody takes it for a refusal that cost nothing."""
    error = {"message": "Overloaded", "type": "overloaded_error"}
    body = json.loads(assembled(chunks(delta(content="a"), {"error": error}, end="")).body)
    assert (body["error"], bool(body["choices"])) == (error, True)
    assert json.loads(assembled(chunks({"error": error}, end="")).body) == {"error": error}
    message = message_stream_of(message_of(BODY), {"events": 4, "error": error})
    body = json.loads(assembled(message).body)
    assert (body["type"], body["error"], bool(body["content"])) == ("error", error, True)


CALL_STREAMS = {
    "by index, in turns": [
        {"index": 0, "id": "a", "function": {"name": "f", "arguments": ""}},
        {"index": 1, "id": "b", "function": {"name": "g", "arguments": '{"n"'}},
        {"index": 0, "function": {"arguments": "{}"}},
        {"index": 1, "function": {"arguments": ": 1}"}},
    ],
    "all of them counted 0": [
        {"index": 0, "id": "a", "function": {"name": "f", "arguments": "{}"}},
        {"index": 0, "id": "b", "function": {"name": "g", "arguments": '{"n": 1}'}},
    ],
    "without any index": [
        {"id": "a", "function": {"name": "f", "arguments": "{"}},
        {"function": {"arguments": "}"}},
        {"id": "b", "function": {"name": "g", "arguments": '{"n": 1}'}},
    ],
    "id and name again and again": [
        {"index": 0, "id": "a", "type": "function", "function": {"name": "f", "arguments": "{"}},
        {"index": 0, "id": "a", "type": "function", "function": {"name": "f", "arguments": "}"}},
        {"index": 1, "id": "b", "function": {"name": "g", "arguments": '{"n": 1}'}},
    ],
    "a new id for each piece": [
        {"index": 0, "id": "a", "function": {"name": "f", "arguments": "{"}},
        {"index": 0, "id": "x", "function": {"name": None, "arguments": "}"}},
        {"index": 1, "id": "b", "function": {"name": "g", "arguments": '{"n": 1}'}},
    ],
    "a name in pieces": [
        {"index": 0, "id": "a", "function": {"name": "", "arguments": ""}},
        {"index": 0, "function": {"name": "f", "arguments": "{}"}},
        {"index": 1, "id": "b", "function": {"name": "g"}},
        {"index": 1, "function": {"arguments": '{"n": 1}'}},
    ],
}


@pytest.mark.parametrize("pieces", CALL_STREAMS.values(), ids=CALL_STREAMS)
def test_tool_calls_are_told_apart_however_a_server_counts_them(pieces):
    """Two calls, each with its own arguments."""
    values = [delta(tool_calls=[piece]) for piece in pieces]
    answer = parse_answer(assembled(chunks(*values, delta(finish="tool_calls"))).body)
    found = [(call.id, call.name, call.arguments) for call in answer.tool_calls]
    assert found == [("a", "f", "{}"), ("b", "g", '{"n": 1}')]


def test_parts_and_details_grow_by_their_kind():
    """Content as a list of parts, and numbered details of reasoning, each text in pieces."""
    think = [{"type": "thinking", "thinking": [{"type": "text", "text": text}]} for text in ("so", " it is")]
    details = [
        {"type": "reasoning.text", "index": n, "text": text} for n, text in ((0, "x"), (0, "y"), (1, "z"))
    ]
    values = [delta(content=[part]) for part in think] + [delta(content="an"), delta(content="swer")]
    body = assembled(chunks(*values, delta(finish="stop"))).body
    assert (parse_answer(body).reasoning, parse_answer(body).text) == ("so it is", "answer")
    values = [delta(reasoning_details=[detail]) for detail in details]
    body = assembled(chunks(*values, delta(content="a", finish="stop"))).body
    assert parse_answer(body).reasoning == "xy\nz"


def test_logprobs_and_several_choices_come_whole():
    """Lists of tokens are joined; each choice is its own."""
    parts = [
        {"choices": [{"index": 0, "delta": {"content": t}, "logprobs": {"content": [{"token": t}]}}]}
        for t in "ab"
    ]
    other = {"choices": [{"index": 1, "delta": {"content": "c"}, "finish_reason": "stop"}]}
    body = json.loads(assembled(chunks(*parts, other, delta(finish="stop"))).body)
    assert body["choices"][0]["logprobs"]["content"] == [{"token": "a"}, {"token": "b"}]
    assert [choice["message"]["content"] for choice in body["choices"]] == ["ab", "c"]


def test_a_tool_call_that_was_cut_keeps_its_text():
    """No object can be made of it: its text goes to the model as an error, as it would in one piece."""
    events = [
        {"type": "message_start", "message": {"content": [], "usage": {"input_tokens": 1}}},
        {"type": "content_block_start", "index": 0,
         "content_block": {"type": "tool_use", "id": "t", "name": "f", "input": {}}},
        {"type": "content_block_delta", "index": 0,
         "delta": {"type": "input_json_delta", "partial_json": '{"a": "'}},
        {"type": "unheard_of", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "max_tokens"}, "usage": {"output_tokens": 9}},
        {"type": "message_stop"},
    ]  # fmt: skip
    answer, usage = read(assembled(chunks(*events, end="")).body)
    assert [call.arguments for call in answer.tool_calls] == ['{"a": "']
    assert (answer.finish_reason, usage.input_tokens, usage.output_tokens) == ("length", 1, 9)


@pytest.mark.parametrize("odd", [{"choices": [None, 3]}, {"choices": 7}, {}, {"choices": []}, {"usage": 3}])
def test_odd_chunks_change_nothing(odd):
    """A stream holds them now and then; what counts is what is understood."""
    stream = chunks(odd, delta(content="a"), odd, delta(finish="stop"), odd)
    assert parse_answer(assembled(stream).body).text == "a"


def test_half_a_character_and_giant_numbers_are_kept():
    """Only the standard library writes them, so it does."""
    stream = chunks({**delta(content="\ud83d"), "seed": 2**70}, delta(finish="stop"))
    body = json.loads(assembled(stream).body)
    assert (body["seed"], body["choices"][0]["message"]["content"]) == (2**70, "\ud83d")
