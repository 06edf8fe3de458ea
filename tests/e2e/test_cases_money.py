"""The table of money: what users of other runners reported, row by row, and what is right.

The row about kill -9 in full flight is `test_money_kills.py`.
"""

import signal
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from eventlog.events import BudgetSpent, ModelCallFailed, SettingsChanged
from tests.e2e.case import Case
from tests.e2e.money import account, check_all_named, check_promise
from tests.endpoint.client import running_endpoint
from tests.runs import Ended, evrun, finish, start, wait_until

CENT = "m=0,100"
"""With 100 tokens an answer, each costs one cent, and no more than its bound."""
HUNDRED = {"text": "word " * 120, "reasoning": "because"}
FLAT = "m=1,10"


def _audit(case: Case) -> dict[str, Any]:
    found = evrun("audit", "r", "--json", cwd=case.directory)
    assert found.code == 0, found
    report: dict[str, Any] = found.json
    return report


def _prompts(count: int) -> list[str]:
    return [f"prompt {number}" for number in range(count)]


def test_a_hundred_rows_of_a_cent_against_25_cents_with_50_in_flight_cost_25_cents(tmp_path: Path) -> None:
    """All of them are looked at together, and 25 are paid: the endpoint never gets more."""
    with running_endpoint(latency_ms=30, **HUNDRED) as endpoint:
        case = Case(tmp_path, endpoint, "--toolsets", "none", "--max-tokens", 100, "--price", CENT)
        case.write(*_prompts(100))
        ended = case.first("--concurrency", 50, "--budget-usd", "0.25")
        assert ended.code == 4, ended
        found = account(case.run_directory, endpoint, CENT)
        assert found.truth == found.settled == 250_000_000
        assert endpoint.totals()["requests"] == 25
        assert ended.json["counts"] == {
            "total": 100, "kept": 25, "discarded": 0, "failed": 0, "open": 0, "pending": 75,
        }  # fmt: skip
        raised = case.resume("--budget-usd", "none")
        assert (raised.code, raised.json["counts"]["kept"]) == (0, 100)
        assert endpoint.totals()["requests"] == 100
    audit = _audit(case)
    assert (audit["settled_usd"], audit["cap_usd"]) == ("1.00", None)


def test_an_endpoint_slower_than_the_client_is_patient_leaves_every_attempt_in_doubt(tmp_path: Path) -> None:
    """Three timeouts are three calls that may have cost their bound, and did; none is booked as nothing."""
    rules = [{"match": {"prompt": "slow"}, "times": 3, "then": {"latency_ms": 1500}}]
    with running_endpoint(rules=rules) as endpoint:
        case = Case(tmp_path, endpoint, "--toolsets", "none", "--max-tokens", 100, "--price", FLAT)
        case.write("slow", "quick")
        ended = case.first("--request-timeout", 0.4, "--retries", 2, "--budget-usd", 1)
        assert ended.code == 3, ended
        found = account(case.run_directory, endpoint, FLAT)
        check_promise(found, 10**9)
        check_all_named(case.run_directory, endpoint)
        assert len(found.state.ledger.in_doubt) == 3
        assert endpoint.totals()["billed"] == 4
        audit = _audit(case)
        assert {doubt["reason"] for doubt in audit["in_doubt"]} == {"timeout"}
        again = case.resume("--retry-failed")
        assert (again.code, again.json["counts"]["kept"]) == (0, 2)
        found = account(case.run_directory, endpoint, FLAT)
        check_promise(found, 10**9)
        # The repeat was answered; what it repeats may still have been paid for.
        assert len(found.state.ledger.in_doubt) == 3


def test_ten_refusals_and_then_an_answer_cost_one_answer(tmp_path: Path) -> None:
    """429 costs nothing, whatever the cap; the ten are on record as released."""
    refusal = {"status": 429, "headers": {"retry-after-ms": "1"}}
    with running_endpoint(rules=[{"match": {}, "times": 10, "then": refusal}], **HUNDRED) as endpoint:
        case = Case(tmp_path, endpoint, "--toolsets", "none", "--max-tokens", 100, "--price", CENT)
        case.write("p")
        ended = case.first("--budget-usd", "0.01")
        assert ended.code == 0, ended
        assert endpoint.totals()["refused"] == 10
    audit = _audit(case)
    assert (audit["settled_usd"], audit["in_doubt_usd"], audit["left_usd"]) == ("0.01", "0.00", "0.00")
    assert (audit["calls"]["settled"], audit["calls"]["released"]) == (1, 10)
    assert len(case.events(ModelCallFailed)) == 10


FIRST_IS_WRONG = {
    "its tool call does not parse": {"tool_calls": [{"name": "read_file", "arguments": '{"path": '}]},
    "it is empty": {"text": "", "reasoning": ""},
}


