"""The audit in full: caps, calls over their bound, corrections, prompts, and moments of the past."""

from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eventlog.events import (
    BudgetChanged,
    BudgetExhausted,
    BudgetSpent,
    Recorded,
    SessionClosed,
    SessionOpened,
    SpendCorrected,
    SpendInDoubt,
    Usage,
)
from projections import RunState, audit_report, fold_log, rebuild, state_name, worked_on
from projections.spend import MOST_OVER_BOUND

from .histories import begun, kept, planned, records, reserve, spent, started
from .random_history import History
from .test_spend import A, B, folded, opening

RANDOM = st.randoms(use_true_random=False)


def report_of(state, *, live=True, **more):
    """The audit of a state."""
    return audit_report(state.ledger, state.batch, run="r", live=live, **more)


def cap_of(report, name):
    """A cap's entry."""
    return next(cap for cap in report["caps"] if cap["cap"] == name)


def exactly(rows, *keys):
    """The sum of decimal strings over rows and keys."""
    return sum((Decimal(row[key]) for row in rows for key in keys), Decimal(0))


def test_every_cap_in_force_shows_what_is_used_and_left():
    """Settled and in doubt are used, reserved is apart, all of them are not left."""
    caps = BudgetChanged(
        {}, {"usd": 1000, "tokens": 200, "calls": 4, "hours": 3600 * 10**9, "prompt_usd": 500}
    )
    state = folded(
        opening(caps),
        [begun(A), reserve("c", A)],
        [spent("c", 60)],
        [reserve("d", A)],
        [SpendInDoubt("d", "lost", 100, 30)],
        [begun(B), reserve("e", B)],
    )
    report = report_of(state)
    found = {cap["cap"]: (cap["limit"], cap["used"], cap["reserved"], cap["left"]) for cap in report["caps"]}
    assert found == {
        "usd": ("0.000001", "0.00000016", "0.0000001", "0.00000074"),
        "tokens": (200, 40, 30, 130),
        "calls": (4, 2, 1, 1),
        "hours": (3600.0, 0.005, 0.0, 3599.995),
        "prompt_usd": ("0.0000005", "0.00000016", "0.00", "0.00000034"),
    }
    assert cap_of(report, "prompt_usd")["prompt"] == A
    assert cap_of(report, "usd")["says"] == "0.000001 USD, 0.00000074 USD left"
    assert [cap_of(report, cap)["percent"] for cap in ("usd", "tokens", "calls")] == [16, 20, 50]
    dead = cap_of(report_of(state, live=False), "usd")
    assert (dead["used"], dead["reserved"], dead["left"]) == ("0.00000026", "0.00", "0.00000074")


@pytest.mark.parametrize(("spent_nano", "code"), [(49, None), (50, "usd_50"), (94, "usd_80"), (95, "usd_95")])
def test_warnings_come_at_50_80_and_95_per_cent(spent_nano, code):
    """The highest mark that was passed, with what is left."""
    state = folded(
        opening(BudgetChanged({}, {"usd": 100})), [begun(A), reserve("c", A)], [spent("c", spent_nano)]
    )
    found = report_of(state)["warnings"]
    assert [warning["code"] for warning in found] == ([code] if code else [])
    assert all(f"{spent_nano} % of the cap on money" in warning["message"] for warning in found)


def test_caps_have_a_history_and_the_one_that_was_met_is_named():
    """Set, met, raised: each with its sequence, in the units of the report."""
    state = folded(
        opening(BudgetChanged({}, {"usd": 100})),
        [begun(A), reserve("c", A)],
        [spent("c", 60)],
        [BudgetExhausted("usd", 100, 40), SessionClosed(1, "paused", "a cap", 5)],
    )
    report = report_of(state)
    assert report["exhausted"] == {"cap": "usd", "unit": "USD", "asked": "0.0000001", "left": "0.00000004"}
    raised = folded(
        opening(BudgetChanged({}, {"usd": 100})),
        [BudgetExhausted("usd", 100, 40)],
        [SessionOpened(2, 1, "host", "0"), BudgetChanged({"usd": 100}, {"usd": 900, "hours": 10**9})],
    )
    report = report_of(raised)
    assert report["exhausted"] is None
    changes = [(change["sequence"], change["before"], change["now"]) for change in report["budget_changes"]]
    first, second = {"usd": "0.0000001"}, {"usd": "0.0000009", "hours": 1.0}
    assert changes == [(3, {}, first), (7, first, second)]


