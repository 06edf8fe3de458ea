"""One gate for the whole run, and how long to wait where nobody said how long."""

import asyncio

import pytest

from evrun.effects import limiter as limiter_module
from evrun.effects.backoff import LONGEST_S, backoff_s
from evrun.effects.limiter import LONGEST_SPREAD_S, SPREAD_SHARE, Limiter


class Clock:
    """Time that passes only while somebody sleeps."""

    def __init__(self):
        self.now = 1000.0
        self.slept = []

    def monotonic(self):
        """The time."""
        return self.now

    async def sleep(self, seconds):
        """Let time pass, and let others run in the meantime."""
        self.slept.append(seconds)
        until = self.now + seconds
        await asyncio.sleep(0)
        self.now = max(self.now, until)


@pytest.fixture
def clock(monkeypatch):
    """A clock in the hands of the test."""
    made = Clock()
    monkeypatch.setattr(limiter_module, "monotonic", made.monotonic)
    return made


def test_an_open_gate_lets_pass_at_once(clock):
    """No wait, no sleep."""
    asyncio.run(Limiter().pass_gate(clock.sleep))
    assert clock.slept == []


def test_nobody_passes_before_the_wait_is_over(clock):
    """As told, or a little later; never earlier."""
    limiter = Limiter()
    limiter.pause_until(20)
    assert limiter.left_s == 20
    asyncio.run(limiter.pass_gate(clock.sleep))
    assert 1020 <= clock.now <= 1020 + 20 * SPREAD_SHARE
    assert limiter.left_s == 0


def test_the_workers_do_not_all_wake_at_once(clock):
    """Each draws its own place after the wait, within a bounded time."""
    limiter = Limiter()
    limiter.pause_until(3600)

    async def main():
        await asyncio.gather(*(limiter.pass_gate(clock.sleep) for _ in range(64)))

    asyncio.run(main())
    assert len(set(clock.slept)) > 32
    assert min(clock.slept) >= 3600
    assert max(clock.slept) <= 3600 + LONGEST_SPREAD_S


def test_a_longer_wait_that_comes_meanwhile_is_waited_for_too(clock):
    """The last word of the provider counts."""
    limiter = Limiter()
    limiter.pause_until(10)

    async def main():
        waiting = asyncio.create_task(limiter.pass_gate(clock.sleep))
        await asyncio.sleep(0)
        limiter.pause_until(100)
        await waiting

    asyncio.run(main())
    assert clock.now >= 1100


def test_a_shorter_wait_does_not_cut_a_longer_one_short(clock):
    """Eight workers are told eight waits; the longest holds."""
    limiter = Limiter()
    limiter.pause_until(100)
    limiter.pause_until(1)
    limiter.pause_until(-5)
    assert limiter.left_s == 100


def test_a_run_that_is_told_to_end_does_not_wait(clock):
    """An interrupted run does not sit out an hour."""
    limiter = Limiter()
    limiter.pause_until(3600)
    asyncio.run(limiter.pass_gate(clock.sleep, lambda: bool(clock.slept)))
    assert len(clock.slept) == 1
    asyncio.run(Limiter().pass_gate(clock.sleep, lambda: True))


def test_the_gate_works_with_real_time_too():
    """With the real clock and the real sleep."""
    limiter = Limiter()
    limiter.pause_until(0.05)
    asyncio.run(limiter.pass_gate())
    assert limiter.left_s == 0


@pytest.mark.parametrize("attempt", range(40))
def test_the_backoff_doubles_with_jitter_up_to_its_longest(attempt):
    """Between a half and the whole of 0.5, 1, 2, 4 … seconds, at most 30."""
    whole = min(0.5 * 2**attempt, LONGEST_S)
    drawn = {backoff_s(attempt) for _ in range(20)}
    assert len(drawn) > 10
    assert all(whole / 2 <= wait <= whole for wait in drawn)


def test_a_try_before_the_first_counts_as_the_first():
    """A caller's slip is no crash in the middle of a run."""
    assert 0.25 <= backoff_s(-3) <= 0.5
