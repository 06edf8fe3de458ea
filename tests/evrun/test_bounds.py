"""The bound of a request: never below what any tokenizer, template or price step can make of it."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eventlog.events import Usage
from evrun.bounds import UNBOUNDED_FIELDS, request_bound
from evrun.prices import cost_nano_usd, parse_price

PRICE = parse_price("m=2,8")[1]


def body_of(*texts, **fields):
    """A request with these texts as user messages."""
    messages = [{"role": "user", "content": text} for text in texts]
    return json.dumps({"model": "m", "messages": messages, **fields}, ensure_ascii=False).encode()


def test_the_bound_is_bytes_and_allowances_and_the_output_cap():
    """With how it was made, for the log."""
    body = body_of("hello", max_tokens=100)
    bound = request_bound(body, PRICE)
    assert bound.input_tokens == len(body) + 512 + 16
    assert bound.output_tokens == 100
    assert bound.nano_usd == bound.input_tokens * 2000 + 100 * 8000
    assert bound.how == f"{len(body)} bytes + 528 allowed"


@given(st.lists(st.text(), max_size=4), st.integers(0, 10**6))
def test_no_text_has_more_bytes_than_its_bound_has_tokens(texts, cap):
    """A byte-level tokenizer makes at most a token a byte."""
    bound = request_bound(json.dumps({"messages": [{"role": "user", "content": t} for t in texts],
                                      "max_tokens": cap}).encode(), PRICE)  # fmt: skip
    tokens = sum(len(text.encode("utf-8", "surrogatepass")) + 16 for text in texts)
    assert bound.input_tokens >= tokens
    assert cost_nano_usd(PRICE, Usage(tokens, 0, cap, None)) <= bound.nano_usd


@pytest.mark.parametrize(
    ("fields", "output"),
    [
        ({"max_tokens": 7}, 7),
        ({"max_completion_tokens": 9}, 9),
        ({"max_tokens": 7, "max_completion_tokens": 9}, 9),
        ({"max_tokens": 7, "n": 3}, 21),
        ({"max_tokens": 7, "n": None}, 7),
        ({"max_tokens": None}, None),
        ({}, None),
    ],
)
def test_the_output_cap_is_what_the_request_says(fields, output):
    """Whatever put it there, options or --extra-body; times the answers that are asked for."""
    bound = request_bound(body_of("x", **fields), PRICE)
    assert bound.output_tokens == output
    assert (bound.nano_usd is None) == (output is None)
    assert ("no output cap" in bound.how) == (output is None)


def test_a_cap_that_the_caller_knows_stands_in_where_the_request_names_none():
    """And never replaces one that is sent."""
    assert request_bound(body_of("x"), PRICE, max_tokens=5).output_tokens == 5
    assert request_bound(body_of("x", max_tokens=50), PRICE, max_tokens=5).output_tokens == 50
    assert request_bound(body_of("x", n=2), PRICE, max_tokens=5).output_tokens == 10


def test_tools_count_twice_and_with_the_instructions_that_servers_add():
    """Templates print them again, indented."""
    tools = [{"type": "function", "function": {"name": "terminal", "parameters": {"type": "object"}}}]
    plain, with_tools = body_of("x"), body_of("x", tools=tools)
    more = request_bound(with_tools, PRICE).input_tokens - request_bound(plain, PRICE).input_tokens
    indented = len(json.dumps(tools, indent=4))
    assert more >= 1024 + 64 + 2 * len(json.dumps(tools)) > indented


def test_without_a_price_there_is_a_bound_of_tokens_only():
    """The log says so."""
    bound = request_bound(body_of("x", max_tokens=5), None)
    assert (bound.output_tokens, bound.nano_usd) == (5, None)
    assert bound.how.endswith("no price")


@pytest.mark.parametrize(
    "part",
    [
        {"type": "image_url", "image_url": {"url": "https://x/y.png"}},
        {"type": "input_audio", "input_audio": {"data": "aaaa"}},
        {"type": "file", "file": {"file_id": "f"}},
    ],
)
def test_an_image_has_no_known_bound(part):
    """A short address may stand for thousands of tokens."""
    bound = request_bound(body_of([{"type": "text", "text": "what is it"}, part], max_tokens=5), PRICE)
    assert bound.nano_usd is None
    assert "images" in bound.how


@pytest.mark.parametrize(
    "body",
    [
        body_of('the field "image_url" is text', max_tokens=5),
        body_of([{"type": "text", "text": "x"}], max_tokens=5),
        body_of(
            "x",
            max_tokens=5,
            tools=[{"function": {"name": "t", "parameters": {"image_url": {}, "file": {}}}}],
        ),
    ],
)
def test_text_about_images_is_no_image(body):
    """Only a part of a message is one."""
    assert request_bound(body, PRICE).nano_usd is not None


@pytest.mark.parametrize("field", UNBOUNDED_FIELDS)
def test_a_request_that_is_not_billed_by_its_text_alone_has_no_known_bound(field):
    """Other models, searches, sound: the field is named."""
    bound = request_bound(body_of("x", max_tokens=5, **{field: ["y"]}), PRICE)
    assert (bound.nano_usd, bound.media) == (None, True)
    assert field in bound.how
    assert request_bound(body_of(field, max_tokens=5, **{field: None}), PRICE).nano_usd is not None


@pytest.mark.parametrize("fields", [{"max_tokens": "900"}, {"max_tokens": 9.5}, {"max_tokens": 9, "n": "2"}])
def test_an_output_cap_that_cannot_be_read_is_none(fields):
    """Whoever takes it may read something else in it; what else the request holds is still counted."""
    tools = [{"type": "function", "function": {"name": "t", "parameters": {}}}]
    bound = request_bound(body_of("x", tools=tools, **fields), PRICE, max_tokens=5)
    assert (bound.output_tokens, bound.nano_usd) == (None, None)
    assert bound.input_tokens > 1024


@given(st.binary(max_size=100))
def test_no_bytes_break_the_bound(body):
    """What cannot be read will be refused by the endpoint; its bound is its bytes."""
    assert request_bound(body, PRICE).input_tokens >= len(body)