def test_calls_over_their_bound_are_named():
    """In money, or in tokens alone where no price is known; what stayed within is not."""
    state = folded(
        opening(),
        [begun(A), reserve("dear", A), reserve("fine", A), reserve("long", B, bound=None)],
        [spent("dear", 700), spent("fine", 100), BudgetSpent("long", Usage(10, None, 21, None), None, None)],
    )
    report = report_of(state)
    assert report["calls"]["over_bound"] == 2
    assert [over["call"] for over in report["over_bound"]] == ["dear", "long"]
    dear = report["over_bound"][0]
    assert (dear["settled_usd"], dear["bound_usd"], dear["unit"]) == ("0.0000007", "0.0000001", A)
    assert [warning["code"] for warning in report["warnings"]] == ["over_bound", "unpriced"]


def test_a_thousand_calls_over_their_bound_are_counted_and_the_furthest_kept():
    """Memory stays bounded, and the count stays right."""
    calls = [[reserve(f"c{n}", A), spent(f"c{n}", 101 + n * 37 % 1000)] for n in range(1000)]
    state = folded(opening(), [begun(A)], *calls)
    kept_by_name = state.ledger.furthest_over
    assert (state.ledger.over_bound, len(kept_by_name)) == (1000, MOST_OVER_BOUND)
    assert [over.excess_nano_usd for over in kept_by_name] == list(range(1000, 1000 - MOST_OVER_BOUND, -1))


def test_the_calls_in_doubt_with_the_largest_bounds_come_first_when_only_some_are_asked_for():
    """No bound at all is larger than any; without a number they come as they were sent."""
    bounds = {"a": 5, "b": None, "c": 50, "d": 7}
    state = folded(opening(), [begun(A), *(reserve(name, A, bound=bound) for name, bound in bounds.items())])
    assert [doubt["call"] for doubt in report_of(state, live=False)["in_doubt"]] == ["a", "b", "c", "d"]
    some = report_of(state, live=False, top=3)
    assert [doubt["call"] for doubt in some["in_doubt"]] == ["b", "c", "d"]
    assert some["calls"]["in_doubt"] == 4


@given(RANDOM, st.booleans())
@settings(max_examples=60, deadline=None)
def test_every_grouping_adds_up_to_the_whole_at_every_event(random, live):
    """Outcome, session, model, role and prompt: settled to the last digit, in any history."""
    state = RunState()
    for record in records(History(random).run(60)):
        state.apply(record)
        report = report_of(state, live=live, prompts=True)
        whole = Decimal(report["settled_usd"])
        for group in ("by_session", "by_model", "by_role"):
            assert exactly(report[group], "settled_usd") == whole
            assert sum(row["calls"] for row in report[group]) == state.ledger.total.calls
        assert sum(map(Decimal, report["by_outcome"].values())) == whole
        assert exactly(report["by_prompt"], "settled_usd") + Decimal(report["by_outcome"]["other"]) == whole
        earlier = exactly(report["by_prompt"], "superseded_usd")
        assert earlier == state.batch.superseded_nano_usd * Decimal("1e-9")
        assert all(check["ok"] for check in report["checks"])


@given(RANDOM)
@settings(max_examples=60, deadline=None)
def test_an_open_attempt_knows_the_same_money_as_its_unit(random):
    """However often its calls are corrected: the conversation and the unit fold the same events."""
    state = RunState()
    for record in records(History(random).run(120)):
        state.apply(record)
        for name, attempt in state.batch.open.items():
            assert attempt.settled_nano_usd == state.batch.units[name].settled_nano_usd >= 0


