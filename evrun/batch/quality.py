"""Quality rules: which trajectories that ended well are set aside, and why. Pure, and data: one row a rule.

Rules never delete: what they set aside is in the log whole, and a changed rule judges it anew from what is
recorded, without a call.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from eventlog.events import Counts, TrajectoryRestored
from projections import batch_request

from .settings import Settings


class Facts(NamedTuple):
    """All that the rules look at.

    What a trajectory counts, whether it called a tool that was not offered, and its score (null: no judge
    gave one).
    """

    counts: Counts
    unknown_tool: bool
    score: float | None


class Rules(NamedTuple):
    """The rules in force. `min_score` null: no score is too low."""

    require_reasoning: bool
    discard_unknown_tools: bool
    min_score: float | None


def rules_of(settings: Settings, row: dict[str, Any] | None = None) -> Rules:
    """The rules that settings ask for; where they do not say, unknown tools go with the reasoning.

    A `row` that is a batch line asked for an answer as it comes: only a score can set that aside.
    """
    if row is not None and batch_request(row) is not None:
        return Rules(require_reasoning=False, discard_unknown_tools=False, min_score=settings.min_score)
    said = settings.unknown_tools
    discard = settings.require_reasoning if said is None else said == "discard"
    return Rules(settings.require_reasoning, discard, settings.min_score)


def _no_reasoning(rules: Rules, facts: Facts) -> bool:
    return rules.require_reasoning and facts.counts.turns_with_reasoning == 0


def _unknown_tool(rules: Rules, facts: Facts) -> bool:
    return rules.discard_unknown_tools and facts.unknown_tool


def _low_score(rules: Rules, facts: Facts) -> bool:
    # A trajectory that nobody judged has shown nothing bad.
    return rules.min_score is not None and facts.score is not None and facts.score < rules.min_score


# In this order; the first that applies is the reason on record.
_RULES: tuple[tuple[str, Callable[[Rules, Facts], bool]], ...] = (
    ("no_reasoning", _no_reasoning),
    ("unknown_tool", _unknown_tool),
    ("low_score", _low_score),
)


def reason_to_discard(rules: Rules, facts: Facts) -> str | None:
    """The rule by which a trajectory is set aside, or null: it is kept."""
    for name, applies in _RULES:
        if applies(rules, facts):
            return name
    return None


def rejudge(unit: str, rules: Rules, facts: Facts, reason: str | None) -> TrajectoryRestored | None:
    """What today's rules say of a trajectory kept (`reason` null) or set aside before; null: the same."""
    now = reason_to_discard(rules, facts)
    return None if now == reason else TrajectoryRestored(unit, now is None, now, facts.counts)
