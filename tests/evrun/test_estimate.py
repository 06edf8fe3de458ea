"""Estimates: bounds that the money of any conversation stays within, and sums that add up."""

import json
from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eventlog.events import Usage
from evrun.batch.cap_outlook import CapWatch
from evrun.batch.outlook import outlook_of
from evrun.estimate import (
    NOTHING,
    PER_TURN,
    REFUSAL_TOKENS,
    RESULT_TOKENS,
    Estimate,
    Outlook,
    estimate,
    total,
)
from evrun.rates import FREE, Price, Rate, cost_nano_usd
from projections import BatchState, Ledger

from .attempts import Talk, brief, call

RATES = st.decimals(0, 100_000, places=3, allow_nan=False)
STEPS = st.lists(st.tuples(st.integers(0, 50_000), RATES), max_size=2, unique_by=lambda step: step[0])
RATE = st.builds(lambda base, steps: Rate(base, tuple(sorted(steps))), RATES, STEPS)
PRICES = st.builds(
    Price, st.just("p"), RATE, RATE, st.none() | RATE, st.none() | RATE, st.none() | RATE, RATES
)


def request(text, max_tokens):
    """A request body."""
    cap = {} if max_tokens is None else {"max_tokens": max_tokens}
    return json.dumps({"model": "m", "messages": [{"role": "user", "content": text}], **cap}).encode()


def outlook(text="two words", max_tokens=50, *, turns=3, tries=2, certain=True, pending=0, results=100):
    """An outlook on a conversation that begins with this text."""
    return Outlook(request(text, max_tokens), len(text.split()), certain, turns, tries, pending, results)


LIMITS = st.tuples(st.integers(1, 500), st.integers(1, 6), st.integers(1, 4))
"""The output cap, turns, and tries."""


@given(PRICES, st.text(max_size=80), LIMITS, st.data())
@settings(max_examples=150, deadline=None)
def test_what_any_conversation_costs_is_within_the_bounds(price, text, limits, data):
    """Any number of turns, each sent any number of times, any usage that the assumptions allow."""
    most, turns, tries = limits
    seen = outlook(text, most, turns=turns, tries=tries)
    bounds = estimate(seen, price)
    words, context, nano, used, calls = max(seen.words, 1), len(seen.body), 0, 0, 0
    for turn in range(data.draw(st.integers(1, turns))):
        sends = data.draw(st.integers(1, tries))
        given = data.draw(st.integers(words if turn == 0 else 0, context))
        cached = data.draw(st.none() | st.integers(0, given))
        out = data.draw(st.integers(1, most))
        thought = data.draw(st.none() | st.integers(0, out))
        calls += sends
        nano += sends * cost_nano_usd(price, Usage(given, cached, out, thought))
        used += sends * (given + out)
        context += out + data.draw(st.integers(0, seen.results + PER_TURN))
    assert bounds.calls_lower <= calls <= bounds.calls_upper
    assert bounds.tokens_lower <= used <= bounds.tokens_upper
    assert bounds.nano_lower <= nano <= bounds.nano_upper


def test_the_upper_bound_is_every_turn_times_every_try_with_a_growing_context():
    """Two turns, each sent twice, worked out by hand."""
    seen = outlook(turns=2, tries=2)
    price = Price("p", Rate(Decimal(1)), Rate(Decimal(10)))
    bounds = estimate(seen, price)
    first = bounds.first_tokens - 50
    assert bounds.calls_upper == 4
    assert bounds.input_upper == 2 * (first + (first + 50 + 100 + PER_TURN))
    assert bounds.output_upper == 200
    assert bounds.nano_upper == bounds.input_upper + 10 * 200
    assert (bounds.nano_lower, bounds.tokens_lower) == (2 + 10, 3)
    assert (bounds.once_nano, bounds.once_tokens) == (first + 500, first + 50)


def test_each_call_is_rounded_up_for_itself():
    """Five calls of less than a nano-USD each cost five of them, not three."""
    tiny = Price("p", Rate(Decimal("0.001")), Rate(Decimal("0.001")))
    bounds = estimate(outlook(turns=1, tries=5, max_tokens=9), tiny)
    assert bounds.once_nano >= 1
    assert bounds.nano_upper >= 5 * cost_nano_usd(tiny, Usage(bounds.first_tokens - 9, None, 9, None)) == 5


def test_without_an_output_cap_nothing_is_known_at_most():
    """Unless nothing costs anything; how much is known at least does not change."""
    price = Price("p", Rate(Decimal(1)), Rate(Decimal(1)))
    bounds = estimate(outlook(max_tokens=None), price)
    assert (bounds.nano_upper, bounds.tokens_upper, bounds.once_nano) == (None, None, None)
    assert (bounds.nano_lower, bounds.calls_upper) == (3, 6)
    free = estimate(outlook(max_tokens=None), FREE)
    assert (free.nano_lower, free.nano_upper, free.tokens_upper) == (0, 0, None)


