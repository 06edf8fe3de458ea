"""The ledger: whatever is recorded in whatever order, nothing is negative and the parts add up."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eventlog.events import (
    EVENT_TYPES,
    BudgetChanged,
    BudgetReleased,
    SessionOpened,
    SpendCorrected,
    SpendInDoubt,
)
from projections import Ledger, RunState, audit_report, usd
from projections.audit import checks
from projections.exhaustive import require_answers

from .histories import answered, begun, kept, name_of, planned, records, reserve, spent, started
from .random_history import History

RANDOM = st.randoms(use_true_random=False)
A, B = name_of(0), name_of(1)


def folded(*commits):
    """The state that these commits add up to."""
    state = RunState()
    for record in records([list(commit) for commit in commits]):
        state.apply(record)
    return state


def opening(*more):
    """A run of four prompts, its first session."""
    return [SessionOpened(1, 1, "host", "0"), started(), *more, planned(4)]


def bracket(state):
    """Settled, in doubt and reserved, in nano-USD."""
    total = state.ledger.total
    return total.settled_nano_usd, total.in_doubt_nano_usd, total.reserved_nano_usd


@given(RANDOM)
@settings(max_examples=40, deadline=None)
def test_nothing_is_ever_negative_and_parts_add_up_at_every_event(random):
    """After each event of any history all sums are at least 0, and all checks of the audit hold."""
    state = RunState()
    for record in records(History(random).run(80)):
        state.apply(record)
        total = state.ledger.total
        sums = [*state.ledger.by_session.values(), *state.ledger.by_role.values(), total]
        for one in sums:
            assert min(one.settled_nano_usd, one.in_doubt_nano_usd, one.reserved_nano_usd, one.calls) >= 0
            assert min(one.unpriced, one.in_doubt_tokens, one.reserved_tokens) >= 0
        assert [check for check in checks(state.ledger, state.batch) if not check["ok"]] == []


@given(RANDOM)
@settings(max_examples=40, deadline=None)
def test_the_truth_lies_between_settled_and_the_bracket(random):
    """An account kept by hand, call by call, agrees with the ledger."""
    settled, open_bounds, doubts = {}, {}, {}
    history = records(History(random).run(120))
    for event in (record.event for record in history):
        match type(event).__name__:
            case "BudgetReserved":
                open_bounds[event.call] = event.bound_nano_usd or 0
            case "BudgetSpent":
                open_bounds.pop(event.call)
                settled[event.call] = event.cost_nano_usd or 0
            case "BudgetReleased":
                open_bounds.pop(event.call)
            case "SpendInDoubt":
                bound = open_bounds.pop(event.call)
                doubts[event.call] = bound if event.bound_nano_usd is None else event.bound_nano_usd
            case "SpendCorrected":
                doubts.pop(event.call, None)
                settled[event.call] = event.cost_nano_usd
    state = RunState()
    for record in history:
        state.apply(record)
    assert bracket(state) == (sum(settled.values()), sum(doubts.values()), sum(open_bounds.values()))
    assert state.ledger.total.calls == len(settled) + len(doubts) + len(open_bounds)


LIVES = st.lists(
    st.tuples(
        st.sampled_from([A, B, name_of(2), "stranger"]),
        st.sampled_from(["spent", "unpriced", "released", "doubt", "corrected", "open"]),
        st.integers(0, 10**15),
    ),
    min_size=1,
    max_size=12,
)


def life_of(number, life):
    """The events of one call, in their order."""
    unit, end, amount = life
    call = f"call-{number}"
    doubt = SpendInDoubt(call, "lost", amount, 30)
    ends = {
        "spent": [spent(call, amount)],
        "unpriced": [spent(call, None)],
        "released": [BudgetReleased(call, "no")],
        "doubt": [doubt],
        "corrected": [doubt, SpendCorrected(call, amount // 2, "invoice")],
        "open": [],
    }
    return [reserve(call, unit, bound=amount), *ends[end]]


def interleaved(lives, random):
    """The lives of concurrent calls, shuffled into each other."""
    left = [life_of(number, life) for number, life in enumerate(lives)]
    while left := [life for life in left if life]:
        yield [random.choice(left).pop(0)]


@given(LIVES, RANDOM, RANDOM)
@settings(max_examples=100, deadline=None)
def test_sums_do_not_depend_on_the_order_of_concurrent_calls(lives, one, other):
    """Any two interleavings of the same calls give the same account, to the last nano-USD."""
    begin = opening(begun(A), begun(B))
    reports = []
    for random in (one, other):
        state = folded(begin, *interleaved(lives, random))
        report = audit_report(state.ledger, state.batch, run="r", live=True)
        doubts = sorted(doubt["call"] for doubt in report.pop("in_doubt"))
        corrected = sorted((one["call"], one["settled_usd"]) for one in report.pop("corrected"))
        reports.append((report, doubts, corrected))
    assert reports[0] == reports[1]


def test_an_answer_dearer_than_its_bound_is_booked_as_reported():
    """The bracket is passed, and shown as such; no reservation was granted past the cap."""
    caps = BudgetChanged({}, {"usd": 150})
    state = folded(opening(caps), [begun(A), reserve("c", A, bound=100)], [spent("c", 1000), answered("c")])
    report = audit_report(state.ledger, state.batch, run="r", live=True)
    assert bracket(state) == (1000, 0, 0)
    assert report["calls"]["over_bound"] == 1
    assert report["left_usd"] == "-0.00000085"
    assert all(check["ok"] for check in report["checks"])


def test_a_reservation_past_the_cap_fails_its_check():
    """The check is not an ornament: it names the call, and by how much."""
    caps = BudgetChanged({}, {"usd": 150})
    state = folded(opening(caps), [begun(A), reserve("c", A)], [begun(B), reserve("d", B)])
    found = {check["name"]: check for check in checks(state.ledger, state.batch)}
    verdict = found["no reservation was granted past the cap"]
    assert not verdict["ok"]
    assert "call d went 0.00000005 USD past it" in verdict["detail"]


@pytest.mark.parametrize(("cap", "limit"), [("tokens", 59), ("calls", 1)])
def test_caps_on_tokens_and_calls_are_checked_too(cap, limit):
    """Two calls of thirty tokens pass a cap of 59, or of one call."""
    state = folded(opening(BudgetChanged({}, {cap: limit})), [begun(A), reserve("c", A)], [reserve("d", B)])
    assert state.ledger.past_cap == 1


def test_a_lowered_cap_accuses_no_earlier_reservation():
    """What was granted under the old cap was granted rightly."""
    state = folded(
        opening(BudgetChanged({}, {"usd": 150})),
        [reserve("c", A)],
        [BudgetChanged({"usd": 150}, {"usd": 50})],
    )
    assert state.ledger.past_cap == 0
    assert state.ledger.left("usd") == -50


def test_a_cap_that_is_lifted_is_gone():
    """A cap that is not in the map, or null in it, is none."""
    state = folded(opening(BudgetChanged({}, {"usd": 150})), [BudgetChanged({"usd": 150}, {"usd": None})])
    assert state.ledger.left("usd") is None


def test_a_settlement_without_reservation_fails_its_check_and_still_counts():
    """The money is gone whether or not it was reserved; the parts go on adding up."""
    state = folded(opening(), [spent("ghost", 70)])
    found = {check["name"]: check["ok"] for check in checks(state.ledger, state.batch)}
    assert not found["no settled call without reservation"]
    assert found["parts add up"]
    assert bracket(state) == (70, 0, 0)


def test_a_call_settled_twice_is_seen():
    """The second settlement is one without reservation."""
    state = folded(opening(), [begun(A), reserve("c", A)], [spent("c", 70)], [spent("c", 70)])
    assert state.ledger.unreserved == 1


def test_a_second_correction_replaces_the_first():
    """A person may have misread the invoice."""
    doubt = SpendInDoubt("c", "lost", 100, 30)
    state = folded(
        opening(),
        [begun(A), reserve("c", A)],
        [doubt],
        [SpendCorrected("c", 80, "first")],
        [SpendCorrected("c", 30, "then")],
    )
    assert bracket(state) == (30, 0, 0)
    assert state.batch.units[A].settled_nano_usd == 30


def test_doubt_of_an_earlier_session_belongs_to_the_session_that_sent_the_call():
    """Found by session 2, paid (perhaps) by session 1."""
    state = folded(
        opening(),
        [begun(A), reserve("c", A)],
        [SessionOpened(2, 2, "host", "0")],
        [SpendInDoubt("c", "the process died", 100, 30)],
    )
    assert state.ledger.by_session[1].in_doubt_nano_usd == 100
    assert 2 not in state.ledger.by_session


def test_the_money_of_an_ended_attempt_goes_where_its_unit_went():
    """A correction that comes after the prompt was kept is the cost of a kept prompt."""
    state = folded(
        opening(),
        [begun(A), reserve("c", A)],
        [SpendInDoubt("c", "no usage", 100, 30), answered("c")],
        [kept(A)],
        [SpendCorrected("c", 80, "invoice")],
    )
    by_outcome = audit_report(state.ledger, state.batch, run="r", live=False)["by_outcome"]
    assert by_outcome["kept"] == "0.00000008"


def test_a_new_event_type_needs_an_answer():
    """Leaving one type out, or answering it twice, stops the program at import."""
    with pytest.raises(TypeError, match=EVENT_TYPES[3].__name__):
        require_answers("fold", EVENT_TYPES[:3], EVENT_TYPES[4:])
    with pytest.raises(TypeError, match=EVENT_TYPES[0].__name__):
        require_answers("fold", EVENT_TYPES, EVENT_TYPES[:1])


def test_an_empty_ledger_has_nothing():
    """No events, no money."""
    ledger = Ledger()
    assert ledger.committed_nano_usd == 0
    assert usd(ledger.total.settled_nano_usd) == "0.00"
