"""Each rule of the log is broken on purpose, and the check of a named property must notice.

`python -m tests.eventlog.negative_controls` prints the same as a table.
"""

import contextlib

import pytest

from eventlog.storage.lock import Lock

from .broken import RULES
from .negative_controls import CONTROLS, objection, run_unbroken

NAMES = [f"{control.rule} ({control.check.__name__})" for control in CONTROLS]


@pytest.mark.parametrize("control", CONTROLS, ids=NAMES)
def test_a_broken_rule_makes_the_check_of_a_property_fail(control, tmp_path):
    """With the rule broken the property's own check objects; with it in force the same check passes."""
    assert objection(control, tmp_path / "broken") is not None, "no property notices"
    run_unbroken(control, tmp_path / "whole")


def test_every_broken_rule_has_a_control():
    """None is prepared and never used; the twelve of the design are among them."""
    assert {control.rule for control in CONTROLS} == set(RULES)
    assert len(RULES) >= 12


def test_a_hook_leaves_nothing_broken_behind():
    """What was replaced is back when the block ends, also when it ends with an error."""
    before = Lock.__dict__["is_ours"]
    with contextlib.suppress(ZeroDivisionError), RULES["the fence is not looked at"].hook():
        assert Lock.__dict__["is_ours"] is not before
        raise ZeroDivisionError
    assert Lock.__dict__["is_ours"] is before
