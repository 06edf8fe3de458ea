"""The driver's side of a session: a worker that is confused, or late, spoils nothing."""

import anyio
import pytest

from eventlog.events import (
    BudgetReleased,
    BudgetReserved,
    BudgetSpent,
    ModelAnswered,
    ModelAsked,
    PromptFailed,
    RunFinished,
    SpendCorrected,
    SpendInDoubt,
    ToolStarted,
    Usage,
    encode_event,
)
from evrun.batch.control import Control
from evrun.batch.sending import Services
from evrun.bounds import Bound
from evrun.budget import Budget
from evrun.effects.limiter import Limiter
from evrun.effects.secrets import Redactor
from evrun.executors.post import Confused, Post
from evrun.executors.wire import Record, Refused, Reserve
from evrun.loop import Caller
from projections import Attempt
from tests.evrun.acting import STARTED, UNIT, open_journal
from tests.evrun.test_options import recorded_settings

CALL = "s1n1.c1"
RESERVED = BudgetReserved(CALL, UNIT, 1, "rollout", "m", "h", b"r" * 32, None, 10, 5, "a test")
SPENT = BudgetSpent(CALL, Usage(1, None, 1, None), None, None)
ANSWERED = ModelAnswered(CALL, b"{}", 1, None)
OTHER = "prompt:" + "00" * 16 + "#1.1"


def asking(reserved=RESERVED, first=(), number=1):
    """What a worker says to have a request admitted."""
    told = [encode_event(event) for event in first]
    return Reserve(1, number, told, encode_event(reserved), 9, Bound(10, 5, None, "a test"), priced=False)


def telling(*events):
    """What a worker says to have these recorded."""
    return Record(1, 2, [encode_event(event) for event in events])


class Desk:
    """A post at a log of its own, worked on by worker 1."""

    def __init__(self, journal, *, started=STARTED, **options):
        self.journal = journal
        self.control = Control()
        budget = Budget(journal.state.ledger, lambda: 0, lambda _: None)
        caller = Caller(journal, None, None, Redactor({}), budget)
        services = Services(journal, caller, Limiter(), self.control, None, None, budget)
        attempt = Attempt.start(STARTED, 0, journal.session)
        self.post = Post(services, recorded_settings(), attempt, started=started, **options)
        self.post.worked_on_by(1)

    async def reserve(self, *given, **named):
        """Ask for a request."""
        return await self.post.reserve(asking(*given, **named), anyio.CancelScope())


def at_a_desk(tmp_path, work, **options):
    """Do this at a post of its own; the events that it has recorded."""
    seen = []

    async def run():
        with open_journal(tmp_path / "log", see=lambda record: seen.append(record.event)) as journal:
            await work(Desk(journal, **options))

    anyio.run(run)
    return [type(event).__name__ for event in seen]


@pytest.mark.parametrize(
    "reserved",
    [
        RESERVED.__class__(CALL, OTHER, 1, "rollout", "m", "h", b"r", None, 1, 1, ""),
        RESERVED.__class__(CALL, UNIT, 2, "rollout", "m", "h", b"r", None, 1, 1, ""),
        RESERVED.__class__(CALL, UNIT, 1, "learner", "m", "h", b"r", None, 1, 1, ""),
        RESERVED.__class__("s1.c1", UNIT, 1, "rollout", "m", "h", b"r", None, 1, 1, ""),
        RESERVED.__class__("s1n2.c1", UNIT, 1, "rollout", "m", "h", b"r", None, 1, 1, ""),
        SPENT,
    ],
    ids=["unit", "attempt", "role", "name", "worker", "kind"],
)
def test_only_a_reservation_of_its_own_is_taken(tmp_path, reserved):
    """Of another unit, attempt, role, with another's name, or no reservation at all: nothing is recorded."""

    async def work(desk):
        with pytest.raises(Confused):
            await desk.reserve(reserved)

    assert at_a_desk(tmp_path, work) == []