@pytest.mark.parametrize("wrong", FIRST_IS_WRONG.values(), ids=FIRST_IS_WRONG)
def test_an_answer_that_fails_validation_is_paid_for_like_the_one_that_follows(
    tmp_path: Path, wrong: dict[str, Any]
) -> None:
    """Its 100 and 50 tokens are counted, whether the attempt goes on or another begins."""
    usage = {"prompt_tokens": 100, "completion_tokens": 50}
    rules = [
        {"match": {}, "times": 1, "then": {"usage": usage, **wrong}},
        {"match": {}, "then": {"usage": usage}},
    ]
    with running_endpoint(rules=rules) as endpoint:
        case = Case(tmp_path, endpoint, "--toolsets", "file", "--max-tokens", 100, "--price", FLAT)
        case.write("p")
        ended = case.first("--budget-usd", 1)
        if ended.code == 3:
            ended = case.resume("--retry-failed")
        assert (ended.code, ended.json["counts"]["kept"]) == (0, 1), ended
        assert endpoint.totals()["answered"] == 2
    audit = _audit(case)
    assert audit["settled_usd"] == "0.0012"
    assert (audit["tokens"]["input"], audit["tokens"]["output"]) == (200, 100)


def test_an_answer_ten_times_as_long_as_asked_for_is_booked_shown_and_stops_all_further_calls(
    tmp_path: Path,
) -> None:
    """What was billed is booked; the cap has lost its meaning, so nothing more is sent."""
    rules = [{"match": {"prompt": "prompt 1"}, "then": {"usage_factor": 10}}]
    with running_endpoint(rules=rules, **HUNDRED) as endpoint:
        case = Case(tmp_path, endpoint, "--toolsets", "none", "--max-tokens", 100, "--price", CENT)
        case.write(*_prompts(9))
        ended = case.first("--concurrency", 1, "--budget-usd", "0.50")
        assert ended.code == 4, ended
        assert "1000 output tokens of 100" in ended.json["reason"]
        assert endpoint.totals()["requests"] == 2
        assert ended.json["counts"]["kept"] == 2
        found = account(case.run_directory, endpoint, CENT)
        assert found.settled == found.truth == 110_000_000
        audit = _audit(case)
        assert (audit["calls"]["over_bound"], audit["left_usd"]) == (1, "0.39")
        resumed = case.resume("--budget-usd", "0.12")
        assert (resumed.code, endpoint.totals()["requests"]) == (4, 3), resumed
    assert "--budget-usd" in resumed.json["reason"]


def test_an_answer_past_its_bound_is_only_shown_where_there_is_no_cap(tmp_path: Path) -> None:
    """Nobody asked for a limit; the run goes on, and the audit says it."""
    with running_endpoint(rules=[{"match": {}, "then": {"usage_factor": 10}}], **HUNDRED) as endpoint:
        case = Case(tmp_path, endpoint, "--toolsets", "none", "--max-tokens", 100, "--price", CENT)
        case.write(*_prompts(3))
        assert case.first().code == 0
    assert _audit(case)["calls"]["over_bound"] == 3


@pytest.mark.parametrize("usage", [None, {"prompt_tokens": 5}, {"completion_tokens": 5}])
def test_an_answer_that_does_not_say_what_it_used_is_kept_and_its_money_stays_in_doubt(
    tmp_path: Path, usage: dict[str, int] | None
) -> None:
    """It is never asked for again, and never booked as nothing: not in this session, and not by a resume."""
    with running_endpoint(rules=[{"match": {}, "then": {"usage": usage}}]) as endpoint:
        case = Case(tmp_path, endpoint, "--toolsets", "none", "--max-tokens", 100, "--price", FLAT)
        case.write("p")
        assert case.first("--budget-usd", 1).code == 0
        assert case.resume().code == 0
        found = account(case.run_directory, endpoint, FLAT)
        check_promise(found, 10**9)
        assert (found.settled, endpoint.totals()["requests"]) == (0, 1)
        assert found.in_doubt >= found.truth > 0
    assert len(case.rows()) == 1


def test_an_unknown_model_under_a_cap_is_refused_before_anything_is_spent(tmp_path: Path) -> None:
    """A price of nothing would never trip it; the ways on are named, and one of them works."""
    with running_endpoint() as endpoint:
        case = Case(tmp_path, endpoint, "--toolsets", "none", "--max-tokens", 100)
        case.write("p")
        refused = case.first("--budget-usd", 5)
        assert refused.code == 2, refused
        assert "--price m=" in refused.stderr
        assert "--unknown-price allow" in refused.stderr
        assert not case.run_directory.exists()
        assert endpoint.totals()["requests"] == 0
        allowed = case.first("--budget-usd", 5, "--unknown-price", "allow")
        assert allowed.code == 0, allowed
    audit = _audit(case)
    assert (audit["calls"]["unpriced"], audit["settled_usd"]) == (1, "0.00")


