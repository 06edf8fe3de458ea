"""Quality rules from the command line: set aside, never lost, and taken in again without a call."""

from pathlib import Path
from typing import Any

import pytest

from tests.e2e.case import Case
from tests.endpoint.client import running_endpoint

UNKNOWN = {"tool_calls": [{"name": "nosuch", "arguments": {}}]}
RULES: list[dict[str, Any]] = [
    {"match": {"contains": "unknown", "turn": 1}, "then": UNKNOWN},
    {"match": {"contains": "silent"}, "then": {"reasoning": ""}},
]
CHANGES = [
    (("--keep-all",), {}),
    (("--keep-all", "--unknown-tools", "discard"), {1: "unknown_tool"}),
    (("--require-reasoning", "--unknown-tools", "keep"), {2: "no_reasoning"}),
    (("--require-reasoning", "--unknown-tools", "discard"), {1: "unknown_tool", 2: "no_reasoning"}),
]


def outcomes(case: Case) -> tuple[list[int], dict[int, str]]:
    """The kept prompts, and why the others were set aside, by their index."""
    low = case.run_directory / "discarded.jsonl"
    reasons = case.rows("discarded.jsonl") if low.exists() else []
    kept = sorted(row["prompt_index"] for row in case.rows())
    return kept, {row["prompt_index"]: row["reason"] for row in reasons}


def views(case: Case) -> dict[str, bytes]:
    """The row files."""
    return {path.name: path.read_bytes() for path in sorted(case.run_directory.glob("*.jsonl"))}


def test_rules_are_changed_in_any_direction_and_back_without_a_call(tmp_path: Path) -> None:
    """After each change the outcomes are those of the rules; after the way back row files are the same."""
    with running_endpoint(rules=RULES) as endpoint:
        case = Case(tmp_path, endpoint, "--toolsets", "file")
        case.write("fine", "unknown", "silent")
        assert case.first().json["counts"]["discarded"] == 2
        requests, first = endpoint.totals()["requests"], views(case)
        for options, reasons in CHANGES:
            ended = case.resume(*options)
            assert ended.code == 0, ended
            assert outcomes(case) == ([n for n in range(3) if n not in reasons], reasons)
            numbers = case.statistics()
            assert numbers["prompts_filtered"] == len(reasons)
            assert sum(numbers["filtered_by_reason"].values()) == len(reasons)
            assert numbers["reasoning_statistics"]["total_assistant_turns"] == 4 - 2 * (1 in reasons) - (
                2 in reasons
            )
        assert views(case) == first
        assert endpoint.totals()["requests"] == requests


SET_ASIDE = [
    ((), RULES[1:], ("silent 1", "silent 2"), "no reasoning; --resume --keep-all keeps them"),
    (("--toolsets", "file"), RULES, ("unknown",) * 6, "not offered; --resume --keep-all, or"),
]


@pytest.mark.parametrize(("options", "rules", "prompts", "said"), SET_ASIDE)
def test_when_all_first_prompts_are_set_aside_that_is_said_once_with_the_option(
    tmp_path: Path, options: tuple[str, ...], rules: list[Any], prompts: tuple[str, ...], said: str
) -> None:
    """Also in a run that is shorter than the five that are waited for."""
    with running_endpoint(rules=rules) as endpoint:
        case = Case(tmp_path, endpoint, *options)
        case.write(*prompts)
        ended = case.first()
        assert ended.stderr.count("were all set aside") == 1, ended
        assert said in ended.stderr
        assert case.statistics()["health"][0]["code"] == "high_filter_rate"


def test_a_run_that_keeps_something_says_no_such_thing(tmp_path: Path) -> None:
    """One kept prompt among the first is enough."""
    with running_endpoint(rules=RULES) as endpoint:
        case = Case(tmp_path, endpoint, "--toolsets", "none")
        case.write("fine", "silent 1", "silent 2")
        ended = case.first()
        assert "were all set aside" not in ended.stderr
        (advice,) = [one for one in case.statistics()["health"] if one["code"] == "high_filter_rate"]
        assert "--resume --keep-all takes them in again without a call" in advice["message"]
