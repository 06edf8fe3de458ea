"""The advice that a run's numbers call for."""

from collections.abc import Mapping
from typing import Any

from .reasons import remedy

_HIGH_FILTER_RATE = 0.2
_HIGH_FAILURE_RATE = 0.2
_FEW_TOOL_CALLS = 0.1


def advice(numbers: Mapping[str, Any], *, has_tools: bool) -> list[dict[str, str]]:
    """What is worth a look, as ``{"code", "message"}``; `numbers` are those of statistics.json."""
    found = [
        _filtered(numbers),
        _failed(numbers),
        _tool_calls(numbers) if has_tools else None,
        _no_reasoning(numbers),
        _unpriced(numbers),
        _in_doubt(numbers),
    ]
    return [{"code": item[0], "message": item[1]} for item in found if item is not None]


def _filtered(numbers: Mapping[str, Any]) -> tuple[str, str] | None:
    rate = numbers["filter_rate"]
    if rate <= _HIGH_FILTER_RATE:
        return None
    reasons = numbers["filtered_by_reason"]
    reason = max(sorted(reasons), key=reasons.get)
    text = f"{rate:.0%} of the finished trajectories were set aside, most often for {reason}"
    way = remedy(reason)
    if way is not None:
        text += f"; {way}"
    return "high_filter_rate", text


def _failed(numbers: Mapping[str, Any]) -> tuple[str, str] | None:
    ended = numbers["failed"] + numbers["kept"] + numbers["prompts_filtered"]
    if numbers["failed"] <= _HIGH_FAILURE_RATE * ended:
        return None
    classes = numbers["failed_by_class"]
    error_class = max(sorted(classes), key=classes.get)
    return "many_failures", (
        f"{numbers['failed']} of {ended} finished prompts failed, most often with {error_class}; "
        "failed.jsonl has each cause, --resume --retry-failed tries again"
    )


def _tool_calls(numbers: Mapping[str, Any]) -> tuple[str, str] | None:
    if not numbers["kept"] or numbers["average_tool_calls"] >= _FEW_TOOL_CALLS:
        return None
    return "few_tool_calls", (
        f"tools were offered, and {numbers['average_tool_calls']:.2f} calls were made per trajectory; "
        "do the prompts need tools, and does the model call them?"
    )


def _no_reasoning(numbers: Mapping[str, Any]) -> tuple[str, str] | None:
    turns = numbers["reasoning_statistics"]["turns_with_reasoning"]
    if not numbers["kept"] or turns or numbers["total_reasoning_tokens"]:
        return None
    return "no_reasoning", "no kept trajectory has any reasoning; is it switched off at the endpoint?"


def _unpriced(numbers: Mapping[str, Any]) -> tuple[str, str] | None:
    calls = numbers["cost"]["unpriced_calls"]
    if not calls:
        return None
    return "unpriced_calls", f"{calls} calls have no known price and are in no sum; --price gives one"


def _in_doubt(numbers: Mapping[str, Any]) -> tuple[str, str] | None:
    if numbers["cost"]["in_doubt_usd"] == "0.00":
        return None
    return "money_in_doubt", "nobody knows what some calls have cost; evrun audit names them"
