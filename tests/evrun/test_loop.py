"""Record, wait until durable, act, record: proved by looking into the log at the moment of each step."""

import json
from functools import partial

import anyio
import pytest

from eventlog.errors import NotWritten
from eventlog.events import (
    BudgetReleased,
    BudgetReserved,
    BudgetSpent,
    ModelAnswered,
    ModelCallFailed,
    RowsSkipped,
    SpendInDoubt,
)
from evrun.bounds import Bound
from evrun.ledger import request_digest
from evrun.prices import Price
from evrun.rates import Rate
from tests.endpoint.client import running_endpoint
from tests.evrun.acting import (
    ORDER,
    STARTED,
    FailingDisk,
    events_in,
    names_in,
    open_caller,
    open_journal,
    plan_one,
    run,
)
from tests.evrun.attempts import body as answer_body
from tests.evrun.loopback import KEY, free_port, read_request, serving

BODY = json.dumps({"model": "m", "messages": [{"role": "user", "content": "p"}]}).encode()
BOUND = Bound(10, 5, 700, "a test")
CHEAP = Price("a test", Rate(1000), Rate(2000))


def nothing(*_):
    """Nothing follows from an answer."""
    return None  # noqa: RET501 (the answer is: nothing)


def ask(caller, *, first=STARTED, conclude=nothing, timeout_s=5.0):
    """One call."""
    return caller.complete(ORDER, BODY, BOUND, timeout_s=timeout_s, first=first, conclude=conclude)


def response(body, status="200 OK"):
    """A whole HTTP response."""
    return b"HTTP/1.1 %b\r\ncontent-length: %d\r\n\r\n%b" % (status.encode(), len(body), body)


def test_a_request_leaves_after_its_intent_is_durable_and_its_answer_is_used_after_that_is(
    tmp_path,
):
    """The log at the moment the endpoint has the request, and at the moment the caller has the answer."""
    looked = []

    async def handle(reader, writer, came):
        await read_request(reader, came)
        looked.append(events_in(tmp_path))
        writer.write(response(answer_body(usage={"prompt_tokens": 4, "completion_tokens": 2})))

    async def main():
        with open_journal(tmp_path) as journal:
            await plan_one(journal)
            async with serving(handle) as (url, came), open_caller(journal, url, price=CHEAP) as caller:
                verdict, behind = await ask(caller)
                assert (verdict.kind, behind, caller.any_success) == ("answer", None, True)
                assert names_in(tmp_path)[3:] == [
                    "PromptStarted", "BudgetReserved", "BudgetSpent", "ModelAnswered",
                ]  # fmt: skip
                assert journal.state.batch.open[ORDER.unit].turns[0].body is not None
                sent = came[0].partition(b"\r\n\r\n")[2]
                assert sent == BODY

    run(main)
    (at_request,) = looked
    reserved = at_request[-1]
    assert isinstance(reserved, BudgetReserved)
    assert (reserved.request, reserved.bound_nano_usd) == (request_digest(BODY), 700)
    assert [type(event).__name__ for event in at_request[3:]] == ["PromptStarted", "BudgetReserved"]
    spent = events_in(tmp_path)[5]
    assert (spent.cost_nano_usd, spent.usage.input_tokens) == (4 * 1000 + 2 * 2000, 4)


def test_intents_of_many_callers_are_each_durable_before_their_own_request(tmp_path):
    """Eight at once: each request finds its own reservation in the log, whatever the others do."""
    missing = []

    async def handle(reader, writer, came):
        await read_request(reader, came)
        digest = request_digest(came[-1].partition(b"\r\n\r\n")[2])
        events = events_in(tmp_path)
        if not any(isinstance(event, BudgetReserved) and event.request == digest for event in events):
            missing.append(digest)
        writer.write(response(answer_body()))

    async def main():
        with open_journal(tmp_path) as journal:
            await plan_one(journal)
            async with serving(handle) as (url, came), open_caller(journal, url) as caller:
                async with anyio.create_task_group() as group:
                    for number in range(8):
                        body = BODY.replace(b'"p"', b'"p%d"' % number)
                        call = partial(
                            caller.complete, ORDER, body, BOUND, timeout_s=5.0, first=None, conclude=nothing
                        )
                        group.start_soon(call)
                assert len(came) == 8

    run(main)
    assert missing == []


