"""The audit's report: the shapes that scripts rely on, and what counts as what."""

from eventlog.events import BudgetChanged, BudgetReleased, SessionClosed, SessionOpened, SpendInDoubt
from projections import audit_report, by_prompt, idempotency_key, result_report, status_report

from .histories import (
    answered,
    begun,
    call_failed,
    discarded,
    failed,
    kept,
    name_of,
    planned,
    reserve,
    spent,
    started,
)
from .test_spend import A, B, folded, opening


def test_a_reserved_call_is_in_doubt_when_nobody_holds_the_run():
    """Alive, it may still be settled; after a kill -9 it cannot be."""
    state = folded(opening(), [begun(A), reserve("c", A, bound=100)])
    alive = audit_report(state.ledger, state.batch, run="r", live=True)
    dead = audit_report(state.ledger, state.batch, run="r", live=False)
    assert (alive["in_doubt_usd"], alive["reserved_usd"]) == ("0.00", "0.0000001")
    assert (dead["in_doubt_usd"], dead["reserved_usd"]) == ("0.0000001", "0.00")
    assert (alive["calls"]["reserved"], dead["calls"]["in_doubt"]) == (1, 1)
    assert alive["in_doubt"] == []
    assert [doubt["call"] for doubt in dead["in_doubt"]] == ["c"]
    assert dead["tokens"]["in_doubt"] == 30
    assert dead["by_session"][0]["in_doubt_usd"] == "0.0000001"


def test_the_report_has_every_key_that_scripts_rely_on():
    """The contract's shape; new keys may come, none may go."""
    state = folded(
        opening(BudgetChanged({}, {"usd": 10**9})), [begun(A), reserve("c", A)], [spent("c"), answered("c")]
    )
    report = audit_report(state.ledger, state.batch, run="r", live=True)
    keys = "run sequence settled_usd in_doubt_usd reserved_usd cap_usd left_usd tokens calls by_outcome"
    assert set(report) >= {*keys.split(), "by_session", "by_model", "by_role", "in_doubt", "checks"}
    assert report["tokens"] == {
        "input": 7,
        "cached_input": None,
        "output": 3,
        "reasoning": None,
        "in_doubt": 0,
        "reserved": 0,
        "corrected": 0,
    }
    assert set(report["calls"]) >= {"settled", "in_doubt", "reserved", "released", "unpriced"}
    assert set(report["by_outcome"]) >= {"kept", "discarded", "failed", "superseded", "open"}
    assert report["by_model"] == [
        {"model": "m", "settled_usd": "0.00000006", "calls": 1, "input_tokens": 7, "output_tokens": 3}
    ]
    assert report["by_role"] == [{"role": "rollout", "settled_usd": "0.00000006", "calls": 1}]
    assert (report["cap_usd"], report["left_usd"]) == ("1.00", "0.99999994")
    assert "no reservation was granted past the cap" in {check["name"] for check in report["checks"]}


def test_a_run_without_a_cap_has_null_and_not_zero():
    """What is not there is null."""
    state = folded(opening())
    report = audit_report(state.ledger, state.batch, run="r", live=True)
    assert (report["cap_usd"], report["left_usd"]) == (None, None)
    assert report["tokens"]["reasoning"] is None
    assert report["tokens"]["input"] == 0
    assert report["checks"]


def test_waste_is_visible_by_outcome():
    """Kept, discarded, failed, superseded and open work each show what they cost."""
    units = [name_of(n) for n in range(4)]
    calls = [[begun(unit), reserve(f"c{n}", unit), spent(f"c{n}", 10**n)] for n, unit in enumerate(units)]
    retry = [begun(units[2], 2), reserve("again", units[2], 2), spent("again", 5)]
    state = folded(opening(), *calls, [kept(units[0])], [discarded(units[1])], [failed(units[2])], retry)
    by_outcome = audit_report(state.ledger, state.batch, run="r", live=True)["by_outcome"]
    assert by_outcome == {
        "kept": "0.000000001",
        "discarded": "0.00000001",
        "failed": "0.00",
        "superseded": "0.0000001",
        "open": "0.000001005",
        "other": "0.00",
    }


