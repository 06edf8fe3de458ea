"""A request is known by its bytes: what makes two the same, and what never may."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evrun.agents.endpoint_asked import read_question
from evrun.agents.endpoint_json import NotJson, read_json, write_json


def paired(text):
    """The text with each two halves of a surrogate pair as the one character that JSON reads."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")


texts = st.text(st.characters(codec=None, exclude_categories=())).map(paired) | st.sampled_from(
    ["\ud800", "\udc00\ud83d", "😀", '\u2028\u0000"\\ud800']
)
numbers = st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.just(10**300)
values = st.recursive(
    st.none() | st.booleans() | numbers | texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=8,
)
bodies = st.dictionaries(texts, values, max_size=5).map(
    lambda body: {name: value for name, value in body.items() if name not in ("stream", "stream_options")}
)


def spelled(value, space="", *, turn=False):
    """JSON with this white space between everything, keys turned round or not."""
    match value:
        case dict():
            items = [
                f"{json.dumps(key)}{space}:{spelled(item, space, turn=turn)}" for key, item in value.items()
            ]
            return f"{{{space}{f'{space},{space}'.join(items[::-1] if turn else items)}{space}}}"
        case list():
            items = [spelled(item, space, turn=turn) for item in value]
            return f"[{space}{f'{space},{space}'.join(items)}{space}]"
        case _:
            return json.dumps(value)


def canonical(raw):
    """The canonical body of a request."""
    return read_question("chat/completions", raw).asked.body


@settings(max_examples=40, deadline=None)
@given(bodies, st.sampled_from(["", " ", "\n\t", "\r\n  "]), st.booleans(), st.booleans() | st.none())
def test_order_space_and_stream_do_not_matter(body, space, turn, stream):
    """However a program spells its request, and however it wants the answer told, it is the same request."""
    told = {"stream": stream, "stream_options": {"include_usage": True}}
    assert canonical(spelled(body | told, space, turn=turn).encode()) == canonical(spelled(body).encode())


@settings(max_examples=40, deadline=None)
@given(bodies, bodies)
def test_anything_else_matters(one, other):
    """Two requests have the same bytes if and only if they say the same."""
    same = canonical(spelled(one).encode()) == canonical(spelled(other, turn=True).encode())
    assert same == (typed(one) == typed(other))


def typed(value):
    """A value that equals another only if its types do too: 1 is neither 1.0 nor true."""
    if isinstance(value, dict):
        return {key: typed(item) for key, item in value.items()}
    if isinstance(value, list):
        return [typed(item) for item in value]
    return type(value).__name__, repr(value) if isinstance(value, float) else value


@settings(max_examples=40, deadline=None)
@given(bodies, st.data())
def test_one_small_change_is_another_request(body, data):
    """A value changed, a key added: the bytes differ."""
    before = canonical(spelled(body).encode())
    name = data.draw(texts.filter(lambda name: name not in body and not name.startswith("stream")))
    assert canonical(spelled({**body, name: None}).encode()) != before
    for key in body:
        assert canonical(spelled({**body, key: [body[key]]}).encode()) != before


@settings(max_examples=40, deadline=None)
@given(bodies)
def test_the_canonical_body_says_what_was_sent(body):
    """It is JSON, has no space, its keys are sorted, and it reads as what was sent."""
    question = read_question("chat/completions", spelled(body, " ", turn=True).encode())
    written = question.asked.body
    assert read_json(written) == read_json(spelled(body).encode())
    assert write_json(read_json(written), ordered=True) == written
    read = json.loads(written, parse_int=str)
    assert json.dumps(read, sort_keys=True, separators=(",", ":")) == json.dumps(read, separators=(",", ":"))


def test_what_is_sent_on_keeps_the_order_of_its_keys():
    """The order of a schema's properties is the order a model answers in, so it is kept beside the digest."""
    raw = b'{"tools": [{"z": 1, "a": 2}], "stream": true, "model": "m"}'
    asked = read_question("chat/completions", raw).asked
    assert asked.as_written == b'{"tools":[{"z":1,"a":2}],"model":"m"}'
    assert asked.body == b'{"model":"m","tools":[{"a":2,"z":1}]}'


@pytest.mark.parametrize("number", ["1e400", "0.1000000000000000055", "-0", "1E5", "9" * 5000, "1.50"])
def test_a_number_keeps_its_spelling(number):
    """What a float cannot hold, and what Python will not read, goes through as it came."""
    assert canonical(f'{{"x": {number}}}'.encode()) == f'{{"x":{number}}}'.encode()


@pytest.mark.parametrize(
    ("raw", "found"),
    [
        (b"[1]", "this is a list"),
        (b"7", "this is a number"),
        (b"null", "this is null"),
        (b'"text"', "this is a string"),
        (b"", "Expecting value at line 1, column 1"),
        (b'{"a": 1', "at line 1, column 8"),
        (b'{"a": NaN}', "NaN is not a JSON number"),
        (b'{"a": "\xff"}', "not UTF-8 at byte 7"),
        (b'{"a": "\xed\xa0\x80"}', "not UTF-8 at byte 7"),
        (b'{"stream": "yes"}', "stream must be true or false, this is a string"),
        (b'{"a":' * 100_000, "nested too deeply"),
    ],
)
def test_what_is_no_json_object_is_said_to_be(raw, found):
    """The message tells a program's author what was sent instead, and where."""
    with pytest.raises(NotJson, match=found):
        read_question("chat/completions", raw)


def test_stream_flags_are_read_before_they_are_dropped():
    """Only a true flag streams, embeddings never do, and usage is told only where it was asked for."""
    streamed = read_question("responses", b'{"stream": true, "stream_options": {"include_usage": true}}')
    assert (streamed.stream, streamed.include_usage, streamed.asked.body) == (True, True, b"{}")
    plain = read_question("chat/completions", b'{"stream": null, "stream_options": null}')
    assert (plain.stream, plain.include_usage, plain.asked.body) == (False, False, b"{}")
    assert not read_question("embeddings", b'{"stream": true}').stream
