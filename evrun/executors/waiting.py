"""Says now and then what a run waits for."""

from collections.abc import Callable

from ..effects.clock import monotonic

PATIENCE_S = 10.0
"""What is over within so long is not worth a word: so long it takes to make a worker."""
PAUSE_S = 30.0
"""So far apart are two words about it."""


class Waiting:
    """Hears again and again what is waited for, and says it once, and again when it has changed."""

    def __init__(self, note: Callable[[str], None]) -> None:
        self._note = note
        self._began: float | None = None
        self._said: str | None = None
        self._said_at = float("-inf")

    def look(self, what: str | None) -> None:
        """This is waited for now; null: nothing is."""
        now = monotonic()
        if what is None:
            self._began = self._said = None
            return
        if self._began is None:
            self._began = now
        if what == self._said or now - self._began < PATIENCE_S or now - self._said_at < PAUSE_S:
            return
        self._note(f"waiting for a worker: {what}")
        self._said, self._said_at = what, now
