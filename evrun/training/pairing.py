"""Two adapters compared on the same tasks: what only one of them has a score for counts for neither."""

from collections.abc import Mapping
from typing import NamedTuple


class Pairing(NamedTuple):
    """The pairs (task, score before, score after), and the tasks that were left out."""

    pairs: list[tuple[str, float, float]]
    dropped: list[str]

    @property
    def before(self) -> float:
        """The mean score before; 0.0 without pairs."""
        return sum(pair[1] for pair in self.pairs) / len(self.pairs) if self.pairs else 0.0

    @property
    def after(self) -> float:
        """The mean score after; 0.0 without pairs."""
        return sum(pair[2] for pair in self.pairs) / len(self.pairs) if self.pairs else 0.0

    @property
    def gain(self) -> float:
        """How much the sum of scores grew; 0.0 without pairs."""
        return sum(pair[2] - pair[1] for pair in self.pairs)


def paired(before: Mapping[str, float | None], after: Mapping[str, float | None]) -> Pairing:
    """Pair the scores of the same tasks, in the order of `before`; null is no score."""
    pairs, dropped = [], []
    for task, first in before.items():
        second = after.get(task)
        if first is None or second is None:
            dropped.append(task)
        else:
            pairs.append((task, first, second))
    return Pairing(pairs, dropped)