def test_nothing_is_sent_when_its_intent_cannot_be_written(tmp_path):
    """A full disk: the endpoint is not asked."""
    disk = FailingDisk()

    async def handle(reader, writer, came):
        await read_request(reader, came)

    async def main():
        with open_journal(tmp_path, filesystem=disk) as journal:
            await plan_one(journal)
            async with serving(handle) as (url, came), open_caller(journal, url) as caller:
                disk.failing["pwrite"] = 28
                with pytest.raises(NotWritten):
                    await ask(caller)
                assert came == []

    run(main)
    assert "BudgetReserved" not in names_in(tmp_path)


def test_an_answer_that_cannot_be_written_is_never_used(tmp_path):
    """The disk fills up while the endpoint answers: an error, and the state still waits for an answer."""
    disk = FailingDisk()

    async def handle(reader, writer, came):
        await read_request(reader, came)
        disk.failing["pwrite"] = 28
        writer.write(response(answer_body()))

    async def main():
        with open_journal(tmp_path, filesystem=disk) as journal:
            await plan_one(journal)
            async with serving(handle) as (url, _), open_caller(journal, url) as caller:
                with pytest.raises(NotWritten):
                    await ask(caller)
                assert journal.state.batch.open[ORDER.unit].open_turn is not None
                assert len(journal.state.ledger.reserved) == 1

    run(main)


def test_what_follows_from_an_answer_is_one_commit_with_it(tmp_path):
    """`conclude` sees reservation and outcome; its event is queued with them and durable once awaited."""
    asked = []

    def conclude(reserved, outcome):
        asked.append((type(reserved).__name__, [type(event).__name__ for event in outcome]))
        return RowsSkipped([(7, "the end")])

    async def main():
        with running_endpoint() as endpoint, open_journal(tmp_path) as journal:
            await plan_one(journal)
            async with open_caller(journal, endpoint.base_url) as caller:
                verdict, behind = await ask(caller, conclude=conclude)
                assert verdict.kind == "answer"
                await behind
                assert names_in(tmp_path)[-3:] == ["BudgetSpent", "ModelAnswered", "RowsSkipped"]
                assert len(behind.payloads) == 3

    run(main)
    assert asked == [("BudgetReserved", ["BudgetSpent", "ModelAnswered"])]


def test_a_cancelled_call_is_recorded_in_doubt(tmp_path):
    """The endpoint has the request and the run is stopped: it may have cost up to its bound."""

    async def main():
        with open_journal(tmp_path) as journal:
            await plan_one(journal)
            arrived = anyio.Event()

            async def handle(reader, writer, came):
                await read_request(reader, came)
                arrived.set()
                await anyio.sleep_forever()

            async with serving(handle) as (url, _), open_caller(journal, url) as caller:
                async with anyio.create_task_group() as group:
                    group.start_soon(ask, caller)
                    await arrived.wait()
                    group.cancel_scope.cancel()
                assert len(journal.state.ledger.in_doubt) == 1

    run(main)
    doubt, failed = events_in(tmp_path)[-2:]
    assert isinstance(doubt, SpendInDoubt)
    assert (doubt.bound_nano_usd, doubt.bound_tokens) == (700, 15)
    assert isinstance(failed, ModelCallFailed)
    assert (failed.error_class, failed.retryable) == ("abandoned", True)


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
                verdict, _ = await ask(caller)
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
                verdict, _ = await ask(caller)
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
                verdict, _ = await ask(caller, timeout_s=0.2)
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
                await ask(caller, first=None)
            first, second = endpoint.requests()
            assert first["idempotency_key"] == second["idempotency_key"] is not None
            assert second["outcome"] == "repeated"

    run(main)
    calls = [event.call for event in events_in(tmp_path) if isinstance(event, BudgetReserved)]
    assert calls == ["s1.c1", "s1.c2"]
