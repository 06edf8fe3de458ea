"""Progress for whoever runs evrun from Python: lines on stderr, a few, in a terminal and in a notebook."""

import sys
from collections.abc import Callable

from eventlog.events import Recorded
from projections import RunState, usd

from ..effects.clock import monotonic

INTERVAL_S = 5.0
SHOWN = ("kept", "discarded", "failed")


class LineProgress:
    """Says what a session says, and every few seconds how far it is. `write` gets each line."""

    def __init__(self, write: Callable[[str], None] | None = None) -> None:
        self._write = write or _to_stderr
        self._said = ""
        self._at = monotonic()

    def note(self, text: str) -> None:
        """Say one thing, once."""
        self._write(text)

    def progress(self, state: RunState) -> None:
        """Say how far the run is, if it has been a while and something has changed."""
        now = monotonic()
        if now - self._at < INTERVAL_S:
            return
        counts = state.batch.counts
        ended = ", ".join(f"{counts[name]} {name}" for name in SHOWN if counts[name]) or "none finished"
        left = counts["open"] + counts["pending"]
        line = f"{ended}, {left} left, {usd(state.ledger.total.settled_nano_usd)} USD"
        if line != self._said:
            self._said, self._at = line, now
            self._write(line)

    @property
    def see(self) -> Callable[[Recorded], None] | None:
        """No event is shown one by one."""
        return None


class Silent(LineProgress):
    """Says nothing."""

    def __init__(self) -> None:
        super().__init__(lambda _: None)


def _to_stderr(line: str) -> None:
    # What stderr is may change while a program runs: notebooks put their own in its place.
    sys.stderr.write(f"{line}\n")
