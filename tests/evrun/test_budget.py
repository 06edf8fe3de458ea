"""Who may reserve what: nothing is granted past a cap, the first to come goes first, nobody waits in vain."""

import errno
import threading
from functools import partial
from pathlib import Path

import anyio
import anyio.lowlevel
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eventlog.errors import NotWritten
from eventlog.events import BudgetChanged, BudgetSpent, SessionOpened, Usage
from eventlog.storage import RealFileSystem
from evrun.bounds import Bound
from evrun.budget import Budget, Shortage
from evrun.caps import NS_PER_HOUR
from evrun.ledger import Order, in_doubt, release, reserve
from evrun.prices import parse_price
from projections import RunState
from tests.evrun.acting import ask, names_in, open_caller, open_journal, plan_one, run
from tests.projections.histories import begun, name_of, planned, records, started

A, B = name_of(0), name_of(1)
PRICE = parse_price("m=1,1")[1]


def bound_of(usd, tokens=2):
    """A bound of so many nano-USD."""
    return Bound(tokens - 1, 1, usd, "a test")


class Bank:
    """A ledger in memory and its budget; `durable` is the moment at which the log has something."""

    def __init__(self, **caps):
        self.state, self.said, self.active_ns, self.calls = RunState(), [], 0, 0
        self.stop = None
        self.commits = []
        begin = [
            SessionOpened(1, 1, "h", "0"),
            started(),
            BudgetChanged({}, caps),
            planned(4),
            begun(A),
            begun(B),
        ]
        self.budget = None
        self.durable(*begin)
        self.reopen()

    def reopen(self):
        """A new session on the same ledger."""
        ledger, batch = self.state.ledger, self.state.batch
        self.budget = Budget(ledger, batch, lambda: self.active_ns, self.said.append)

    def durable(self, *events):
        """These are in the log now."""
        self.commits.append(list(events))
        for record in records(self.commits)[-len(events) :]:
            self.state.apply(record)
            if self.budget is not None:
                self.budget.see(record)

    def order(self, bound, unit=A):
        """A reservation, not yet queued."""
        self.calls += 1
        return reserve(f"c{self.calls}", Order(unit, 1, "rollout", "m", "h"), b"digest", bound)

    async def room(self, bound, unit=A):
        """Ask for room."""
        return await self.budget.room(unit, bound, self._stopped, lambda: self.stopping)

    @property
    def stopping(self):
        """Whether the run was told to end."""
        return self.stop is not None and self.stop.is_set()

    async def _stopped(self):
        self.stop = self.stop or anyio.Event()
        await self.stop.wait()

    async def take(self, usd, unit=A, tokens=2):
        """Room for a call, and its reservation, durable."""
        assert await self.room(bound_of(usd, tokens), unit) is None
        reserved = self.order(bound_of(usd, tokens), unit)
        self.budget.queue(reserved)
        self.durable(reserved)
        return reserved

    def settle(self, reserved, usd, usage=(1, 1)):
        """What a call cost."""
        self.durable(BudgetSpent(reserved.call, Usage(usage[0], None, usage[1], None), usd, "a test"))

    @property
    def committed(self):
        """Settled, in doubt, reserved, and on the way into the log."""
        queued = sum(one.bound_nano_usd or 0 for one in self.budget._queued.values())
        return self.state.ledger.committed_nano_usd + queued


def test_without_caps_nobody_waits_and_nothing_is_kept():
    """Most runs have none; they pay nothing for them."""

    async def main():
        bank = Bank()
        assert not bank.budget.capped
        assert await bank.room(bound_of(10**18)) is None
        bank.budget.queue(bank.order(bound_of(5)))
        assert bank.budget._queued == {}

    run(main)


@pytest.mark.parametrize(
    ("caps", "fits"),
    [({"usd": 300}, 3), ({"usd": 299}, 2), ({"tokens": 6}, 3), ({"tokens": 7}, 3), ({"calls": 3}, 3)],
)
def test_as_many_are_granted_as_fit_and_the_rest_wait(caps, fits):
    """A cap that is met exactly is not passed; one nano-USD less, and a call less."""

    async def main():
        bank, granted = Bank(**caps), []

        async def client():
            if await bank.room(bound_of(100)) is None and not bank.stopping:
                granted.append(bank.order(bound_of(100)))
                bank.budget.queue(granted[-1])

        async with anyio.create_task_group() as group:
            for _ in range(50):
                group.start_soon(client)
            await anyio.wait_all_tasks_blocked()
            assert len(granted) == fits
            bank.durable(*granted)
            await anyio.wait_all_tasks_blocked()
            assert len(granted) == fits
            bank.stop.set()

    run(main)


