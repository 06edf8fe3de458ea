"""The quality rules: what is set aside, for which reason, and that changing them later is harmless."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eventlog.events import Counts, TrajectoryRestored
from evrun.batch.quality import Facts, Rules, reason_to_discard, rejudge, rules_of
from evrun.batch.settings import Settings


def settings(**values):
    """Settings with these values."""
    return Settings(dataset="d", model="m", **values)


def facts(reasoned=1, *, unknown=False, score=None):
    """A trajectory with so many turns of reasoning."""
    return Facts(Counts(2, reasoned, 2, None, {}), unknown, score)


NOTHING, BAD = facts(), facts(0, unknown=True, score=0.1)
VERDICTS = [
    ({}, NOTHING, None),
    ({}, facts(0), "no_reasoning"),
    ({"require_reasoning": False}, facts(0), None),
    ({}, facts(unknown=True), "unknown_tool"),
    ({"unknown_tools": "keep"}, facts(unknown=True), None),
    ({"unknown_tools": "keep"}, facts(0, unknown=True), "no_reasoning"),
    ({"require_reasoning": False}, facts(unknown=True), None),
    ({"require_reasoning": False, "unknown_tools": "discard"}, facts(unknown=True), "unknown_tool"),
    ({"min_score": 0.5}, facts(score=0.4), "low_score"),
    ({"min_score": 0.5}, facts(score=0.5), None),
    ({"min_score": 0.5}, facts(score=None), None),
    ({"min_score": -1.0, "require_reasoning": False}, facts(0, score=-2.0), "low_score"),
    ({"min_score": 0.5}, BAD, "no_reasoning"),
    ({"min_score": 0.5, "require_reasoning": False, "unknown_tools": "discard"}, BAD, "unknown_tool"),
    ({"min_score": 0.5, "require_reasoning": False}, BAD, "low_score"),
]


@pytest.mark.parametrize(("values", "found", "reason"), VERDICTS)
def test_the_first_rule_that_applies_is_the_reason(values, found, reason):
    """Reasoning, then tools, then the score; --keep-all keeps unknown tools too, unless told otherwise."""
    assert reason_to_discard(rules_of(settings(**values)), found) == reason


any_rules = st.builds(Rules, st.booleans(), st.booleans(), st.none() | st.sampled_from([0.0, 0.5, 1.0]))
any_facts = st.builds(
    facts,
    st.integers(0, 2),
    unknown=st.booleans(),
    score=st.none() | st.sampled_from([-1.0, 0.25, 0.5, 0.75]),
)


@given(any_rules, any_rules, any_facts)
def test_an_event_says_what_changes_and_the_way_back_leads_back(before, after, found):
    """From any rules to any others: an event where the verdict is another one; and back again."""
    reason, other = reason_to_discard(before, found), reason_to_discard(after, found)
    there, back = rejudge("u", after, found, reason), rejudge("u", before, found, other)
    if reason == other:
        assert there is back is None
    else:
        assert there == TrajectoryRestored("u", other is None, other, found.counts)
        assert back == TrajectoryRestored("u", reason is None, reason, found.counts)
