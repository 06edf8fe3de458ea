"""Hypothesis plays with a ledger, and an account kept by hand says what must be in it.

`EVRUN_STEPS=20 scripts/test tests/projections/test_ledger_machine.py` plays twenty times as many games.
"""

import os
import random
from itertools import chain

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from eventlog.events import (
    AttemptSuperseded,
    BudgetChanged,
    BudgetExhausted,
    BudgetReleased,
    BudgetReserved,
    BudgetSpent,
    SessionClosed,
    SessionOpened,
    SpendCorrected,
    SpendInDoubt,
    Usage,
)
from projections import RunState, audit_report
from projections.audit import checks

from .histories import begun, discarded, failed, kept, name_of, planned, records, started
from .ledger_book import Book, Line

SCALE = int(os.environ.get("EVRUN_STEPS", "1"))
UNITS = [name_of(index) for index in range(3)]
CAPS = {"usd": (1, 3000), "tokens": (1, 600), "calls": (1, 25)}

bounds = st.one_of(st.integers(0, 900), st.none())
places = st.integers(0, 10**6)
caps = st.fixed_dictionaries({}, optional={cap: st.integers(*limits) for cap, limits in CAPS.items()})


class Accounts(RuleBasedStateMachine):
    """The life of a run's money, in any order that can be."""

    def __init__(self):
        super().__init__()
        self.state, self.book, self.commits = RunState(), Book(), []
        self.session, self.calls, self.rate = 1, 0, 3
        self.attempts = dict.fromkeys(UNITS, 0)
        self.open = set()

    def write(self, *events):
        """One commit: durable, and folded."""
        self.commits.append(list(events))
        for record in records(self.commits)[-len(events) :]:
            self.state.apply(record)

    @initialize(limits=caps)
    def begin(self, limits):
        """A new run of three prompts, with caps or without."""
        self.book.caps = limits
        self.write(SessionOpened(1, 1, "h", "0"), started(), BudgetChanged({}, limits), planned(3))

    # Prompts: whose money it is.

    @rule(unit=st.sampled_from(UNITS))
    def start_an_attempt(self, unit):
        """A prompt is begun, or begun again."""
        if unit not in self.open and self.state.batch.units[unit].outcome != "kept":
            self.attempts[unit] += 1
            self.open.add(unit)
            self.write(begun(unit, self.attempts[unit]))

    @precondition(lambda self: self.open)
    @rule(place=places, how=st.sampled_from([kept, discarded, failed, None]))
    def end_an_attempt(self, place, how):
        """A prompt ends, or its attempt is given up; what it cost goes with it."""
        unit = pick(sorted(self.open), place)
        self.open.discard(unit)
        number = self.attempts[unit]
        self.write(AttemptSuperseded(unit, number, "settings") if how is None else how(unit, number))

    # Calls.

    @rule(place=places, bound=bounds, output=st.one_of(st.integers(0, 90), st.none()),
          model=st.sampled_from("mn"), role=st.sampled_from(["rollout", "judge"]))  # fmt: skip
    def ask_for_room(self, place, bound, output, model, role):
        """A call is reserved if it fits; if it does not and nobody else is reserved, the cap is exhausted."""
        unit, tokens = pick(UNITS, place), 10 + (output or 0)
        ledger = self.state.ledger
        lefts = {cap: ledger.left(cap) for cap in CAPS}
        for cap, left in lefts.items():
            limit = self.book.caps.get(cap)
            assert left == (None if limit is None else limit - self.book.committed(cap))
        asked = {"usd": bound or 0, "tokens": tokens, "calls": 1}
        short = [cap for cap, left in lefts.items() if left is not None and asked[cap] > left]
        assert (not short) == self.book.fits(bound, tokens)
        if short:
            if not ledger.reserved:
                self.write(BudgetExhausted(short[0], asked[short[0]], lefts[short[0]]))
            return
        self.calls += 1
        name = f"s{self.session}.c{self.calls}"
        self.book.lines[name] = Line(self.session, model, role, bound, tokens)
        self.write(
            BudgetReserved(
                name, unit, self.attempts[unit], role, model, "h", b"d", bound, 10, output, "a test"
            )
        )
        for cap, limit in self.book.caps.items():
            assert self.book.committed(cap) <= limit

    @precondition(lambda self: self.book.named("reserved"))
    @rule(place=places, share=st.integers(0, 100), over=st.sampled_from([0] * 9 + [700]),
          given=st.integers(0, 10), output=st.integers(0, 60))  # fmt: skip
    def settle(self, place, share, over, given, output):
        """An answer: what it cost by the price of now, seldom more than its bound."""
        name = pick(self.book.named("reserved"), place)
        line = self.book.lines[name]
        line.state, line.tokens = "settled", given + output
        if line.bound is not None:
            line.cost = min(line.bound, self.rate * (given + output) * share // 50) + over
        price = None if line.cost is None else f"table {self.rate}"
        self.write(BudgetSpent(name, Usage(given, None, output, None), line.cost, price))

    @precondition(lambda self: self.book.named("reserved"))
    @rule(place=places)
    def release(self, place):
        """It certainly cost nothing."""
        name = pick(self.book.named("reserved"), place)
        self.book.lines[name].state = "released"
        self.write(BudgetReleased(name, "refused"))

    @precondition(lambda self: self.book.named("reserved"))
    @rule(place=places)
    def lose(self, place):
        """Nobody knows what it cost."""
        self.write(self._doubt(pick(self.book.named("reserved"), place), "lost"))

    def _doubt(self, name, reason):
        line = self.book.lines[name]
        line.state = "doubt"
        return SpendInDoubt(name, reason, line.bound, line.most_tokens)

    @precondition(lambda self: self.book.named("doubt", "corrected"))
    @rule(place=places, amount=st.integers(0, 1500))
    def correct(self, place, amount):
        """A person settles a call in doubt, or once more what was settled so: up or down."""
        name = pick(self.book.named("doubt", "corrected"), place)
        line = self.book.lines[name]
        line.state, line.cost = "corrected", amount
        self.write(SpendCorrected(name, amount, "invoice"))

    # Sessions, prices, caps.

    @rule()
    def crash_and_resume(self):
        """The process dies; the next one finds what was in flight, and says so in its first commit."""
        self.session += 1
        lost = [self._doubt(name, "the process died") for name in list(self.state.ledger.reserved)]
        self.write(SessionOpened(self.session, 1, "h", "0"), *lost)
        assert not self.state.ledger.reserved

    @precondition(lambda self: not self.book.named("reserved"))
    @rule()
    def end_and_resume(self):
        """The process ends in order; nothing is in flight."""
        self.write(SessionClosed(self.session, "paused", None, 5))
        self.session += 1
        self.write(SessionOpened(self.session, 1, "h", "0"))

    @rule(rate=st.integers(1, 9))
    def change_the_price(self, rate):
        """From here on answers are priced anew; what is booked stays booked."""
        before = self.state.ledger.total.settled_nano_usd
        self.rate = rate
        assert before == self.book.money("settled", "corrected")

    @rule(limits=caps)
    def change_the_caps(self, limits):
        """Raised, lowered or lifted, at any moment."""
        before, self.book.caps = self.book.caps, limits
        self.write(BudgetChanged(before, limits))

    # What always holds.

    @invariant()
    def the_account_kept_by_hand_agrees(self):
        """By state, session, model and role; in money, calls and tokens; nothing is negative."""
        ledger, book = self.state.ledger, self.book
        groups = [
            (ledger.total, {}),
            *((sums, {"session": number}) for number, sums in ledger.by_session.items()),
            *((sums, {"model": model}) for model, sums in ledger.by_model.items()),
            *((sums, {"role": role}) for role, sums in ledger.by_role.items()),
        ]
        for sums, where in groups:
            found = sums.settled_nano_usd, sums.in_doubt_nano_usd, sums.reserved_nano_usd, sums.calls
            states = ("settled", "corrected"), ("doubt",), ("reserved",)
            live = chain.from_iterable(states)
            assert found == (*(book.money(*state, **where) for state in states), book.count(*live, **where))
            assert min(*found, sums.unpriced, sums.in_doubt_tokens, sums.reserved_tokens) >= 0
        assert ledger.committed_tokens == book.tokens()
        assert list(ledger.reserved) == book.named("reserved")
        assert sorted(ledger.in_doubt) == sorted(book.named("doubt"))
        assert ledger.released_calls == book.count("released")

    @invariant()
    def no_reservation_was_granted_past_a_cap_and_all_checks_hold(self):
        """Though caps are lowered, answers come dearer than their bound, and corrections go upwards."""
        assert self.state.ledger.past_cap == 0
        assert [check for check in checks(self.state.ledger, self.state.batch) if not check["ok"]] == []

    def teardown(self):
        """A replay gives the same numbers; so do all calls in any other order."""
        again = RunState()
        for record in records(self.commits):
            again.apply(record)
        assert report_of(again) == report_of(self.state)
        assert sums_of(shuffled(self.commits, self.calls)) == sums_of(self.commits)


def pick(items, place):
    """One of them."""
    return items[place % len(items)]


def report_of(state):
    """All that the audit says."""
    return audit_report(state.ledger, state.batch, run="r", live=True, prompts=True)


def shuffled(commits, seed):
    """The same events, each call's in their own order and the calls' in any other; sessions in front."""
    lives, rest = {}, []
    for event in chain.from_iterable(commits):
        call = getattr(event, "call", None)
        (rest if call is None else lives.setdefault(call, [])).append(event)
    chance, left = random.Random(seed), list(lives.values())
    mixed = []
    while left := [life for life in left if life]:
        mixed.append([chance.choice(left).pop(0)])
    return [[event] for event in rest] + mixed


def sums_of(commits):
    """All sums of a ledger that do not depend on when something was."""
    state = RunState()
    for record in records(commits):
        state.apply(record)
    ledger = state.ledger
    by_call = {name: call.bound_nano_usd for name, call in sorted(ledger.in_doubt.items())}
    return ledger.total, ledger.by_model, ledger.by_role, by_call, ledger.over_bound, ledger.unreserved


Accounts.TestCase.settings = settings(
    max_examples=40 * SCALE,
    stateful_step_count=60,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)


@pytest.mark.timeout(120 * SCALE)
class TestAccounts(Accounts.TestCase):
    """Any order of concurrent calls, crashes, resumes, price changes, corrections and caps."""
