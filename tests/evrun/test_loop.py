"""Record, wait until durable, act, record: proved by looking into the log at the moment of each step."""

from functools import partial

import anyio
import anyio.lowlevel
import pytest

from eventlog.errors import NotWritten
from eventlog.events import (
    BudgetReserved,
    ModelCallFailed,
    RowsSkipped,
    SpendInDoubt,
)
from evrun.ledger import request_digest
from evrun.prices import Price
from evrun.rates import Rate
from tests.endpoint.client import running_endpoint
from tests.evrun.acting import (
    BODY,
    BOUND,
    ORDER,
    FailingDisk,
    HeldDisk,
    ask,
    events_in,
    names_in,
    nothing,
    open_caller,
    open_journal,
    plan_one,
    run,
)
from tests.evrun.attempts import body as answer_body
from tests.evrun.loopback import read_request, serving

CHEAP = Price("a test", Rate(1000), Rate(2000))


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
                verdict, behind, *_ = await ask(caller)
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
                            caller.complete, ORDER, body, BOUND, timeout_s=5.0, first=(), conclude=nothing
                        )
                        group.start_soon(call)
                assert len(came) == 8

    run(main)
    assert missing == []


def test_nothing_is_sent_while_its_intent_is_not_durable(tmp_path):
    """The sync hangs: no request; once it is done, the request leaves."""
    disk = HeldDisk()

    async def handle(reader, writer, came):
        await read_request(reader, came)
        writer.write(response(answer_body()))

    async def main():
        with open_journal(tmp_path, filesystem=disk) as journal:
            await plan_one(journal)
            async with serving(handle) as (url, came), open_caller(journal, url) as caller:
                disk.let_go.clear()
                async with anyio.create_task_group() as group:
                    group.start_soon(ask, caller)
                    await anyio.sleep(0.3)  # long enough for a request that does not wait
                    assert came == []
                    disk.let_go.set()
                assert len(came) == 1

    run(main)


def test_a_call_that_is_cancelled_before_it_is_sent_is_released(tmp_path):
    """The run is stopped while the intent is being written: nothing leaves, and nothing is in doubt."""
    disk = HeldDisk()

    async def handle(reader, writer, came):
        await read_request(reader, came)

    async def main():
        with open_journal(tmp_path, filesystem=disk) as journal:
            await plan_one(journal)
            async with serving(handle) as (url, came), open_caller(journal, url) as caller:
                disk.let_go.clear()
                async with anyio.create_task_group() as group:
                    group.start_soon(ask, caller)
                    await anyio.lowlevel.checkpoint()
                    group.cancel_scope.cancel()
                    disk.let_go.set()
                assert came == []
                assert journal.state.ledger.reserved == {}

    run(main)
    assert names_in(tmp_path)[-2:] == ["BudgetReserved", "BudgetReleased"]


def test_an_answer_is_recorded_though_deciding_on_it_fails(tmp_path):
    """It was paid for: the error is raised, and a new session finds the answer."""

    def conclude(reserved, outcome):
        raise ValueError("a bug")

    async def main():
        with running_endpoint() as endpoint, open_journal(tmp_path) as journal:
            await plan_one(journal)
            async with open_caller(journal, endpoint.base_url) as caller:
                with pytest.raises(ValueError, match="a bug"):
                    await ask(caller, conclude=conclude)

    run(main)
    assert names_in(tmp_path)[-2:] == ["BudgetSpent", "ModelAnswered"]


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
        return (RowsSkipped([(7, "the end")]),)

    async def main():
        with running_endpoint() as endpoint, open_journal(tmp_path) as journal:
            await plan_one(journal)
            async with open_caller(journal, endpoint.base_url) as caller:
                verdict, behind, *_ = await ask(caller, conclude=conclude)
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
