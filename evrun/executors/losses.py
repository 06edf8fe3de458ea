"""Which units workers were lost with: one of them may be what ends its workers."""

from collections import Counter

from .base import Lost

ALONE_AFTER = 2
"""A unit that so many workers were lost with has its next one for itself, so that no other is the cause."""
MOST_LOST = ALONE_AFTER + 1
"""A unit that so many workers were lost with is not handed to another one."""


class GivenUp(Exception):
    """A unit is not worked on any more: it may be what ends its workers. Says why."""


class Losses:
    """Counts the workers that were lost with each unit."""

    def __init__(self) -> None:
        self._lost: Counter[str] = Counter()

    def suspect(self, unit: str) -> bool:
        """Whether a unit must be worked on by a worker that works on nothing else."""
        return self._lost[unit] >= ALONE_AFTER

    def count(self, unit: str, lost: Lost) -> None:
        """A worker was lost with this unit.

        Raises:
            GivenUp: it is not to be handed over again.
        """
        self._lost[unit] += 1
        if self._lost[unit] >= MOST_LOST:
            raise GivenUp(
                f"{MOST_LOST} workers were lost while they worked on it, the last on nothing else: {lost}"
            ) from lost