def test_a_cap_without_an_output_cap_is_refused_before_anything_is_spent(tmp_path: Path) -> None:
    """Also where --extra-body takes it out again, each prompt is refused, and nothing is sent."""
    with running_endpoint() as endpoint:
        case = Case(tmp_path, endpoint, "--toolsets", "none", "--price", FLAT, "--budget-usd", 5)
        case.write("p")
        refused = case.first()
        assert (refused.code, "--max-tokens" in refused.stderr) == (2, True)
        more = case.first("--max-tokens", 100, "--extra-body", '{"plugins": [{"id": "web"}]}')
        assert (more.code, "--extra-body plugins" in more.stderr) == (2, True)
        assert not case.run_directory.exists()
        taken_out = case.first("--max-tokens", 100, "--extra-body", '{"max_tokens": null}')
        assert taken_out.code == 3, taken_out
        assert endpoint.totals()["requests"] == 0
    assert case.rows("failed.jsonl")[0]["error"]["class"] == "no_bound"


def test_an_image_under_a_cap_is_refused_and_nothing_is_sent(tmp_path: Path) -> None:
    """Nobody knows what it takes: the prompt fails with its reason; without a cap it is sent."""
    part = '{"type": "image_url", "image_url": {"url": "https://x.example/y.png"}}'
    (tmp_path / "prefill.json").write_text(f'[{{"role": "user", "content": [{part}]}}]')
    with running_endpoint() as endpoint:
        case = Case(tmp_path, endpoint, "--toolsets", "none", "--price", FLAT, "--max-tokens", 100)
        case.write("p")
        ended = case.first("--budget-usd", 5, "--prefill-messages-file", "prefill.json")
        assert (ended.code, endpoint.totals()["requests"]) == (3, 0), ended
        assert case.rows("failed.jsonl")[0]["error"]["class"] == "no_bound"
        sent = case.resume("--budget-usd", "none", "--retry-failed")
        assert (sent.code, endpoint.totals()["requests"]) == (0, 1), sent


@pytest.mark.parametrize("amount", ["$5", "5usd", "nan", "-1", "0", "inf", "1e-12"])
def test_an_amount_that_is_none_is_a_plain_error_before_anything_is_spent(
    tmp_path: Path, amount: str
) -> None:
    """Exit 2, one line that names the option and what was found; no run, no request."""
    (tmp_path / "d.jsonl").write_text('{"prompt": "p"}\n')
    refused = _run_nowhere(tmp_path, f"--budget-usd={amount}")
    assert refused.code == 2, refused
    assert "--budget-usd" in refused.stderr
    assert amount in refused.stderr
    assert "Traceback" not in refused.stderr
    assert not (tmp_path / "data").exists()


def _run_nowhere(directory: Path, *options: str) -> Ended:
    return evrun(
        "run", "d.jsonl", "--run-name", "r", "--model", "m", "--base-url", "http://127.0.0.1:9/v1",
        "--max-tokens", 9, "--price", FLAT, *options, cwd=directory,
    )  # fmt: skip


def test_a_thousandth_of_a_dollar_may_be_written_as_scientists_do(tmp_path: Path) -> None:
    """It is a number, and holds."""
    with running_endpoint(**HUNDRED) as endpoint:
        case = Case(tmp_path, endpoint, "--toolsets", "none", "--max-tokens", 100, "--price", "m=0,5")
        case.write(*_prompts(4))
        ended = case.first("--budget-usd", "1e-3", "--concurrency", 1)
        assert (ended.code, endpoint.totals()["requests"]) == (4, 2), ended
    audit = _audit(case)
    assert (audit["cap_usd"], audit["settled_usd"]) == ("0.001", "0.001")


def test_a_run_that_is_resumed_three_times_counts_its_spend_once(tmp_path: Path) -> None:
    """Nothing to do, nothing to pay, the same account."""
    with running_endpoint(**HUNDRED) as endpoint:
        case = Case(tmp_path, endpoint, "--toolsets", "none", "--max-tokens", 100, "--price", CENT)
        case.write(*_prompts(4))
        assert case.first("--budget-usd", 1).code == 0
        audits = [_audit(case)]
        for _ in range(3):
            assert case.resume().code == 0
            audits.append(_audit(case))
        assert endpoint.totals()["requests"] == 4
    changing = ("sequence", "time", "by_session")
    for before, after in pairwise({k: v for k, v in audit.items() if k not in changing} for audit in audits):
        assert before == after
    assert audits[3]["settled_usd"] == case.statistics()["cost"]["settled_usd"] == "0.04"


