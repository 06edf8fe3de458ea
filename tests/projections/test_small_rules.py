"""Tool outcomes, money as text, and JSON lines."""

import json
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from projections.jsontext import clean_text, decode_text, json_line, loads_lenient
from projections.money import usd
from projections.tool_outcome import tool_succeeded

OUTCOMES = [
    ('{"output": "x", "exit_code": 1, "error": null}', True),
    ('{"error": "boom"}', False),
    ('{"error": ""}', False),
    ('{"error": false}', False),
    ('{"content": {"error": "boom"}}', False),
    ('{"content": {"error": null}}', True),
    ('{"content": "error: x"}', True),
    ('{"success": false}', False),
    ('{"success": 0}', True),
    ('{"success": null}', True),
    ('  {"success": false}\n', False),
    ("{}", True),
    ("[]", True),
    ('[{"error": "boom"}]', True),
    ("0", True),
    ("null", True),
    ("false", True),
    ('"error: quoted"', True),
    ("", False),
    ("error: no such file", False),
    ("  ERROR: no such file", False),
    ("Error no such file", True),
    ("all fine, no error: at all", True),
    ('{"error": ', True),
    ('{"error": "cut', True),
    ('{"a":1}{"error":1}', True),
    ('{"error": "\\ud800"}', False),
    ('{"a": ' * 100_000, True),
]


@pytest.mark.parametrize(("content", "succeeded"), OUTCOMES, ids=range(len(OUTCOMES)))
def test_tool_outcome_is_the_first_rule_that_matches(content, succeeded):
    """The whole list of rules, in rows."""
    assert tool_succeeded(content) is succeeded


@given(st.text())
def test_tool_outcome_never_raises(content):
    """Any text has one."""
    assert tool_succeeded(content) in {True, False}


AMOUNTS = [
    (0, "0.00"),
    (1_850_000_000, "1.85"),
    (123, "0.000000123"),
    (1_000_000_000, "1.00"),
    (1_500_000_000, "1.50"),
    (-1_234_000_000, "-1.234"),
    (-1, "-0.000000001"),
    (10**20, "100000000000.00"),
]


@pytest.mark.parametrize(("nano", "text"), AMOUNTS, ids=range(len(AMOUNTS)))
def test_money_has_two_decimals_and_no_zeros_beyond(nano, text):
    """Exact, also where binary floating point is not."""
    assert usd(nano) == text


@given(st.integers())
def test_money_as_text_is_the_amount(nano):
    """No digit is lost, no zero is added."""
    text = usd(nano)
    assert Fraction(text) * 10**9 == nano
    assert len(text.partition(".")[2]) == 2 or not text.endswith("0")


anything = st.text(st.characters(), max_size=20)


@given(
    st.recursive(st.none() | st.integers() | anything, lambda v: st.lists(v) | st.dictionaries(anything, v))
)
def test_json_line_is_one_line_of_clean_text(value):
    """No separator that some readers take for a line end, no lone surrogate, one newline."""
    line = json_line(value)
    text = line.decode()
    assert text.endswith("\n")
    assert text.count("\n") == 1
    assert "\r" not in text
    assert "\u2028" not in text
    assert "\u2029" not in text
    assert json.loads(text) == _cleaned(value)


def _cleaned(value):
    if isinstance(value, str):
        return clean_text(value)
    if isinstance(value, list):
        return [_cleaned(item) for item in value]
    return {_cleaned(k): _cleaned(v) for k, v in value.items()} if isinstance(value, dict) else value


def test_surrogates_become_replacement_characters_and_pairs_their_character():
    """What UTF-8 cannot hold is replaced, visibly; a pair is one character."""
    assert json_line(["a\ud800b\udc00", "\ud83d\ude00"]) == '["a\ufffdb\ufffd","😀"]\n'.encode()
    assert json_line({"\ud800": ("\u2028",)}) == '{"\ufffd":["\\u2028"]}\n'.encode()


@given(st.binary())
def test_any_bytes_are_text(data):
    """And UTF-8 is what it says."""
    decode_text(data).encode()


@given(st.text())
def test_utf8_is_read_exactly(text):
    """No character of a well-formed text changes."""
    assert decode_text(text.encode()) == text


def test_json_from_outside_is_read_where_it_can_be():
    """A byte order mark, NaN and large numbers are no reason to refuse; nesting without end is."""
    assert loads_lenient(b"\xef\xbb\xbf{}") == {}
    assert loads_lenient("[1e400]") == [float("inf")]
    assert loads_lenient(b'"\\ud800"') == "\ufffd"
    with pytest.raises(ValueError, match="nested too deeply"):
        loads_lenient("[" * 200_000)