def test_a_call_in_doubt_can_be_found_on_an_invoice():
    """When, whose, how much at most, why, the provider's own id, and the key that its repeat carries."""
    reserved = reserve("c", A, bound=None)
    state = folded(
        opening(), [begun(A), reserved], [SpendInDoubt("c", "HTTP 500", None, None), call_failed("c")]
    )
    (doubt,) = audit_report(state.ledger, state.batch, run="r", live=True)["in_doubt"]
    assert doubt["unit"] == A
    assert doubt["bound_usd"] is None
    assert doubt["bound_tokens"] == 30
    assert doubt["reason"] == "HTTP 500"
    assert doubt["request_id"] == "req-1"
    assert doubt["sent_at"].endswith("Z")
    assert doubt["idempotency_key"] == idempotency_key(A, 1, reserved.request)


def test_calls_without_a_price_are_counted_in_every_state():
    """Settled without a price, in doubt without a bound, and not: released."""
    state = folded(
        opening(),
        [reserve("c", A, bound=None), spent("c", None)],
        [reserve("d", A, bound=None), SpendInDoubt("d", "lost", None, None)],
        [reserve("e", A, bound=None), BudgetReleased("e", "refused")],
    )
    assert audit_report(state.ledger, state.batch, run="r", live=True)["calls"]["unpriced"] == 2


def test_the_dearest_prompts_come_first():
    """`--by prompt`: cost falling, ties in dataset order."""
    state = folded(
        opening(),
        [begun(A), reserve("c", A), spent("c", 5)],
        [begun(B), reserve("d", B), spent("d", 50)],
        [begun(name_of(2))],
    )
    assert [row["unit"] for row in by_prompt(state.ledger, state.batch, live=True, top=2)] == [B, A]


def test_the_key_of_a_request_depends_on_unit_and_request_alone():
    """A repeat in another session carries the same key; another unit with the same request another."""
    assert idempotency_key(A, 1, b"d") == idempotency_key(A, 1, b"d")
    assert idempotency_key(A, 1, b"d") != idempotency_key(B, 1, b"d")
    assert idempotency_key(A, 1, b"d") != idempotency_key(A, 2, b"d")
    assert idempotency_key(A, 1, b"d") != idempotency_key(A, 1, b"e")


def status(state, holder=None):
    """The status of a run in `data/r`."""
    return status_report(state, run="r", dir="data/r", holder=holder, chain="ab")


def test_status_names_the_state_of_a_run():
    """Held: running. Else as the last session ended, and interrupted where it said nothing."""
    first = [SessionOpened(1, 7, "host", "0"), started(), planned(2)]
    assert status(folded(first), {"pid": "7"})["state"] == "running"
    assert status(folded(first))["state"] == "interrupted"
    for reason, code in (("paused", 4), ("interrupted", None), ("failed", 1)):
        report = status(folded(first, [SessionClosed(1, reason, "why", 5)]))
        assert (report["state"], report["exit_code"], report["reason"]) == (reason, code, "why")


def test_a_finished_run_with_failures_has_exit_code_3():
    """Done is not all well."""
    first = [SessionOpened(1, 7, "host", "0"), started(), planned(1)]
    report = status(folded(first, [begun(A)], [failed(A)], [SessionClosed(1, "finished", None, 5)]))
    assert (report["state"], report["exit_code"]) == ("done", 3)
    assert report["counts"] == {"total": 1, "kept": 0, "discarded": 0, "failed": 1, "open": 0, "pending": 0}
    assert report["batches"] == {"total": 1, "done": 1}


def test_status_shows_the_session_and_what_is_open():
    """Who works, since when, and on what at what cost."""
    state = folded(opening(), [begun(A), reserve("c", A)], [spent("c"), answered("c")])
    report = status(state, {"pid": "1"})
    assert report["session"]["number"] == 1
    assert report["session"]["host"] == "host"
    (attempt,) = report["open"]
    assert attempt["unit"] == A
    assert (attempt["attempt"], attempt["calls"], attempt["settled_usd"]) == (1, 1, "0.00000006")


def test_the_last_line_of_a_run_has_the_contract_s_keys():
    """And what was left reserved is in doubt when the run is over."""
    state = folded(opening(), [begun(A), reserve("c", A)])
    report = result_report(
        state, run="r", dir="data/r", state_name="paused", exit_code=4, reason="usd cap", chain="ab"
    )
    assert list(report) == [
        "run", "dir", "state", "exit_code", "counts", "reason", "settled_usd", "in_doubt_usd", "reserved_usd",
        "sequence", "chain",
    ]  # fmt: skip
    assert (report["in_doubt_usd"], report["reserved_usd"]) == ("0.0000001", "0.00")
