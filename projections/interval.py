"""How sure a mean is: a confidence interval of scores that come in groups."""

import math
from collections.abc import Iterable, Sequence

from .mean import mean

LEVEL = 0.95
_HALVINGS = 60
_LARGEST_EXACT = 300


def interval(groups: Iterable[Sequence[float]]) -> tuple[float, float] | None:
    """The 95 % interval of the mean of all scores, by Student's t.

    Null for fewer than two groups, and for scores so far apart that no number can say how far.

    The repeats of one task are one group: they are alike, so it is the tasks that tell how far the mean may
    be off. The standard error is the one that is robust against such groups; with one score in each it is
    the usual one.
    """
    scored = [group for group in groups if group]
    if len(scored) < 2:  # noqa: PLR2004 (of one group nothing follows)
        return None
    centre = mean([score for group in scored for score in group])
    assert centre is not None
    number, of_all = len(scored), sum(map(len, scored))
    try:
        squares = math.fsum(math.fsum(score - centre for score in group) ** 2 for group in scored)
    except OverflowError:
        return None
    error = math.sqrt(squares * number / (number - 1)) / of_all
    reach = t_quantile(number - 1) * error
    return centre - reach, centre + reach


def t_quantile(freedom: int) -> float:
    """The number that a t-distributed one passes in neither direction with the probability `LEVEL`."""
    if freedom > _LARGEST_EXACT:
        normal = 1.959963984540054
        cube, fifth = normal**3, normal**5
        return (
            normal
            + (cube + normal) / (4 * freedom)
            + (5 * fifth + 16 * cube + 3 * normal) / (96 * freedom**2)
        )
    low, high = 0.0, 20.0
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        if _within(middle, freedom) < LEVEL:
            low = middle
        else:
            high = middle
    return (low + high) / 2


def _within(reach: float, freedom: int) -> float:
    """The probability that a t-distributed number is within `reach` of 0, by a finite sum."""
    angle = math.atan(reach / math.sqrt(freedom))
    sine, cosine = math.sin(angle), math.cos(angle)
    odd = freedom % 2
    term = cosine if odd else 1.0
    total = 0.0
    for number in range(1, freedom // 2 + 1):
        total += term
        factor = 2 * number / (2 * number + 1) if odd else (2 * number - 1) / (2 * number)
        term *= factor * cosine**2
    return 2 / math.pi * (angle + sine * total) if odd else sine * total
