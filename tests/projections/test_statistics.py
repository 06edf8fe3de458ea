"""statistics.json: the whole run in numbers, and the advice that they call for."""

import json

import pytest

from eventlog.events import RunFinished, SessionClosed, SessionOpened, SpendInDoubt
from projections.health import advice
from projections.render_statistics import render_statistics, statistics

from .histories import (
    START_NS,
    answered,
    begun,
    discarded,
    failed,
    kept,
    name_of,
    planned,
    reserve,
    spent,
    started,
)
from .test_spend import A, B, folded, opening

TYPES = {
    "run_name": str,
    "model": str,
    "distribution": str,
    "batch_size": int,
    "total_prompts": int,
    "total_batches": int,
    "kept": int,
    "prompts_filtered": int,
    "filter_rate": float,
    "filtered_by_reason": dict,
    "failed": int,
    "failed_by_class": dict,
    "average_tool_calls": float,
    "total_reasoning_tokens": int | None,
    "average_reasoning_tokens": float | None,
    "tool_statistics": dict,
    "reasoning_statistics": dict,
    "usage": dict,
    "cost": dict,
    "sessions": int,
    "started_at": str,
    "completed_at": str | None,
    "active_seconds": float,
    "health": list,
    "superseded_attempts": int,
}


def numbers(*commits):
    """The statistics of these commits."""
    return statistics(folded(*commits))


def ended():
    """One kept with tool calls and reasoning tokens, one kept with neither, one of each other kind."""
    return [
        opening(),
        [begun(A), reserve("c", A), spent("c", 10**9), answered("c")],
        [kept(A, tools=2, reasoning_tokens=5)],
        [begun(B), kept(B, with_reasoning=0)],
        [begun(name_of(2)), discarded(name_of(2), tools=9)],
        [begun(name_of(3)), failed(name_of(3))],
    ]


@pytest.mark.parametrize("commits", [[opening()], ended()])
def test_every_key_is_there_with_its_type(commits):
    """At the beginning of a run as at its end."""
    found = numbers(*commits)
    for name, kind in TYPES.items():
        assert isinstance(found[name], kind), name


def test_numbers_describe_the_whole_run_and_the_kept():
    """Tool calls of what was set aside do not count; rates are over what ended well."""
    found = numbers(*ended())
    assert (found["total_prompts"], found["total_batches"], found["kept"]) == (4, 2, 2)
    assert (found["prompts_filtered"], found["filter_rate"]) == (1, 0.333333)
    assert found["filtered_by_reason"] == {"no_reasoning": 1}
    assert found["failed_by_class"] == {"timeout": 1}
    assert found["average_tool_calls"] == 1.0
    assert (found["total_reasoning_tokens"], found["average_reasoning_tokens"]) == (5, 5.0)
    assert found["tool_statistics"] == {
        "look": {"count": 2, "success": 2, "failure": 0, "success_rate": 100.0, "failure_rate": 0.0}
    }
    assert found["reasoning_statistics"]["total_assistant_turns"] == 1
    assert found["cost"]["settled_usd"] == "1.00"
    assert found["usage"] == {
        "input_tokens": 7, "cached_input_tokens": None, "output_tokens": 3, "reasoning_tokens": None
    }  # fmt: skip


def test_reasoning_tokens_that_nobody_reported_are_null():
    """Never 0 instead."""
    found = numbers(opening(), [begun(A), kept(A)])
    assert (found["total_reasoning_tokens"], found["average_reasoning_tokens"]) == (None, None)


def test_times_are_those_of_the_whole_run():
    """Begun with the first session; active as sessions say, a crashed one from first to last event."""
    second = [SessionOpened(2, 1, "h", "0")]
    found = numbers(
        opening(),
        [begun(A)],
        second,
        [kept(A)],
        [RunFinished({})],
        [SessionClosed(2, "finished", None, 7_000_000)],
    )
    assert found["started_at"] == "2026-09-21T14:13:20.000000Z"
    assert found["completed_at"] == "2026-09-21T14:13:20.004000Z"
    assert START_NS == 1_790_000_000_000_000_000
    assert found["active_seconds"] == 0.008
    assert found["sessions"] == 2


def test_the_file_is_indented_json_with_a_last_newline():
    """People read it too."""
    data = render_statistics(folded(*ended()))
    assert data.startswith(b'{\n  "run_name": "r",\n')
    assert data.endswith(b"\n}\n")
    assert json.loads(data) == numbers(*ended())


def codes(found, *, has_tools=True):
    """The codes of the advice."""
    return {one["code"] for one in advice(found, has_tools=has_tools)}


def test_health_names_what_the_numbers_call_for():
    """A third filtered, money in doubt; with the option that helps."""
    found = numbers(*ended(), [reserve("d", A), SpendInDoubt("d", "lost", 100, 30)])
    assert codes(found) == {"high_filter_rate", "many_failures", "money_in_doubt"}
    assert "--keep-all" in next(
        one["message"] for one in found["health"] if one["code"] == "high_filter_rate"
    )


def test_health_says_when_tools_are_not_called_and_nobody_reasons():
    """Only where tools were offered."""
    found = numbers(opening(), [begun(A), kept(A, with_reasoning=0)])
    assert codes(found) == {"few_tool_calls", "no_reasoning"}
    assert codes(found, has_tools=False) == {"no_reasoning"}


def test_a_healthy_run_needs_no_advice():
    """Nothing is said where nothing is the matter."""
    assert numbers(opening(), [begun(A), kept(A, tools=1)])["health"] == []
    assert numbers([SessionOpened(1, 1, "h", "0"), started(), planned(1)])["health"] == []


def test_calls_without_a_price_are_said():
    """They are in no sum."""
    found = numbers(opening(), [begun(A), reserve("c", A, bound=None), spent("c", None)], [kept(A, tools=1)])
    assert codes(found) == {"unpriced_calls"}
