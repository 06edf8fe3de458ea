"""The mean of scores, which may be any finite numbers."""

import math
from collections.abc import Sequence


def mean(scores: Sequence[float]) -> float | None:
    """Their mean; null where there are none."""
    if not scores:
        return None
    try:
        return math.fsum(scores) / len(scores)
    except OverflowError:
        # The sum is larger than any number, the mean is not.
        return math.fsum(score / len(scores) for score in scores)
