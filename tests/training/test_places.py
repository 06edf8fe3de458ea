"""Private directories of a training run's attempts."""

import pytest

from eventlog.events import (
    Recorded,
    RolloutStarted,
    RunStarted,
    SessionOpened,
    StepStarted,
    ToolFinished,
    ToolStarted,
)
from evrun.training.places import Places
from projections import RunState


@pytest.mark.parametrize(
    ("one", "other"), [("a.1", "a-1"), ("a/b", "a-b"), ("a", "a-a1"), ("x" * 200, "x" * 201)]
)
def test_no_two_attempts_have_one_directory(one, other, tmp_path):
    """Whatever tasks are called, and in each session anew; none is outside of `work`."""
    places = Places(tmp_path, 1)
    found = {places.attempt(f"step:1/task:{task}", number) for task in (one, other) for number in (1, 2)}
    found |= {Places(tmp_path, 2).attempt(f"step:1/task:{one}", 1)}
    assert len(found) == 5
    assert {place.parent for place in found} == {places.work}
    assert places.attempt("step:1/task:../../x", 1).resolve().parent == places.work


def test_a_directory_stays_where_results_are_fed_back_that_rest_on_it(tmp_path):
    """Of attempts that are open after their tools had worked; all else of earlier sessions is removed."""
    state = RunState()
    events = [
        RunStarted("training", "r", {}, {}, {}, []), SessionOpened(1, 1, "h", "0"),
        StepStarted(1, 1, ["a", "b"], "h", [b"", b""]),
        RolloutStarted("step:1/task:a", 1, "a", "h"), RolloutStarted("step:1/task:b", 1, "b", "h"),
        ToolStarted("step:1/task:a", 1, 0, 0, "terminal", b"x"),
        ToolFinished("step:1/task:a", 1, 0, 0, b"{}", success=True, duration_ms=1),
    ]  # fmt: skip
    for number, event in enumerate(events, 1):
        state.apply(Recorded(number, number, 1, event))
    before = Places(tmp_path, 1)
    old = {task: before.attempt(f"step:1/task:{task}", 1) for task in "ab"}
    for place in old.values():
        place.mkdir(parents=True)
    places = Places(tmp_path, 2)
    places.keep(state.training)
    places.clear_old()
    assert [old[task].exists() for task in "ab"] == [True, False]
    assert places.attempt("step:1/task:a", 1) == old["a"]
    assert places.attempt("step:1/task:b", 1) != old["b"]