def test_what_a_person_settled_is_listed_with_the_note():
    """The newest word about each call; and the tokens that nobody knows still count under a cap on tokens."""
    state = folded(
        opening(BudgetChanged({}, {"tokens": 100})),
        [begun(A), reserve("c", A)],
        [SpendInDoubt("c", "lost", 100, 30)],
        [SpendCorrected("c", 80, "first")],
        [SpendCorrected("c", 0, "then")],
    )
    report = report_of(state)
    (corrected,) = report["corrected"]
    assert (corrected["call"], corrected["settled_usd"], corrected["bound_usd"]) == ("c", "0.00", "0.0000001")
    assert corrected["note"] == "then"
    assert report["calls"]["corrected"] == 1
    assert (report["tokens"]["in_doubt"], report["tokens"]["corrected"]) == (0, 30)
    assert (cap_of(report, "tokens")["used"], cap_of(report, "tokens")["left"]) == (30, 70)


def books_only(state, session, *events):
    """Fold events of a session that only keeps the books."""
    for event in events:
        record = Recorded(state.sequence + 1, state.batch.last_ns + 10**12, session, event)
        state.apply(record)


@pytest.mark.parametrize("reason", ["finished", "paused", "interrupted", "failed", None])
def test_a_correction_leaves_the_run_as_it_was(reason):
    """Done, paused, interrupted, failed, crashed: it stays so, and no session nor second is added."""
    ended = [] if reason is None else [[SessionClosed(1, reason, "why", 5)]]
    state = folded(opening(), [begun(A), reserve("c", A)], [SpendInDoubt("c", "lost", 100, 30)], *ended)
    before, active = state_name(state.batch, held=False), state.batch.sessions[0].worked_ns
    books_only(state, 2, SpendCorrected("c", 40, "invoice"))
    assert state_name(state.batch, held=False) == before
    (session,) = state.batch.sessions
    assert (session.number, session.worked_ns) == (1, active)
    assert report_of(state)["by_session"] == [
        {
            "session": 1,
            "settled_usd": "0.00000004",
            "in_doubt_usd": "0.00",
            "reserved_usd": "0.00",
            "calls": 1,
        }
    ]


def test_a_call_counts_as_reserved_while_its_session_went_on(maker):
    """At work before the session's last event, in doubt from there on; at the end the lock decides."""
    session_2 = [SessionOpened(2, 1, "host", "0"), SpendInDoubt("c", "the process died", 100, 30)]
    maker.write([[SessionOpened(1, 1, "host", "0"), started(), planned(2)], [begun(A), reserve("c", A)]])
    maker.write([[begun(B)], session_2, [SessionClosed(2, "finished", None, 5)]])
    reader = maker.reader()
    moments = {}
    for sequence in range(reader.end.sequence + 1):
        state = fold_log(reader, sequence)
        moments[sequence] = worked_on(reader, state, held=False)
    assert [at for at, live in moments.items() if live] == [1, 2, 3, 4, 5, 7, 8]
    assert worked_on(reader, fold_log(reader), held=True)


def test_a_correction_of_a_dead_run_does_not_make_it_live(maker):
    """The event after the last one of the session is not the session's own."""
    maker.write([[SessionOpened(1, 1, "host", "0"), started(), planned(2)], [begun(A), reserve("c", A)]])
    maker.close()
    maker.write([[SpendInDoubt("c", "lost", 100, 30), SpendCorrected("c", 1, "")]])
    reader = maker.reader()
    assert not worked_on(reader, fold_log(reader, 5), held=True)
    assert not worked_on(reader, fold_log(reader, 6), held=False)


def test_rows_keep_the_cost_that_was_known_at_their_end(maker, tmp_path):
    """A later correction changes the account, not the row: the same bytes however often it is replayed."""
    maker.write([[SessionOpened(1, 1, "host", "0"), started(), planned(1)], [begun(A), reserve("c", A)]])
    maker.write([[SpendInDoubt("c", "no usage", 100, 30)], [kept(A)]])
    rebuild(maker.reader(), tmp_path / "before")
    maker.close()
    maker.write([[SpendCorrected("c", 40, "invoice")]])
    rebuild(maker.reader(), tmp_path / "after")
    before, after = ((tmp_path / name / "batch_1.jsonl").read_bytes() for name in ("before", "after"))
    assert before == after
    assert b'"settled_usd": "0.00000004"' in (tmp_path / "after" / "statistics.json").read_bytes()
