"""Caps of a prompt and of time, warnings, and calls that no cap can hold."""

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eventlog.events import SpendCorrected
from evrun.bounds import Bound
from evrun.budget import Budget, Shortage, prompt_parts
from evrun.caps import NS_PER_HOUR
from evrun.ledger import in_doubt
from evrun.prices import parse_price
from tests.evrun.acting import run
from tests.evrun.bank import A, B, Bank, bound_of
from tests.projections.histories import begun

PRICE = parse_price("m=1,1")[1]


def test_a_prompt_has_a_cap_of_its_own_over_all_its_attempts():
    """Its settled and doubtful calls count, others' do not; nobody waits for what will not change."""

    async def main():
        bank = Bank(prompt_usd=100, usd=10_000)
        bank.settle(await bank.take(50), 30)
        bank.durable(in_doubt(await bank.take(40), "lost"))
        await bank.take(100, unit=B)
        assert await bank.room(bound_of(31)) == Shortage("prompt_usd", 31, 30)
        assert await bank.room(bound_of(30)) is None
        bank.durable(begun(A, 2))
        assert await bank.room(bound_of(31)) == Shortage("prompt_usd", 31, 30)

    run(main)


def test_a_prompt_over_its_own_cap_does_not_wait_for_the_runs():
    """It would wait in vain, and in the end pause a run that could go on without it."""

    async def main():
        bank = Bank(prompt_usd=100, usd=150)
        bank.settle(await bank.take(95), 95)
        await bank.take(55, unit=B)
        with anyio.fail_after(20):
            assert await bank.room(bound_of(6)) == Shortage("prompt_usd", 6, 5)

    run(main)


def test_hours_are_used_up_when_the_time_is_whoever_is_reserved():
    """Time comes back from nobody."""

    async def main():
        bank = Bank(hours=NS_PER_HOUR)
        await bank.take(5)
        bank.active_ns = NS_PER_HOUR - 1
        assert await bank.room(bound_of(5)) is None
        bank.active_ns = NS_PER_HOUR
        short = await bank.room(bound_of(5))
        assert short is not None
        assert short.event.cap == "hours"
        assert bank.budget.words(short) == "the time is used up (--budget-hours)"

    run(main)


def test_warnings_come_once_at_50_80_and_95_percent():
    """One sentence each; a jump over two levels says the higher; a new session does not repeat them."""

    async def main():
        bank = Bank(usd=1000)

        async def spend(usd):
            bank.settle(await bank.take(usd), usd)
            return len(bank.said)

        assert [await spend(usd) for usd in (499, 1, 299, 1, 100)] == [0, 1, 1, 2, 2]
        assert bank.said == [
            "50 % of 0.000001 USD are spent or in doubt (--budget-usd)",
            "80 % of 0.000001 USD are spent or in doubt (--budget-usd)",
        ]
        bank.reopen()
        bank.durable(in_doubt(await bank.take(50), "lost"))
        assert bank.said[2:] == ["95 % of 0.000001 USD are spent or in doubt (--budget-usd)"]
        bank.reopen()
        assert await spend(50) == 3

    run(main)


def test_a_jump_over_all_levels_says_the_highest():
    """One sentence, not three; for each cap of its own."""

    async def main():
        bank = Bank(tokens=100, calls=2, hours=100)
        bank.active_ns = 81
        bank.settle(await bank.take(5, tokens=100), 5, (96, 1))
        assert sorted(said.partition(" (")[0] for said in bank.said) == [
            "50 % of 2 calls are spent or in doubt",
            "80 % of 0 hours are gone",
            "95 % of 100 tokens are spent or in doubt",
        ]

    run(main)


@pytest.mark.parametrize(
    ("caps", "bound", "price", "option"),
    [
        ({"usd": 9}, Bound(1, None, None, "no output cap"), PRICE, "--budget-usd"),
        ({"prompt_usd": 9}, Bound(1, 1, None, "images", media=True), PRICE, "--prompt-budget-usd"),
        ({"tokens": 9}, Bound(1, 1, 5, "images", media=True), PRICE, "--budget-tokens"),
        ({"tokens": 9}, Bound(1, None, None, "no output cap"), None, "--budget-tokens"),
        ({"usd": 9}, Bound(1, None, None, "no price"), None, None),
        ({"calls": 9}, Bound(1, None, None, "images", media=True), PRICE, None),
        ({"hours": 9}, Bound(1, None, None, "images", media=True), PRICE, None),
        ({}, Bound(1, None, None, "images", media=True), PRICE, None),
        ({"usd": 9, "tokens": 9}, Bound(1, 1, 5, "all is known"), PRICE, None),
    ],
)
def test_a_call_that_nobody_can_bound_is_refused_under_a_cap_that_needs_it(caps, bound, price, option):
    """An image may be thousands of tokens. Without a price somebody has said that it may go on."""

    async def main():
        refused = Bank(**caps).budget.refusal(bound, price)
        assert (refused is None) == (option is None)
        if option is not None:
            assert option in refused
            assert bound.how in refused

    run(main)


@pytest.mark.parametrize("cap", ["usd", "step_usd", "role_usd.learner"])
def test_a_model_without_a_price_is_refused_under_a_cap_on_money_unless_that_is_allowed(cap):
    """An agent of one's own may ask for any model; one that nobody knows the price of could cost anything."""

    async def main():
        options = {"usd": "--budget-usd", "step_usd": "a step", "role_usd.learner": "the learner"}
        budget = Budget(Bank(**{cap: 9}).state.ledger, lambda: 0, lambda _: None, options=options)
        bound = Bound(1, 1, None, "no price")
        assert "no price" in budget.refusal(bound, None, role="learner", unpriced=False)
        assert budget.refusal(bound, None, role="learner", unpriced=True) is None
        other = budget.refusal(bound, None, role="rollout", unpriced=False)
        assert (other is None) == (cap == "role_usd.learner")

    run(main)


@given(
    st.lists(st.tuples(st.sampled_from([A, B]), st.sampled_from(["doubt", "settle", "look"])), max_size=12)
)
@settings(max_examples=30, deadline=None)
def test_what_is_in_doubt_of_a_prompt_is_counted_whoever_else_has_doubts(steps):
    """As adding up all doubts would say, when calls go in doubt and when a person settles them."""
    bank = Bank(prompt_usd=10_000)
    parts = prompt_parts(bank.state.ledger, bank.state.batch)
    for number, (unit, step) in enumerate(steps):
        doubts = bank.state.ledger.in_doubt
        if step == "doubt":
            reserved = bank.order(bound_of(10 + number), unit)
            bank.durable(reserved)
            bank.durable(in_doubt(reserved, "lost"))
        elif step == "settle" and doubts:
            bank.durable(SpendCorrected(next(reversed(doubts)), 3, "the invoice"))
        else:
            left = 10_000 - bank.state.batch.units[unit].all_nano_usd
            left -= sum(call.bound_nano_usd for call in doubts.values() if call.unit == unit)
            assert [part.left for part in parts(unit, "rollout")] == [left]
