"""Caps as they are typed: numbers are taken exactly, nonsense is refused before anything is spent."""

import re
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evrun.bounds import UNBOUNDED_FIELDS
from evrun.caps import CAP_OPTIONS, amount, caps_now, check_caps, parse_cap
from evrun.errors import UsageFault
from evrun.prices import parse_price
from evrun.rates import FREE

PRICE = parse_price("m=2,8")[1]
HOUR_NS = 3600 * 10**9

TAKEN = [
    ("usd", "5", 5 * 10**9),
    ("usd", " 0.25 ", 250_000_000),
    ("usd", "1e-3", 1_000_000),
    ("usd", "1E2", 10**11),
    ("usd", "+7", 7 * 10**9),
    ("usd", "0.000000001", 1),
    ("usd", "1000000", 10**15),
    ("prompt_usd", "0.01", 10_000_000),
    ("tokens", "1200", 1200),
    ("tokens", "1e6", 10**6),
    ("tokens", "2.0", 2),
    ("calls", "1", 1),
    ("hours", "1.5", HOUR_NS * 3 // 2),
    ("hours", "1e-3", HOUR_NS // 1000),
    *[(cap, "none", None) for cap in CAP_OPTIONS],
]


@pytest.mark.parametrize(("cap", "text", "value"), TAKEN)
def test_every_plain_amount_is_taken_exactly(cap, text, value):
    """Also as scientists write it; `none` lifts a cap."""
    assert parse_cap(cap, text) == value


NONSENSE = [
    "$5",
    "5usd",
    "5 USD",
    "",
    "five",
    "nan",
    "sNaN",
    "inf",
    "-inf",
    "1e400",
    "0x10",
    "5,0",
    "None",
    "--1",
    "1_5",
    "１",  # noqa: RUF001 - a digit of another script
]


@pytest.mark.parametrize("cap", CAP_OPTIONS)
@pytest.mark.parametrize("text", NONSENSE)
def test_what_is_no_amount_is_refused_with_its_option_and_what_was_found(cap, text):
    """A plain error at the start instead of a crash after spending."""
    with pytest.raises(UsageFault, match=re.escape(CAP_OPTIONS[cap])) as refused:
        parse_cap(cap, text)
    assert repr(text.strip()) in str(refused.value)
    assert refused.value.hint


@pytest.mark.parametrize("cap", CAP_OPTIONS)
@pytest.mark.parametrize("text", ["0", "-0", "0.0", "-1", "-1e-3"])
def test_a_cap_is_above_nothing(cap, text):
    """A cap of 0 would only ever pause; who means that does not start the run."""
    with pytest.raises(UsageFault, match=CAP_OPTIONS[cap]):
        parse_cap(cap, text)


@pytest.mark.parametrize(
    ("cap", "text"),
    [
        ("usd", "1e-12"),
        ("usd", "0.0000000015"),
        ("prompt_usd", "1e-10"),
        ("tokens", "1e-3"),
        ("tokens", "1.5"),
        ("calls", "0.5"),
        ("hours", "1e-12"),
    ],
)
def test_what_is_finer_than_is_counted_is_refused_and_not_rounded(cap, text):
    """Rounded down it would be another cap, rounded to nothing none at all."""
    with pytest.raises(UsageFault, match="finer than"):
        parse_cap(cap, text)


@given(st.integers(1, 10**15))
def test_an_amount_survives_being_shown_and_typed_again(nano):
    """To the last nano-USD, never through binary floating point."""
    shown = amount("usd", nano)
    assert parse_cap("usd", shown.removesuffix(" USD")) == nano
    assert Decimal(shown.removesuffix(" USD")) * 10**9 == nano


@pytest.mark.parametrize(
    ("cap", "value", "shown"),
    [
        ("usd", 250_000_000, "0.25 USD"),
        ("prompt_usd", 1, "0.000000001 USD"),
        ("tokens", 1200, "1200 tokens"),
        ("tokens", 1, "1 token"),
        ("calls", 1, "1 call"),
        ("hours", HOUR_NS * 3 // 2, "1.5 hours"),
    ],
)
def test_amounts_are_shown_with_what_they_count(cap, value, shown):
    """For people."""
    assert amount(cap, value) == shown


def test_caps_that_are_not_named_stay_and_none_lifts_one():
    """What a resume asks for changes what was in force, and nothing else."""
    before = {"usd": 5, "calls": 9}
    assert caps_now(before, {}) == before
    assert caps_now(before, {"usd": 7}) == {"usd": 7, "calls": 9}
    assert caps_now(before, {"usd": None, "tokens": 3}) == {"calls": 9, "tokens": 3}
    assert before == {"usd": 5, "calls": 9}


def check(caps, price=PRICE, *, max_tokens=100, unknown_price="refuse", extra_body=()):
    """Would these caps be taken?"""
    check_caps(
        caps, price, model="m", max_tokens=max_tokens, unknown_price=unknown_price, extra_body=extra_body
    )


@pytest.mark.parametrize("cap", ["usd", "prompt_usd"])
def test_a_cap_in_usd_needs_a_price(cap):
    """An unknown price is no price of nothing; the ways on are named."""
    with pytest.raises(UsageFault, match=f"{CAP_OPTIONS[cap]} needs a price") as refused:
        check({cap: 5}, None)
    assert "--price m=" in refused.value.hint
    assert "--unknown-price allow" in refused.value.hint
    check({cap: 5}, None, max_tokens=None, unknown_price="allow")


@pytest.mark.parametrize("cap", ["usd", "prompt_usd", "tokens"])
def test_a_cap_needs_to_know_how_long_an_answer_can_be(cap):
    """Without an output cap one answer may take everything; the option that gives one is named."""
    with pytest.raises(UsageFault, match=CAP_OPTIONS[cap]) as refused:
        check({cap: 5}, max_tokens=None)
    assert "--max-tokens" in refused.value.hint
    check({cap: 5})


def test_what_costs_nothing_needs_no_output_cap_under_a_cap_in_usd():
    """The embedded model; its tokens are another matter."""
    check({"usd": 5}, FREE, max_tokens=None)
    with pytest.raises(UsageFault, match="--budget-tokens"):
        check({"tokens": 5}, FREE, max_tokens=None)


@pytest.mark.parametrize("cap", ["calls", "hours"])
def test_caps_on_calls_and_hours_need_nothing(cap):
    """They can always be counted."""
    check({cap: 5}, None, max_tokens=None, extra_body=UNBOUNDED_FIELDS)


@pytest.mark.parametrize("field", UNBOUNDED_FIELDS)
def test_a_field_that_bills_more_than_the_text_is_refused_under_a_cap(field):
    """Other models, searches, sound: nobody can say what they take at most."""
    for cap in ("usd", "tokens"):
        with pytest.raises(UsageFault, match=f"--extra-body {field}"):
            check({cap: 5}, extra_body=[field, "temperature"])
    check({"usd": 5}, extra_body=["temperature"])