@pytest.mark.parametrize(
    "events",
    [
        [PromptFailed(OTHER, 1, "x", "y", None, retryable=False)],
        [PromptFailed(UNIT, 2, "x", "y", None, retryable=False)],
        [ToolStarted(OTHER, 1, 1, 0, "t", b"")],
        [SPENT, ANSWERED],
        [RunFinished({})],
        [SpendCorrected(CALL, 1, "mine")],
        [RESERVED],
        [STARTED],
    ],
    ids=["unit", "attempt", "tool", "unreserved", "end", "correction", "reservation", "beginning"],
)
def test_only_what_is_its_own_is_recorded(tmp_path, events):
    """Events of others, of calls that are not open, or of a kind that is the driver's are not taken."""

    async def work(desk):
        with pytest.raises(Confused):
            await desk.post.record(telling(*events))

    assert at_a_desk(tmp_path, work) == []


def test_an_answer_comes_with_its_settlement_and_once(tmp_path):
    """Half of an outcome is refused, and so is a second one; the call is settled once."""

    async def work(desk):
        await desk.reserve()
        for half in ([ANSWERED], [SPENT, SPENT]):
            with pytest.raises(Confused):
                await desk.post.record(telling(*half))
        await desk.post.record(telling(SPENT, ANSWERED))
        for again in ([SPENT, ANSWERED], [BudgetReleased(CALL, "again")]):
            with pytest.raises(Confused):
                await desk.post.record(telling(*again))
        with pytest.raises(Confused):
            await desk.reserve()

    assert at_a_desk(tmp_path, work) == ["PromptStarted", "BudgetReserved", "BudgetSpent", "ModelAnswered"]


def test_what_comes_after_it_was_given_up_is_not_taken(tmp_path):
    """A worker that was given up for lost and lives on is heard too late: its call is in doubt already."""

    async def work(desk):
        await desk.reserve()
        await desk.post.abandon("its node was lost")
        with pytest.raises(Confused):
            await desk.post.record(telling(SPENT, ANSWERED))
        with pytest.raises(Confused):
            await desk.reserve()
        assert list(desk.journal.state.ledger.in_doubt) == [CALL]

    assert at_a_desk(tmp_path, work) == [
        "PromptStarted", "BudgetReserved", SpendInDoubt.__name__, "ModelCallFailed",
    ]  # fmt: skip


def test_a_training_attempt_cannot_be_ended_by_a_worker(tmp_path):
    """Where the driver says how an attempt ends, a worker's word for it is not taken."""

    async def work(desk):
        with pytest.raises(Confused):
            await desk.post.record(telling(PromptFailed(UNIT, 1, "x", "y", None, retryable=False)))

    assert at_a_desk(tmp_path, work, ends=False) == []


def test_a_request_told_relative_to_one_that_was_refused_is_refused(tmp_path):
    """What the log does not hold, nothing in it may be told relative to."""

    async def work(desk):
        asked = ModelAsked(CALL, UNIT, 1, "chat/completions", "s1n1.c9", 1, [], b"{}")
        assert isinstance(await desk.reserve(first=[asked]), Refused)

    assert at_a_desk(tmp_path, work) == []


def test_a_request_is_withdrawn_while_it_waits(tmp_path):
    """Nobody waits for it any more: it is refused at once, and nothing is recorded."""

    async def work(desk):
        desk.post._s.limiter.pause_until(30)
        waiting = anyio.CancelScope()
        async with anyio.create_task_group() as group:

            async def withdraw():
                await anyio.sleep(0.05)
                waiting.cancel()

            group.start_soon(withdraw)
            assert isinstance(await desk.post.reserve(asking(), waiting), Refused)

    assert at_a_desk(tmp_path, work) == []


def test_after_the_run_was_told_to_end_nothing_is_admitted(tmp_path):
    """A request that comes then is refused; its attempt goes on with the run."""

    async def work(desk):
        desk.control.fail(1, "a test")
        assert isinstance(await desk.reserve(), Refused)

    assert at_a_desk(tmp_path, work) == []
