"""So many requests and tokens a minute: for all who send, in the order in which they came."""

import asyncio
from collections import deque

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evrun.effects import limiter as limiter_module
from evrun.effects.limiter import FREE, Limiter
from evrun.effects.limiter_rates import MINUTE_S, Rates


class Clock:
    """Time that passes only when all who could do something sleep; it goes to the next moment then."""

    def __init__(self):
        self.now = 1000.0
        self.waiting = {}

    def monotonic(self):
        """The time."""
        return self.now

    async def sleep(self, seconds):
        """Sleep; the sleeper that is due first takes the time along."""
        me, until = object(), self.now + seconds
        self.waiting[me] = until
        while self.now < until:
            for _ in range(30):
                await asyncio.sleep(0)
            if until <= min(self.waiting.values()):
                self.now = max(self.now, until)
        del self.waiting[me]


@pytest.fixture
def clock(monkeypatch):
    """A clock in the hands of the test."""
    made = Clock()
    monkeypatch.setattr(limiter_module, "monotonic", made.monotonic)
    return made


async def send(limiter, clock, sent, tokens, *, takes_s=0.0, took=None):
    """One sender: through the gate, sent, answered after so many seconds."""
    while True:
        await limiter.pass_gate(clock.sleep, tokens=tokens)
        permit = limiter.take(tokens)
        if permit is not None:
            break
    sent.append((clock.now, tokens))
    if takes_s:
        await clock.sleep(takes_s)
    if took is not None:
        limiter.settle(permit, *took)


def run(clock, limiter, tokens, **more):
    """When the requests of these tokens were sent, all of them wanting to at once."""
    sent = []

    async def main():
        await asyncio.gather(*(send(limiter, clock, sent, one, **more) for one in tokens))

    asyncio.run(main())
    return sent


def worst_minute(sent, count):
    """The most that any sixty seconds hold."""
    return max(
        sum(count(tokens) for when, tokens in sent if start <= when < start + MINUTE_S) for start, _ in sent
    )


def test_no_minute_holds_more_requests_than_allowed(clock):
    """Twenty who come at once, five a minute: four minutes, and never six in any sixty seconds."""
    sent = run(clock, Limiter(rpm=5), [0] * 20)
    assert len(sent) == 20
    assert worst_minute(sent, lambda _: 1) == 5
    assert sent[-1][0] - sent[0][0] == pytest.approx(3 * MINUTE_S)


def test_no_minute_holds_more_tokens_than_allowed(clock):
    """As many as fit, and the rest in the next minute."""
    sent = run(clock, Limiter(tpm=100), [40] * 6)
    assert worst_minute(sent, lambda tokens: tokens) == 80
    assert sent[-1][0] - sent[0][0] == pytest.approx(2 * MINUTE_S)


def test_what_an_answer_did_not_take_is_free_at_once(clock):
    """Set aside by the bound, corrected with what was reported: the next goes as soon as that is known."""
    sent = run(clock, Limiter(tpm=100), [90, 90], takes_s=2.0, took=(5, 5))
    assert sent[1][0] - sent[0][0] < MINUTE_S / 10


def test_a_request_that_nobody_charged_takes_nothing(clock):
    """A refusal gives all of its tokens back, but it was a request."""
    assert len({when for when, _ in run(clock, Limiter(tpm=100), [90, 90], took=(0, 0))}) == 1
    sent = run(clock, Limiter(rpm=1, tpm=100), [90, 90], took=(0, 0))
    assert sent[1][0] - sent[0][0] == pytest.approx(MINUTE_S)


def test_an_answer_that_took_more_counts_as_what_it_took(clock):
    """Later ones wait for that too."""
    limiter, sent = Limiter(tpm=100), []

    async def main():
        await send(limiter, clock, sent, 10, took=(60, 40))
        await send(limiter, clock, sent, 10)

    asyncio.run(main())
    assert sent[1][0] - sent[0][0] == pytest.approx(MINUTE_S)


