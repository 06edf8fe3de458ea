"""Old logs stay readable for ever: the bytes of every event type and version, and what they mean.

`EVRUN_STEPS=40 scripts/test tests/eventlog/test_golden_events.py` makes forty times as many of each type.
"""

import json
import os
import types
import typing
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eventlog.errors import EventError, MalformedEvent, UnknownEvent
from eventlog.events import EVENT_TYPES, Event, decode_event, encode_event, event_kind, event_type
from tests.eventlog.golden_events import EXAMPLES

SCALE = int(os.environ.get("EVRUN_STEPS", "1"))
LINES = (Path(__file__).parent.parent / "golden/events/events.jsonl").read_text("utf-8").splitlines()
GOLDEN = {line["event"]: bytes.fromhex(line["hex"]) for line in map(json.loads, LINES)}


@pytest.mark.parametrize("name", GOLDEN)
def test_golden_bytes_mean_what_they_meant(name):
    """Bytes that a release wrote decode to the event they were made from, brought to the newest shape."""
    assert decode_event(GOLDEN[name]) == EXAMPLES[name]
    assert event_type(GOLDEN[name]) == name.split()[0]


@pytest.mark.parametrize(
    "name", [name for name in GOLDEN if int(name.split()[1]) == type(EXAMPLES[name]).VERSION]
)
def test_the_newest_shape_has_exactly_the_golden_bytes(name):
    """Encoding is deterministic, on every machine: the same event gives the same bytes."""
    assert encode_event(EXAMPLES[name]).hex() == GOLDEN[name].hex()
    assert event_kind(GOLDEN[name]) is type(EXAMPLES[name])


def test_every_event_type_and_version_has_golden_bytes():
    """A type or version without a golden line could change its bytes and no test would see it."""
    every = {f"{kind.__name__} {n}" for kind in EVENT_TYPES for n in range(1, kind.VERSION + 1)}
    assert set(GOLDEN) == set(EXAMPLES) == every


def test_an_event_type_from_the_future_is_unknown_not_malformed():
    """A newer evrun's type is a reason to upgrade, not damage; the message says so."""
    with pytest.raises(UnknownEvent, match="event type 'PromptBlessed' is not known to this evrun; upgrade"):
        decode_event(msgspec.msgpack.encode(("PromptBlessed", 1, ["x"])))


@pytest.mark.parametrize("kind", EVENT_TYPES, ids=lambda kind: kind.__name__)
def test_a_version_from_the_future_is_unknown_not_read_in_part(kind):
    """The version gate comes first, because msgspec would drop trailing fields without a word."""
    name, newest, data = msgspec.msgpack.decode(GOLDEN[f"{kind.__name__} {kind.VERSION}"])
    for version in (0, -1, newest + 1, 2**40):
        with pytest.raises(UnknownEvent, match=rf"{name} version {version} is not known .*1 to {newest}"):
            decode_event(msgspec.msgpack.encode((name, version, [*data, "new field"])))
        assert event_kind(msgspec.msgpack.encode((name, version, data))) is None


@pytest.mark.parametrize(
    "junk",
    [b"", b"\x00", b"\xc1", b"not an event", b"\x93", b"\x93\xa1\xff\x01\x90", b"\x90", b"\xff" * 40],
)
def test_junk_is_malformed(junk):
    """Bytes that are no [type, version, data] raise MalformedEvent and show how they begin."""
    with pytest.raises(MalformedEvent, match=r"expected \[type, version, data\], found b"):
        decode_event(junk)
    with pytest.raises(MalformedEvent):
        event_type(junk)
    assert event_kind(junk) is None


@pytest.mark.parametrize("name", GOLDEN)
def test_a_known_type_with_fields_that_do_not_fit_is_malformed(name):
    """Data that are no array, too few fields, and fields of a wrong type are refused, naming the type."""
    kind, version, data = msgspec.msgpack.decode(GOLDEN[name])
    for wrong in ({}, [], [object_of_no_field() for _ in data]):
        with pytest.raises(MalformedEvent, match=f"{kind} version {version}"):
            decode_event(msgspec.msgpack.encode((kind, version, wrong)))


@pytest.mark.parametrize("name", GOLDEN)
def test_a_cut_event_never_decodes(name):
    """Every proper prefix of an event's bytes is refused; so are its bytes with one more behind them."""
    payload = GOLDEN[name]
    for damaged in (*(payload[:n] for n in range(len(payload))), payload + b"\x00"):
        with pytest.raises(MalformedEvent):
            decode_event(damaged)


def object_of_no_field() -> Any:
    """A value that no field of any event takes."""
    return msgspec.msgpack.Ext(5, b"x")


@given(st.binary(max_size=200))
def test_any_bytes_decode_or_raise_an_event_error(payload):
    """No bytes at all make decoding fail in another way than ours."""
    try:
        event = decode_event(payload)
    except EventError:
        return
    assert isinstance(event, Event)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)
PLAIN = {
    int: st.integers(-(2**63), 2**64 - 1),
    str: st.text(max_size=20),
    bytes: st.binary(max_size=20),
    bool: st.booleans(),
    float: st.floats(allow_nan=False),
    type(None): st.none(),
    Any: JSON,
}


@cache
def values_of(kind: Any) -> st.SearchStrategy[Any]:
    """Values of an annotation, made from it alone, so a new event type is tested by being there."""
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if kind in PLAIN:
        return PLAIN[kind]
    if origin is list:
        return st.lists(values_of(arguments[0]), max_size=3)
    if origin is dict:
        return st.dictionaries(*map(values_of, arguments), max_size=3)
    if origin is tuple:
        return st.tuples(*map(values_of, arguments))
    if origin in (types.UnionType, typing.Union):
        return st.one_of(*map(values_of, arguments))
    fields = typing.get_type_hints(kind)
    return st.builds(kind, **{name: values_of(fields[name]) for name in kind.__struct_fields__})


@pytest.mark.parametrize("kind", EVENT_TYPES, ids=lambda kind: kind.__name__)
@settings(max_examples=50 * SCALE)
@given(data=st.data())
def test_every_event_survives_the_round_trip(kind, data):
    """Any event of any type is read back as it was, and its bytes are made again to the byte."""
    event = data.draw(values_of(kind))
    payload = encode_event(event)
    assert decode_event(payload) == event
    assert encode_event(decode_event(payload)) == payload


@pytest.mark.parametrize("kind", EVENT_TYPES, ids=lambda kind: kind.__name__)
def test_events_are_frozen_and_named_in_the_past_tense(kind):
    """A fact cannot be changed, and its name says that it has happened."""
    event = EXAMPLES[f"{kind.__name__} {kind.VERSION}"]
    with pytest.raises(AttributeError, match="immutable"):
        setattr(event, kind.__struct_fields__[0], None)
    words = [word.lower() for word in "".join(f" {c}" if c.isupper() else c for c in kind.__name__).split()]
    assert any(word.endswith("ed") or word in IRREGULAR for word in words)


IRREGULAR = ("doubt", "spent", "withdrawn")