def test_a_price_that_changes_between_two_sessions_prices_what_comes_and_not_what_was(tmp_path: Path) -> None:
    """Booked events keep their price; both prices are on record, each with its source."""
    with running_endpoint(**HUNDRED) as endpoint:
        case = Case(tmp_path, endpoint, "--toolsets", "none", "--max-tokens", 100, "--price", CENT)
        case.write(*_prompts(6))
        assert case.first("--budget-usd", "0.03").code == 4
        raised = case.resume("--price", "m=0,200", "--budget-usd", "1")
        assert raised.code == 0, raised
    spent = case.events(BudgetSpent)
    assert [(event.cost_nano_usd, event.price) for event in spent] == [
        *[(10_000_000, "option: 0,100")] * 3,
        *[(20_000_000, "option: 0,200")] * 3,
    ]
    assert _audit(case)["settled_usd"] == "0.09"
    (changed,) = case.events(SettingsChanged)
    assert tuple(changed.changes["prices"]) == (["m=0,100"], ["m=0,200"])


@pytest.mark.parametrize(
    ("option", "sent", "said"),
    [
        (("--budget-calls", 3), 3, "--budget-calls"),
        (("--budget-tokens", 2000), 2, "--budget-tokens"),
        (("--budget-hours", "1e-9"), 0, "--budget-hours"),
    ],
)
def test_caps_in_calls_tokens_and_hours_pause_too(
    tmp_path: Path, option: tuple[object, ...], sent: int, said: str
) -> None:
    """No price is needed; exit 4, and a higher cap goes on."""
    with running_endpoint(
        rules=[{"match": {}, "then": {"usage": {"prompt_tokens": 600, "completion_tokens": 90}}}]
    ) as endpoint:
        case = Case(tmp_path, endpoint, "--toolsets", "none", "--max-tokens", 100)
        case.write(*_prompts(5))
        ended = case.first("--concurrency", 1, *option)
        assert (ended.code, endpoint.totals()["requests"]) == (4, sent), ended
        assert said in ended.json["reason"]
        assert ended.json["counts"]["failed"] == 0
        done = case.resume(option[0], "none")
        assert (done.code, done.json["counts"]["kept"], endpoint.totals()["requests"]) == (0, 5, 5)


def test_a_prompt_past_its_own_cap_fails_alone_and_keeps_its_cost(tmp_path: Path) -> None:
    """The conversation that grows too dear ends; the others are kept; exit 3."""
    call = {
        "tool_calls": [{"name": "list_files", "arguments": {}}],
        "usage": {"prompt_tokens": 9, "completion_tokens": 60},
    }
    with running_endpoint(rules=[{"match": {"prompt": "prompt 1"}, "then": call}]) as endpoint:
        case = Case(tmp_path, endpoint, "--toolsets", "file", "--max-tokens", 100, "--price", CENT)
        case.write(*_prompts(3))
        ended = case.first("--prompt-budget-usd", "0.025")
        assert (ended.code, ended.json["counts"]["kept"]) == (3, 2), ended
        assert case.asked().count("prompt 1") == 3
    assert case.rows("failed.jsonl")[0]["error"]["class"] == "prompt_budget"
    assert _audit(case)["by_outcome"]["failed"] == "0.018"


def test_a_lowered_cap_pauses_before_the_next_call(tmp_path: Path) -> None:
    """What was spent stays spent, and shown as passed; nothing is sent until it is raised."""
    with running_endpoint(**HUNDRED) as endpoint:
        case = Case(tmp_path, endpoint, "--toolsets", "none", "--max-tokens", 100, "--price", CENT)
        case.write(*_prompts(6))
        assert case.first("--budget-usd", "0.03").code == 4
        lowered = case.resume("--budget-usd", "0.02")
        assert (lowered.code, endpoint.totals()["requests"]) == (4, 3), lowered
        assert _audit(case)["left_usd"] == "-0.01"
        raised = case.resume("--budget-usd", "0.06")
        assert (raised.code, endpoint.totals()["requests"]) == (0, 6)


def test_whoever_waited_for_room_keeps_to_a_pause_that_the_provider_asked_for(tmp_path: Path) -> None:
    """The refused call gives its room back; the one that waited for it still waits as all others do."""
    refusal = {"status": 429, "headers": {"retry-after": "600"}, "latency_ms": 300}
    with running_endpoint(rules=[{"match": {}, "times": 1, "then": refusal}]) as endpoint:
        case = Case(tmp_path, endpoint, "--toolsets", "none", "--max-tokens", 100, "--price", CENT)
        case.write(*_prompts(2))
        process = start(*case.command("--budget-usd", "0.01", "--concurrency", 2), cwd=tmp_path)
        wait_until(lambda: endpoint.totals()["refused"] == 1, "the refusal")
        time.sleep(0.5)
        process.send_signal(signal.SIGINT)
        assert finish(process).code == 130
        assert endpoint.totals()["requests"] == 1
