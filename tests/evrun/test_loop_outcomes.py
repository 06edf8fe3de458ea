"""What came of a call, in the log: money and meaning in one fact, and never a secret."""

import pytest

from eventlog.events import (
    BudgetReleased,
    BudgetReserved,
    BudgetSpent,
    ModelAnswered,
    ModelCallFailed,
    SpendInDoubt,
)
from tests.endpoint.client import running_endpoint
from tests.evrun.acting import (
    ask,
    events_in,
    names_in,
    open_caller,
    open_journal,
    plan_one,
    run,
)
from tests.evrun.loopback import KEY, free_port

OUTCOMES = {
    "refused": ({"status": 400, "error": {"message": "no", "code": "x"}}, BudgetReleased, "fail_prompt"),
    "rate limited": ({"status": 429, "headers": {"retry-after": "2"}}, BudgetReleased, "pause"),
    "broken": ({"status": 500}, SpendInDoubt, "retry"),
    "closed": ({"fault": "close"}, SpendInDoubt, "retry"),
    "half a JSON": ({"fault": "half_json"}, SpendInDoubt, "retry"),
    "without usage": ({"usage": None}, SpendInDoubt, "answer"),
    "with usage": ({}, BudgetSpent, "answer"),
    "half a character": ({"status": 400, "body": '{"error": {"message": "cut \\ud83d"}}'}, BudgetReleased,
                         "fail_prompt"),
}  # fmt: skip


@pytest.mark.parametrize(("then", "money", "kind"), OUTCOMES.values(), ids=OUTCOMES)
def test_money_and_meaning_of_a_call_are_one_fact(tmp_path, then, money, kind):
    """Spent, released or in doubt, in one commit with the answer or the failure; no call stays open."""

    async def main():
        with running_endpoint(rules=[{"then": then}]) as endpoint, open_journal(tmp_path) as journal:
            await plan_one(journal)
            async with open_caller(journal, endpoint.base_url) as caller:
                verdict, *_ = await ask(caller)
                assert verdict.kind == kind
                assert caller.any_success == (kind == "answer")
                assert journal.state.ledger.reserved == {}

    run(main)
    *_, closed, meaning = events_in(tmp_path)
    assert isinstance(closed, money)
    assert isinstance(meaning, ModelAnswered if kind == "answer" else ModelCallFailed)
    assert closed.call == meaning.call == "s1.c1"


def test_a_call_that_found_nobody_is_released(tmp_path):
    """Nothing was sent, so nothing was spent."""

    async def main():
        with open_journal(tmp_path) as journal:
            await plan_one(journal)
            async with open_caller(journal, f"http://127.0.0.1:{free_port()}/v1") as caller:
                verdict, *_ = await ask(caller)
                assert (verdict.kind, verdict.billed) == ("retry", "no")

    run(main)
    assert names_in(tmp_path)[-2:] == ["BudgetReleased", "ModelCallFailed"]


def test_a_call_that_takes_too_long_is_in_doubt(tmp_path):
    """At its deadline, with the reason."""

    async def main():
        rules = [{"then": {"fault": "hang"}}]
        with running_endpoint(rules=rules) as endpoint, open_journal(tmp_path) as journal:
            await plan_one(journal)
            async with open_caller(journal, endpoint.base_url) as caller:
                verdict, *_ = await ask(caller, timeout_s=0.2)
                assert (verdict.kind, verdict.error_class) == ("retry", "timeout")

    run(main)
    assert names_in(tmp_path)[-2:] == ["SpendInDoubt", "ModelCallFailed"]


LEAKS = [{"text": f"it is {KEY}"}, {"status": 400, "error": {"message": f"bad key {KEY}"}}]


@pytest.mark.parametrize("then", LEAKS)
def test_a_key_that_comes_back_is_never_recorded(tmp_path, then):
    """Neither in an answer nor in a refusal; what was sent to the endpoint is not changed."""

    async def main():
        with running_endpoint(rules=[{"then": then}], api_key=KEY) as endpoint:
            with open_journal(tmp_path) as journal:
                await plan_one(journal)
                async with open_caller(journal, endpoint.base_url, api_key=KEY) as caller:
                    await ask(caller)
            assert endpoint.requests()[0]["auth_ok"]

    run(main)
    last = events_in(tmp_path)[-1]
    said = last.body.decode() if isinstance(last, ModelAnswered) else last.message
    assert KEY not in said
    assert "[redacted:KEY]" in said or "<API key>" in said
    everything = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    assert KEY.encode() not in everything


def test_a_repeat_carries_the_key_of_the_first_and_another_call_number(tmp_path):
    """So that a provider knows the repeat, and the log tells the two apart."""

    async def main():
        with running_endpoint(honour_idempotency=True) as endpoint, open_journal(tmp_path) as journal:
            await plan_one(journal)
            async with open_caller(journal, endpoint.base_url) as caller:
                await ask(caller)
                await ask(caller, first=())
            first, second = endpoint.requests()
            assert first["idempotency_key"] == second["idempotency_key"] is not None
            assert second["outcome"] == "repeated"

    run(main)
    calls = [event.call for event in events_in(tmp_path) if isinstance(event, BudgetReserved)]
    assert calls == ["s1.c1", "s1.c2"]
