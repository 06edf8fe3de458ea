"""What agents pay by themselves: reserved before, settled after, and never past the cap."""

from collections import Counter

import pytest

from eventlog.events import (
    BudgetExhausted,
    BudgetReleased,
    BudgetReserved,
    BudgetSpent,
    RolloutFinished,
    SpendInDoubt,
)
from evrun.training.own_spending import nano_usd
from tests.endpoint.client import running_endpoint
from tests.training.rolling import Stand, in_a_process, written

USD = 10**9
TASKS = {name: {"id": name, "answer": name} for name in "abcd"}

PAYING = (
    "import os, pathlib\nfrom evrun import RunOutput\n"
    "ACCOUNT = pathlib.Path(__file__).with_name('account')\n"
    "def run(task, adapter, params):\n"
    "    with ACCOUNT.open('a') as file: file.write(task['id'])\n"
    "    if len(ACCOUNT.read_text()) in params.get('dies', []): os._exit(9)\n"
    "    return RunOutput(task['id'], cost_usd=0.1, tokens=params.get('tokens'))\n"
)


def test_real_spend_stays_under_the_cap_through_five_kills(tmp_path):
    """Each rollout costs 0.10, by an account kept outside: the truth is always between the two sums."""
    given = {
        "agent": f"{written(tmp_path, PAYING)}run", "bound": 0.1, "caps": {"usd": 6 * USD // 10},
        "params": {"dies": [2, 3, 4, 5, 6]},
    }  # fmt: skip
    account = tmp_path / "account"
    for _ in range(5):
        assert in_a_process(tmp_path, TASKS, list(TASKS), **given) == 9
        _check(Stand(tmp_path, TASKS, **given), account)
    stand = Stand(tmp_path, TASKS, **given)
    stand.run()
    _check(stand, account)
    assert stand.control.ending.state == "paused"
    assert len(stand.events(BudgetExhausted)) == 1
    assert account.read_text() == "abbbbb", "what was judged is not paid again"


def _check(stand, account):
    """Compare what was really paid with what the log says."""
    stand.rollout("a")
    total, real = stand.state.ledger.total, len(account.read_text()) * USD // 10
    most = total.settled_nano_usd + total.in_doubt_nano_usd + total.reserved_nano_usd
    assert real <= 6 * USD // 10
    assert total.settled_nano_usd <= real <= most
    assert stand.state.ledger.past_cap == 0


def test_what_is_reported_settles_what_was_reserved(tmp_path):
    """The reservation is in one commit with the beginning, the settlement in one with the end."""
    stand = Stand(tmp_path, {"a": TASKS["a"]}, agent=f"{written(tmp_path, PAYING)}run", bound=0.25)
    stand.run()
    (reserved,), (spent,) = stand.events(BudgetReserved), stand.events(BudgetSpent)
    assert (reserved.bound_nano_usd, reserved.model, reserved.role) == (USD // 4, "own", "rollout")
    assert (spent.call, spent.cost_nano_usd) == (reserved.call, USD // 10)
    assert [names for names in stand.commits() if "RolloutStarted" in names] == [
        ["RolloutStarted", "BudgetReserved"]
    ]
    assert [names for names in stand.commits() if "RolloutFinished" in names] == [
        ["BudgetSpent", "RolloutFinished", "RolloutJudged"]
    ]
    assert stand.events(RolloutFinished)[0].cost_nano_usd == USD // 10
    assert stand.rollout("a").settled_nano_usd == USD // 10


def test_without_a_bound_it_is_booked_when_it_ends(tmp_path):
    """Reserved and spent in the commit of the end; tokens that are reported count once."""
    stand = Stand(tmp_path, {"a": TASKS["a"]}, agent=f"{written(tmp_path, PAYING)}run", params={"tokens": 7})
    stand.run()
    (end,) = [names for names in stand.commits() if "RolloutFinished" in names]
    assert end == ["BudgetReserved", "BudgetSpent", "RolloutFinished", "RolloutJudged"]
    rollout = stand.rollout("a")
    assert (rollout.settled_nano_usd, rollout.tokens) == (USD // 10, 7)
    assert stand.state.ledger.total.settled_tokens == 7
    assert not rollout.unknown_cost


SILENT = {
    "nothing reported": ("return 'a'", 0.1, USD // 10),
    "an exception": ("raise OSError", 0.1, USD // 10),
    "no amount": ("return __import__('evrun').RunOutput('a', cost_usd=-1)", 0.1, USD // 10),
    "nothing is paid": ("return 'a'", 0, 0),
    "no bound": ("return 'a'", None, 0),
}


@pytest.mark.parametrize(("ends", "bound", "doubted"), SILENT.values(), ids=SILENT)
def test_what_is_not_reported_stays_in_doubt_up_to_the_bound(ends, bound, doubted, tmp_path):
    """However the agent ended; where no more than nothing can have been spent, nothing is in doubt."""
    text = f"def run(task, adapter): {ends}\n"
    stand = Stand(tmp_path, {"a": TASKS["a"]}, agent=f"{written(tmp_path, text)}run", bound=bound, retries=0)
    stand.run()
    doubts = stand.events(SpendInDoubt)
    assert sum(doubt.bound_nano_usd for doubt in doubts) == doubted
    assert len(stand.events(BudgetReserved)) == len(doubts)
    assert stand.events(BudgetSpent, BudgetReleased) == []


def test_more_than_its_bound_is_booked_as_reported_and_pauses_the_run(tmp_path):
    """No cap can hold then; what is open goes on when somebody has looked at it."""
    stand = Stand(
        tmp_path, {"a": TASKS["a"]}, agent=f"{written(tmp_path, PAYING)}run", bound=0.05, caps={"usd": USD}
    )
    stand.run()
    assert stand.events(BudgetSpent)[0].cost_nano_usd == USD // 10
    assert stand.control.ending.state == "paused"
    assert "more was spent than agent.bound says" in stand.control.ending.reason
    assert "0.10 of 0.05 USD" in stand.control.ending.reason


def test_no_more_begin_at_once_than_the_cap_has_room_for(tmp_path):
    """Four at once under a cap for two: two wait until the others have reported less than their bound."""
    text = (
        "import asyncio\nfrom evrun import RunOutput\nOPEN = []\n"
        "async def run(task, adapter):\n"
        "    OPEN.append(1)\n    assert len(OPEN) <= 2\n    await asyncio.sleep(0.05)\n    OPEN.pop()\n"
        "    return RunOutput(task['id'], cost_usd=0.01)\n"
    )
    caps = {"usd": 25 * USD // 100}
    stand = Stand(tmp_path, TASKS, agent=f"{written(tmp_path, text)}run", bound=0.1, caps=caps, retries=0)
    stand.run()
    assert [stand.rollout(task).score for task in TASKS] == [1.0] * 4
    assert stand.control.ending is None


def test_agents_that_hold_money_and_wait_for_more_do_not_wait_for_each_other(tmp_path):
    """Each has set its bound aside and asks a model for which nothing is left: the run pauses, none hangs."""
    text = (
        "async def run(task, adapter, ctx):\n"
        "    return (await ctx.complete([{'role': 'user', 'content': task['id']}])).text\n"
    )
    with running_endpoint() as endpoint:
        stand = Stand(
            tmp_path, TASKS, base_url=endpoint.base_url, agent=f"{written(tmp_path, text)}run", bound=0.1,
            caps={"usd": 4 * USD // 10}, timeout_s=60,
        )  # fmt: skip
        stand.run()
        assert endpoint.requests() == []
    stand.rollout("a")
    assert stand.control.ending.state == "paused"
    assert stand.events(RolloutFinished) == []
    assert stand.state.ledger.total.reserved_nano_usd == 0
    assert stand.state.ledger.total.in_doubt_nano_usd == 4 * USD // 10
    assert Counter(doubt.reason for doubt in stand.events(SpendInDoubt)) == {
        "the run was stopped before the agent had ended": 4
    }


def test_an_agent_without_a_bound_begins_no_more_once_a_cap_is_reached(tmp_path):
    """Tokens are capped, and reported afterwards only: the run pauses before the next rollout."""
    stand = Stand(
        tmp_path, {"a": TASKS["a"], "b": TASKS["b"]}, agent=f"{written(tmp_path, PAYING)}run",
        params={"tokens": 70}, caps={"tokens": 50},
    )  # fmt: skip
    stand.run("a")
    stand.run("b")
    assert (tmp_path / "account").read_text() == "a"
    assert stand.control.ending.state == "paused"


AMOUNTS = [(0.1, USD // 10), (1e-9, 1), (1e-10, 1), (0, 0), (3, 3 * USD), (None, None), (True, None),
           (-0.1, None), (float("inf"), None), (float("nan"), None), ("0.1", None)]  # fmt: skip


@pytest.mark.parametrize(("usd", "nano"), AMOUNTS, ids=str)
def test_amounts_are_read_exactly_and_rounded_up(usd, nano):
    """What is no amount is not known, and no zero."""
    assert nano_usd(usd) == nano
