"""What a person sees of a run that goes on, where there is no terminal."""

import io
import sys

import pytest

from cli import progress
from projections import RunState


class Clock:
    """Time that passes when it is told to."""

    now = 1000.0

    def __call__(self):
        """The moment."""
        return self.now


@pytest.fixture
def clock(monkeypatch):
    """The clock that progress looks at."""
    clock = Clock()
    monkeypatch.setattr(progress, "monotonic", clock)
    return clock


def shown(clock, seconds, *, quiet=False):
    """The lines of a run of 10,000 rows that takes so many seconds, looked at twice a second."""
    state = RunState()
    state.batch.counts |= {"total": 10_000, "pending": 10_000}
    before, sys.stderr = sys.stderr, io.StringIO()
    try:
        with progress.Progress(quiet, None) as line:
            for tick in range(seconds * 2):
                clock.now += 0.5
                done = 10_000 * (tick + 1) // (seconds * 2)
                state.batch.counts |= {"kept": done, "pending": 10_000 - done}
                line.progress(state)
        return sys.stderr.getvalue().splitlines()
    finally:
        sys.stderr = before


def test_ten_thousand_rows_in_a_minute_are_a_dozen_plain_lines(clock):
    """A line every five seconds, however many rows end meanwhile; no control characters."""
    lines = shown(clock, 60)
    assert len(lines) == 12
    assert all(line.isprintable() and "kept" in line and "left" in line for line in lines)


def test_a_slow_run_shows_that_it_lives(clock):
    """Ten thousand rows in an hour: a line every five seconds all the same."""
    assert len(shown(clock, 3600)) == 720


def test_quiet_is_quiet(clock):
    """With --quiet there is no progress at all."""
    assert shown(clock, 60, quiet=True) == []
