"""Who may reserve what: nothing is granted past a cap, the first to come goes first, nobody waits in vain."""

import anyio
import pytest

from eventlog.events import BudgetChanged
from evrun.budget import Shortage
from evrun.ledger import in_doubt, release
from tests.evrun.acting import run
from tests.evrun.bank import Bank, bound_of


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
        assert bank.budget.words(seen[0]) == (
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
        assert "and 0.00 USD are left" in bank.budget.words(short)
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