def test_a_request_larger_than_the_limit_passes_alone(clock):
    """It waits for an empty minute, and nobody follows within its own."""
    sent = run(clock, Limiter(tpm=100), [30, 1000, 30])
    assert [tokens for _, tokens in sent] == [30, 1000, 30]
    assert [when - sent[0][0] for when, _ in sent] == pytest.approx([0, MINUTE_S, 2 * MINUTE_S])


def test_what_took_nothing_keeps_no_large_request_out(clock):
    """Refusals are no tokens: the minute is as good as empty."""
    sent = run(clock, Limiter(tpm=100), [1000, 1000], took=(0, 0))
    assert len({when for when, _ in sent}) == 1


def test_a_large_request_is_not_overtaken_for_ever(clock):
    """Small ones that came later wait behind it."""
    sent = run(clock, Limiter(tpm=100), [60, 90, *[10] * 10])
    assert [tokens for _, tokens in sent[:2]] == [60, 90]


def test_without_a_cap_an_answer_counts_as_the_largest_so_far():
    """Nothing is known of the first; from then on the worst is expected."""
    limiter = Limiter(tpm=1000)
    body = b"x" * 30
    assert limiter.asked(body, None) == 10
    assert limiter.asked(body, 7) == 17
    limiter.settle(limiter.take(10), 10, 500)
    assert limiter.asked(body, None) == 510
    assert Limiter(rpm=3).asked(body, 7) == 0


def test_without_rates_nothing_is_counted_and_nobody_waits(clock):
    """The gate stands open, and all pass with the same permit."""
    limiter = Limiter()
    asyncio.run(limiter.pass_gate(clock.sleep, tokens=10**9))
    assert limiter.take(10**9) is FREE
    limiter.settle(FREE, 1, 1)
    assert clock.now == 1000


def test_the_gate_says_no_to_whoever_comes_too_late(clock):
    """Between passing and sending somebody else was quicker, or a pause began: pass again."""
    limiter = Limiter(rpm=1)
    asyncio.run(limiter.pass_gate(clock.sleep))
    assert limiter.take() is not None
    assert limiter.take() is None
    paused = Limiter()
    paused.pause_until(5)
    assert paused.take() is None


def test_a_pause_holds_beside_the_rates(clock):
    """Who waits for the minute waits for the provider too."""
    limiter = Limiter(rpm=1)
    assert limiter.take() is not None
    limiter.pause_until(200)
    asyncio.run(limiter.pass_gate(clock.sleep))
    assert clock.now >= 1200


def test_all_who_wait_leave_when_the_run_is_told_to_end(clock):
    """Nobody sits out the minute, also not behind somebody else."""
    limiter, stop = Limiter(rpm=1), []
    assert limiter.take() is not None

    async def sleep(seconds):
        stop.append(True)
        await asyncio.sleep(0)

    async def main():
        await asyncio.gather(*(limiter.pass_gate(sleep, lambda: bool(stop)) for _ in range(5)))

    asyncio.run(main())
    assert len(stop) == 1
    assert clock.now == 1000


STEPS = st.lists(st.tuples(st.floats(0, 90), st.integers(0, 150), st.integers(0, 150)), max_size=40)


@given(STEPS, st.integers(1, 6) | st.none(), st.integers(1, 120) | st.none())
def test_the_count_of_the_last_minute_is_exact(steps, rpm, tpm):
    """Against a list of everything ever sent: as early as allowed, and never earlier."""
    now = [0.0]
    rates, sent = Rates(rpm, tpm, lambda: now[0]), deque()
    for passed, tokens, took in steps:
        now[0] += passed
        wait = rates.wait_s(tokens)
        recent = [(when, count) for when, count in sent if when + MINUTE_S > now[0]]
        fits = rpm is None or len(recent) < rpm
        used = sum(count for _, count in recent)
        fits = fits and (tpm is None or used + min(tokens, tpm) <= tpm)
        assert (wait <= 0) == fits
        if fits:
            permit = rates.take(tokens)
            rates.correct(permit, took)
            sent.append((now[0], took))
        else:
            now[0] += wait
            assert rates.wait_s(tokens) <= 1e-6