def test_without_a_price_no_sum_is_known_in_usd():
    """Null, never 0; tokens are known as before."""
    bounds = estimate(outlook(), None)
    assert (bounds.nano_lower, bounds.once_nano, bounds.nano_upper) == (None, None, None)
    assert bounds.tokens_upper == estimate(outlook(), FREE).tokens_upper


def test_an_attempt_without_a_turn_left_costs_nothing_more():
    """It is at its end."""
    assert estimate(outlook(turns=0), FREE) == NOTHING


@given(st.lists(st.tuples(PRICES, st.integers(1, 5), st.booleans()), min_size=1, max_size=8), st.randoms())
@settings(max_examples=60, deadline=None)
def test_sums_add_up_in_any_order_and_in_any_groups(units, random):
    """The whole is the sum of its parts, to the last nano-USD; an unknown part makes it unknown."""
    parts = [estimate(outlook(turns=turns, certain=sure), price) for price, turns, sure in units]
    whole = total(parts)
    shuffled = random.sample(parts, len(parts))
    cut = random.randrange(len(parts) + 1)
    assert total(shuffled) == whole == total([total(parts[:cut]), total(parts[cut:])])
    assert whole.nano_upper == sum(part.nano_upper for part in parts)
    assert whole.nano_lower == sum(part.nano_lower for part in parts)
    assert whole.first_nano == max(part.first_nano for part in parts)
    assert whole.nano_lower <= whole.nano_upper
    assert total([*parts, estimate(outlook(), None)]).nano_upper is None


def test_a_fresh_attempt_may_take_all_its_turns():
    """With tools as many as were asked for; without, refusals end it after three."""
    talk = Talk(brief(max_turns=7, retries=2, max_tokens=9))
    seen = outlook_of(talk.attempt, talk.brief)
    assert (seen.turns, seen.tries, seen.results) == (7, 3, RESULT_TOKENS)
    bare = outlook_of(talk.attempt, brief(tools=[], max_turns=7, row={"prompt": "one two  three"}))
    assert (bare.turns, bare.results, bare.words, bare.certain) == (3, REFUSAL_TOKENS, 3, True)
    assert outlook_of(talk.attempt, brief(tools=[], max_turns=2)).turns == 2


def test_an_attempt_half_done_has_the_rest_of_its_turns():
    """While its tools run, what they give back is still to come, and nothing more is certain."""
    talk = Talk(brief(max_turns=5)).work()
    seen = outlook_of(talk.attempt, talk.brief)
    assert (seen.turns, seen.certain, seen.pending) == (4, True, 0)
    talk.say(finish="tool_calls", calls=[call()]).start_tool()
    seen = outlook_of(talk.attempt, talk.brief)
    assert (seen.turns, seen.certain, seen.pending) == (3, False, RESULT_TOKENS)
    assert estimate(seen, FREE).calls_lower == 0


def test_an_attempt_that_only_has_to_be_closed_asks_nothing():
    """Its last answer is there."""
    talk = Talk(brief()).say()
    assert outlook_of(talk.attempt, talk.brief).turns == 0


def bounds_of(lower, upper, first=1):
    """Bounds in money, tokens and calls alike."""
    return Estimate(lower, upper or 0, lower, upper, 0, 0, lower, upper, first, first, first, first)


@pytest.mark.parametrize(
    ("lower", "upper", "first", "verdict"),
    [
        (1, 100, 1, "yes"), (1, 101, 1, "perhaps"), (1, None, 1, "perhaps"), (101, 900, 1, "no"),
        (1, 900, 101, "no"), (None, None, None, "unknown"),
    ],
)  # fmt: skip
def test_a_cap_suffices_or_not_or_perhaps(lower, upper, first, verdict):
    """Against what is needed at least and at most, and what one call alone may take."""
    watch = CapWatch({"usd": 100}, Ledger(), BatchState())
    (found,) = watch.verdicts(bounds_of(lower or 0, upper, first)._replace(nano_lower=lower))
    assert found.suffices == verdict
    assert found.left == 100


def test_the_cap_of_a_prompt_is_judged_by_the_prompt_that_fits_worst():
    """Its name is in the reason."""
    watch = CapWatch({"prompt_usd": 100, "hours": 5}, Ledger(), BatchState())
    for unit, upper in (("a", 50), ("b", 500), ("c", 200)):
        watch.see(unit, bounds_of(1, upper))
    hours, worst = watch.verdicts(bounds_of(3, 750))
    assert (hours.cap, hours.suffices) == ("hours", "unknown")
    assert (worst.suffices, worst.upper) == ("perhaps", 500)
    assert worst.why.startswith("b: ")
