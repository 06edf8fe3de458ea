"""What a call turned out to cost: as reported; in doubt where half is missing; seen where it is too much."""

import pytest

from eventlog.events import BudgetSpent, SpendInDoubt, Usage
from evrun.bounds import Bound
from evrun.ledger import Order, close_unsettled, in_doubt, over_bound, reserve, settle
from evrun.prices import parse_price

PRICE = parse_price("m=2,8")[1]
RESERVED = reserve("c", Order("u", 1, "rollout", "m", "h"), b"d", Bound(100, 10, 280_000, "a test"))
UNPRICED = reserve("c", Order("u", 1, "rollout", "m", "h"), b"d", Bound(100, 10, None, "no price"))


def usage(given, output):
    """Counts."""
    return Usage(given, None, output, None)


def test_an_answer_is_settled_at_what_it_reports_and_says_by_which_price():
    """Also where that is more than its bound, or nothing."""
    assert settle(RESERVED, usage(50, 5), PRICE) == BudgetSpent("c", usage(50, 5), 140_000, "option: 2,8")
    assert settle(RESERVED, usage(0, 0), PRICE) == BudgetSpent("c", usage(0, 0), 0, "option: 2,8")
    assert settle(RESERVED, usage(50, 500), PRICE).cost_nano_usd == 4_100_000
    assert settle(UNPRICED, usage(50, 5), None) == BudgetSpent("c", usage(50, 5), None, None)


@pytest.mark.parametrize(
    ("found", "reason"),
    [
        (usage(None, None), "the answer reports no usage"),
        (usage(50, None), "the answer reports no usage of output"),
        (usage(None, 5), "the answer reports no usage of input"),
    ],
)
@pytest.mark.parametrize("price", [PRICE, None])
def test_an_answer_that_does_not_report_all_that_it_used_is_in_doubt(found, reason, price):
    """Half a usage booked as a whole one would be less than the truth."""
    assert settle(RESERVED, found, price) == SpendInDoubt("c", reason, 280_000, 110)


def test_a_doubt_is_never_smaller_than_what_the_answer_does_report():
    """Ten times the output asked for, and no input: at least that, and the input's bound."""
    doubt = settle(RESERVED, usage(None, 100), PRICE)
    assert (doubt.bound_nano_usd, doubt.bound_tokens) == (100 * 2000 + 100 * 8000, 200)
    assert "1000000 nano-USD of 280000" in over_bound(RESERVED, doubt)


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (usage(100, 10), None),
        (usage(101, 9), "101 input tokens of 100"),
        (usage(9, 11), "11 output tokens of 10"),
        (usage(1000, 10), "2080000 nano-USD of 280000, 1000 input tokens of 100"),
    ],
)
def test_an_answer_over_its_bound_is_seen(found, said):
    """In money or in tokens; at its bound it is within it."""
    assert over_bound(RESERVED, settle(RESERVED, found, PRICE)) == said


def test_a_call_without_an_answer_is_not_over_its_bound():
    """A doubt is at most the bound."""
    assert over_bound(RESERVED, in_doubt(RESERVED, "lost")) is None
    assert over_bound(RESERVED, close_unsettled("no", RESERVED, "refused")) is None
    assert over_bound(UNPRICED, in_doubt(UNPRICED, "lost")) is None


def test_an_input_without_a_bound_cannot_be_over_it():
    """A request with images has no bound for its input; its output still has one."""
    assert over_bound(UNPRICED, settle(UNPRICED, usage(5000, 10), None), media=True) is None
    assert (
        over_bound(UNPRICED, settle(UNPRICED, usage(5000, 11), None), media=True) == "11 output tokens of 10"
    )
