"""The training benchmark sees what a step costs and whether that grows; the real command, few steps."""

import pytest

from tests.benchmarks.tables import printed_and_found

TOYS = "tests.benchmarks.toy_trainers"
STEPS = 12


@pytest.fixture(scope="module")
def command(tmp_path_factory):
    """The table of a small run, as printed and as JSON."""
    out = tmp_path_factory.mktemp("table") / "table.json"
    trainers = ("evrun", *(f"{TOYS}:{name}" for name in ("Grows", "NotToBeHad", "DiesAtOnce")))
    options = {"--steps": STEPS, "--turn": 5, "--trainers": ",".join(trainers)}
    return printed_and_found("training_overhead.py", out, options, timeout_s=100)


def test_every_step_but_the_last_is_measured(command):
    """The last one ends with the run, not with another call of the learner."""
    _, found = command
    assert len(found["found"]["evrun"]["steps_s"]) == STEPS - 1
    assert len(found["found"]["grows"]["steps_s"]) == STEPS - 1


def test_a_trainer_that_grows_is_seen_to_grow(command):
    """Whatever the machine does, its last steps take it longer than its first ones."""
    steps = command[1]["found"]["grows"]["steps_s"]
    assert steps[-1] > 0.03 * (STEPS - 1) > 4 * 0.03 > 0
    assert sum(steps[-3:]) > sum(steps[:3])


def test_who_is_not_in_the_table_is_named_with_the_reason(command):
    """One that cannot be had, one that ended early, with what it said."""
    printed, found = command
    assert found["absent"]["not to be had"] == "it is nowhere"
    assert "no such thing" in found["absent"]["dies at once"]
    assert "dies at once is not in the table: it ended early, with 1: no such thing" in printed


def test_the_goals_are_judged(command):
    """Both lines are there, whatever they say on this machine."""
    printed, _ = command
    assert "goal: 0.05 s a step or less" in printed
    assert "goal: flat" in printed
    assert "evrun / it" in printed
