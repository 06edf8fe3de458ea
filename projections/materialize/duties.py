"""Costly work on the views, and when its turn comes again: at no more than a per cent of the time."""

from collections.abc import Callable

import msgspec

# Four duties, each at most one four-hundredth of the time: together one per cent.
_REST = 400

Work = Callable[[], None]
"""What is left of a duty once it knows what to write; may be done in another thread."""


class Duty(msgspec.Struct):
    """A costly piece of work: when it may be done again, and for which sequence it was done last.

    `begin` takes what is needed from the state as it is now, at little cost, and gives the work; null where
    there is none.
    """

    begin: Callable[[], Work | None]
    due: float = float("-inf")
    done_at: int = -1

    def start(self, sequence: int, monotonic: Callable[[], float]) -> Work | None:
        """The work for the state at a sequence; null where it is not time, or nothing is to be done."""
        began = monotonic()
        if self.done_at == sequence or began < self.due:
            return None
        work = self.begin()
        if work is None:
            return None
        self.done_at = sequence
        frozen = monotonic() - began

        def timed() -> None:
            began = monotonic()
            try:
                work()
            finally:
                ended = monotonic()
                self.due = ended + _REST * (frozen + ended - began)

        return timed

    def again(self) -> None:
        """What was done is not right: it has to be done again, at its time."""
        self.done_at = -1
