"""Many clients of one budget, in any order; and a disk that is full at the wrong moment."""

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
from eventlog.events import BudgetChanged
from eventlog.storage import RealFileSystem
from evrun.bounds import Bound
from evrun.ledger import in_doubt, release
from evrun.prices import parse_price
from tests.evrun.acting import ask, names_in, open_caller, open_journal, plan_one, run
from tests.evrun.bank import A, Bank, bound_of

PRICE = parse_price("m=1,1")[1]

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