def test_what_is_queued_and_not_durable_counts_as_reserved():
    """Between the decision and the disk lies a moment in which fifty others could ask."""

    async def main():
        bank = Bank(usd=150)
        assert await bank.room(bound_of(100)) is None
        reserved = bank.order(bound_of(100))
        bank.budget.queue(reserved)
        async with anyio.create_task_group() as group:
            seen = []

            async def second():
                seen.append(await bank.room(bound_of(100)))

            group.start_soon(second)
            await anyio.wait_all_tasks_blocked()
            assert seen == []
            bank.durable(reserved)
            await anyio.wait_all_tasks_blocked()
            assert seen == []
            bank.settle(reserved, 50)
        assert seen == [None]

    run(main)


def test_a_cap_is_exhausted_only_when_nothing_is_reserved():
    """Others usually settle far below their bound; while they may, nobody gives up."""

    async def main():
        bank, seen = Bank(usd=100), []
        first = await bank.take(60)
        async with anyio.create_task_group() as group:

            async def second():
                seen.append(await bank.room(bound_of(60)))

            group.start_soon(second)
            await anyio.wait_all_tasks_blocked()
            assert seen == []
            bank.settle(first, 41)
        assert seen == [Shortage("usd", 60, 59)]
        assert str(seen[0]) == (
            "the next call may take 0.00000006 USD, and 0.000000059 USD are left (--budget-usd)"
        )
        assert await bank.room(bound_of(59)) is None

    run(main)


def test_calls_wait_in_the_order_in_which_they_came():
    """A large one is not overtaken for ever by small ones that would fit."""

    async def main():
        bank, order = Bank(usd=100), []
        first = await bank.take(50)

        async def client(usd):
            assert await bank.room(bound_of(usd)) is None
            order.append(usd)
            reserved = bank.order(bound_of(usd))
            bank.budget.queue(reserved)
            bank.durable(reserved)

        async with anyio.create_task_group() as group:
            for usd in (90, 5, 4):
                group.start_soon(client, usd)
                await anyio.wait_all_tasks_blocked()
            assert order == []
            bank.durable(release(first, "refused"))
        assert order == [90, 5, 4]

    run(main)


def test_room_comes_back_when_a_reservation_is_released_but_not_when_it_goes_in_doubt():
    """A doubt may have cost all of its bound."""

    async def main():
        bank = Bank(usd=100)
        bank.durable(release(await bank.take(100), "refused"))
        bank.durable(in_doubt(await bank.take(70), "lost"))
        assert await bank.room(bound_of(31)) == Shortage("usd", 31, 30)
        assert await bank.room(bound_of(30)) is None

    run(main)


def test_whoever_waits_and_is_cancelled_leaves_no_trace():
    """In front, where the room is watched, and behind, where the turn is waited for."""

    async def main():
        bank, seen = Bank(usd=100), []
        first = await bank.take(100)

        async def client(number):
            seen.append((number, await bank.room(bound_of(100))))

        async with anyio.create_task_group() as outer:
            scopes = []
            for number in range(3):
                group = anyio.CancelScope()
                scopes.append(group)

                async def guarded(number=number, group=group):
                    with group:
                        await client(number)

                outer.start_soon(guarded)
                await anyio.wait_all_tasks_blocked()
            scopes[0].cancel()
            scopes[1].cancel()
            await anyio.wait_all_tasks_blocked()
            assert seen == []
            bank.settle(first, 0)
        assert seen == [(2, None)]
        assert await bank.room(bound_of(100)) is None

    run(main)


def test_a_run_that_is_told_to_end_lets_everybody_go():
    """Nobody who waits for money keeps a process from ending; nothing is granted in the confusion."""

    async def main():
        bank, seen = Bank(usd=100), []
        await bank.take(100)

        async def client():
            seen.append(await bank.room(bound_of(1)))

        async with anyio.create_task_group() as group:
            for _ in range(9):
                group.start_soon(client)
            await anyio.wait_all_tasks_blocked()
            bank.stop.set()
        assert seen == [None] * 9
        assert bank.stopping
        assert bank.committed == 100

    run(main)


def test_a_lowered_cap_lets_nothing_more_through():
    """What was spent under the old one stays spent; the message says that nothing is left, not less."""

    async def main():
        bank = Bank(usd=1000)
        bank.settle(await bank.take(500), 400)
        bank.durable(BudgetChanged({"usd": 1000}, {"usd": 300}))
        short = await bank.room(bound_of(1))
        assert short == Shortage("usd", 1, -100)
        assert "and 0.00 USD are left" in str(short)
        bank.durable(BudgetChanged({"usd": 300}, {"usd": 500}))
        assert await bank.room(bound_of(100)) is None
        bank.durable(BudgetChanged({"usd": 500}, {}))
        assert await bank.room(bound_of(10**12)) is None

    run(main)


def test_an_answer_past_its_bound_and_a_correction_upwards_close_the_cap():
    """They are booked as they are; what follows is refused."""

    async def main():
        bank = Bank(usd=100)
        bank.settle(await bank.take(10), 95)
        assert await bank.room(bound_of(6)) == Shortage("usd", 6, 5)

    run(main)


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
        assert str(short) == "the time is used up (--budget-hours)"

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


LIVES = st.lists(
    st.tuples(
        st.integers(1, 100),  # the bound
        st.integers(0, 100),  # the share of it that it will cost
        st.integers(0, 4),  # how long after the beginning it comes
        st.integers(0, 3),  # how long its reservation is on the way to the disk
        st.integers(0, 4),  # how long the endpoint thinks
        st.sampled_from(["settle", "settle", "release", "doubt", "full disk", "cancelled"]),
    ),
    min_size=1,
    max_size=25,
)


@given(LIVES, st.integers(1, 250), st.integers(1, 8), st.integers(2, 40))
@settings(max_examples=150, deadline=None)
def test_whatever_happens_to_concurrent_calls_no_reservation_passes_a_cap(lives, usd, calls, tokens):
    """At each grant all that is spent, reserved or queued fits; who gives up had to; the order is kept."""
    anyio.run(partial(many_clients, lives, Bank(usd=usd, calls=calls, tokens=tokens), usd))


async def many_clients(lives, bank, cap):
    """Each life asks for room, is queued, becomes durable, and ends."""
    came, served = [], []

    async def client(number, life):
        most, share, before, to_disk, thinks, end = life
        await pause(before)
        came.append(number)
        short = await bank.room(bound_of(most))
        served.append(number)
        left = cap - bank.committed
        if short is not None:
            assert not bank.budget._queued
            assert not bank.state.ledger.reserved
            assert short.cap != "usd" or (most > left == short.left)
            return
        reserved = bank.order(bound_of(most))
        bank.budget.queue(reserved)
        assert bank.committed <= cap
        await pause(to_disk)
        if end == "full disk":
            bank.budget.withdraw(reserved.call)
            return
        bank.durable(reserved)
        assert bank.committed <= cap
        if end == "cancelled":
            bank.durable(release(reserved, "cancelled"))
            return
        await pause(thinks)
        conclude(bank, reserved, end, most * share // 100)

    with anyio.fail_after(30):
        async with anyio.create_task_group() as group:
            for number, life in enumerate(lives):
                group.start_soon(client, number, life)
    assert served == came
    assert bank.state.ledger.past_cap == 0
    assert not bank.budget._queued


async def pause(turns):
    """So many turns of the event loop."""
    for _ in range(turns):
        await anyio.lowlevel.checkpoint()


def conclude(bank, reserved, end, cost):
    """The end of a call."""
    if end == "settle":
        bank.settle(reserved, cost)
    else:
        bank.durable(in_doubt(reserved, "lost") if end == "doubt" else release(reserved, "refused"))


class SlowFullDisk(RealFileSystem):
    """Real files; once `full`, a write waits until it may fail."""

    def __init__(self):
        self.full, self.waiting, self.let_go = False, threading.Event(), threading.Event()

    def pwrite(self, fd, data, offset):
        """Write, or find no room."""
        if self.full and Path(f"/proc/self/fd/{fd}").readlink().suffix == ".evl":
            self.full = False
            self.waiting.set()
            assert self.let_go.wait(30)
            raise OSError(errno.ENOSPC, "no space left on device")
        return super().pwrite(fd, data, offset)


@pytest.mark.parametrize("cancelled", [False, True])
def test_a_reservation_that_a_full_disk_refuses_gives_its_room_back(tmp_path, cancelled):
    """It is certainly not in the log and was never sent; also where the run was stopped in that moment."""
    disk = SlowFullDisk()

    async def main():
        with open_journal(tmp_path, filesystem=disk) as journal:
            await plan_one(journal)
            await journal.record(BudgetChanged({}, {"usd": 700}))
            async with open_caller(journal, "http://127.0.0.1:9/v1", price=PRICE) as caller:
                budget, failed = caller._budget, []
                disk.full = True

                async def call():
                    try:
                        await ask(caller)
                    except NotWritten as error:
                        failed.append(error)

                async with anyio.create_task_group() as group:
                    group.start_soon(call)
                    await anyio.to_thread.run_sync(disk.waiting.wait)
                    assert len(budget._queued) == 1
                    if cancelled:
                        group.cancel_scope.cancel()
                    disk.let_go.set()
                assert len(failed) == 1
                assert budget._queued == {}
                short = await budget.room(A, Bound(1, 1, 700, "x"), anyio.sleep_forever, lambda: False)
                assert short is None

    run(main)
    assert names_in(tmp_path)[-1] == "BudgetChanged"
