"""A finished unit as a line of `batch_<n>.jsonl`, `discarded.jsonl` or `failed.jsonl`. Pure.

Fields stand in one order and have one type in every row; what is not known is null.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec

from eventlog.events import Counts, PromptFailed, TrajectoryCompleted, TrajectoryDiscarded, Usage

from .agent_messages import agent_messages, agent_tools
from .asking import row_messages
from .batch_lines import own_tools
from .conversation import NO_USAGE, Attempt
from .counts import count_attempt, unknown_calls
from .jsontext import clean_text, json_bytes, json_line
from .messages import Message, attempt_messages
from .money import usd
from .own_fields import Kind, in_form, own_fields, row_object
from .sharegpt import render_turns, system_turn
from .templates import PLAIN
from .times import rfc3339

NO_COUNTS = Counts(0, 0, 0, None, {})
_SECOND = 1_000_000_000


class Place(msgspec.Struct, frozen=True, gc=False):
    """Where a unit stands, and when it ended.

    `unit` is its name; `index` (from 0) and `row` are the planned row's, `batch` and `sample` count from 1;
    `time_ns` is the time of the boundary event.
    """

    unit: str
    index: int
    batch: int
    sample: int
    row: bytes
    time_ns: int


class RowShape(NamedTuple):
    """What all rows of a run have: fields of dataset rows, each with its kind, and tools."""

    own: dict[str, Kind]
    tools: tuple[str, ...]


def names_of(toolsets: dict[str, list[dict[str, Any]]]) -> tuple[str, ...]:
    """The names of all tools in these toolsets, in one order."""
    return tuple(sorted({str(tool["name"]) for tools in toolsets.values() for tool in tools}))


class Frame:
    """What the rows of a run have in common: settings and tools in force, with the parts that repeat.

    Make a new one when settings, toolsets or `shape` change; null: what these toolsets alone make.
    """

    def __init__(
        self,
        settings: dict[str, Any],
        toolsets: dict[str, list[dict[str, Any]]],
        shape: RowShape | None = None,
    ) -> None:
        if shape is None:
            shape = RowShape({}, names_of(toolsets))
        self.settings = settings
        self.model = str(settings.get("model") or "")
        self.template = str(settings.get("template") or PLAIN)
        self.own = shape.own
        self._toolsets = toolsets
        names = shape.tools
        self._zero_stats: dict[str, Any] = {name: {"count": 0, "success": 0, "failure": 0} for name in names}
        self._zero_errors = dict.fromkeys(names, 0)
        self._system_turns: dict[tuple[tuple[str, ...], str | None], msgspec.Raw] = {}

    def system_turn(self, toolsets: list[str], system_prompt: str | None) -> msgspec.Raw:
        """The system turn, as JSON, of an attempt with these toolsets."""
        key = (tuple(toolsets), system_prompt)
        turn = self._system_turns.get(key)
        if turn is None:
            value = system_turn(self._tools(toolsets), system_prompt)
            turn = msgspec.Raw(json_bytes({"from": "system", "value": value}))
            if system_prompt is None or system_prompt == self.settings.get("system_prompt"):
                # A row's own system message is seldom met again, so it is not kept.
                self._system_turns[key] = turn
        return turn

    def tool_stats(self, counts: Counts, own: Sequence[str] = ()) -> tuple[dict[str, Any], dict[str, int]]:
        """`tool_stats` and `tool_error_counts`: of every tool of the run, and those an own agent brings."""
        if not counts.tools and not own:
            return self._zero_stats, self._zero_errors
        stats = self._zero_stats | {name: {"count": 0, "success": 0, "failure": 0} for name in own}
        errors = self._zero_errors | dict.fromkeys(own, 0)
        for name in counts.tools.keys() & stats.keys():
            count, success, failure = counts.tools[name]
            stats[name] = {"count": count, "success": success, "failure": failure}
            errors[name] = failure
        return stats, errors

    def unknown_calls(self, attempt: Attempt | None, counts: Counts, row: dict[str, Any]) -> int:
        """How many calls asked for a tool that was not offered: not by the toolsets, nor by the row."""
        if attempt is None or not counts.tools:
            return 0
        tools = (*self._tools(attempt.toolsets), *own_tools(row))
        return unknown_calls(attempt, counts, {str(tool["name"]) for tool in tools})

    def _tools(self, toolsets: list[str]) -> list[dict[str, Any]]:
        """The tools of these toolsets, each once."""
        by_name = {tool["name"]: tool for name in toolsets for tool in self._toolsets.get(name, [])}
        return list(by_name.values())


def kept_row(
    frame: Frame, place: Place, attempt: Attempt, ending: TrajectoryCompleted | TrajectoryDiscarded
) -> bytes:
    """A line of `batch_<n>.jsonl`."""
    return json_line(_trajectory(frame, place, attempt, ending))


def discarded_row(
    frame: Frame,
    place: Place,
    attempt: Attempt,
    ending: TrajectoryCompleted | TrajectoryDiscarded,
    reason: str,
) -> bytes:
    """A line of `discarded.jsonl`: a kept row's fields, and the quality rule `reason`."""
    return json_line(_trajectory(frame, place, attempt, ending) | {"reason": reason})


def failed_row(frame: Frame, place: Place, attempt: Attempt | None, ending: PromptFailed) -> bytes:
    """A line of `failed.jsonl`: a kept row's fields, and the `error`.

    `attempt` is null where the unit failed before one began.
    """
    counts = NO_COUNTS if attempt is None else count_attempt(attempt)
    error = {
        "class": ending.error_class,
        "message": ending.message,
        "status": ending.status,
        "retryable": ending.retryable,
    }
    return json_line(_fields(frame, place, attempt, counts) | {"error": error})


def _trajectory(
    frame: Frame, place: Place, attempt: Attempt, ending: TrajectoryCompleted | TrajectoryDiscarded
) -> dict[str, Any]:
    fields = _fields(frame, place, attempt, ending.counts)
    fields["completed"], fields["partial"] = ending.completed, ending.partial
    fields["finish_reason"] = ending.finish_reason
    return fields


def _fields(frame: Frame, place: Place, attempt: Attempt | None, counts: Counts) -> dict[str, Any]:
    """All fields in their order, with those of an attempt that has no trajectory."""
    row = row_object(place.row)
    toolsets = [] if attempt is None else attempt.toolsets
    conversations, escaped = _conversations(frame, row, attempt, toolsets)
    stats, errors = frame.tool_stats(counts, _tools_of_own_agent(attempt))
    return {
        "prompt_index": place.index,
        "conversations": conversations,
        "metadata": _metadata(frame, place, row),
        "completed": False,
        "partial": False,
        "api_calls": counts.api_calls,
        "toolsets_used": toolsets,
        "tool_stats": stats,
        "tool_error_counts": errors,
        "prompt_id": place.unit.removeprefix("prompt:").rpartition(".")[0],
        "sample": place.sample,
        "attempt": 0 if attempt is None else attempt.attempt,
        "usage": _usage(NO_USAGE if attempt is None else attempt.usage),
        "cost_usd": None if attempt is None else _cost(attempt),
        "duration_s": None if attempt is None else round((place.time_ns - attempt.started_ns) / _SECOND, 6),
        "finish_reason": None,
        "score": None if attempt is None else attempt.score,
        "escaped": escaped,
        "feedback": None if attempt is None else attempt.feedback,
        "settings": None if attempt is None else attempt.settings.hex(),
        "unknown_tool_calls": frame.unknown_calls(attempt, counts, row),
    }


def _tools_of_own_agent(attempt: Attempt | None) -> list[str]:
    """The names of the tools that an own agent told its model of; none of the built-in agent's."""
    if attempt is None or attempt.own is None:
        return []
    return sorted({tool["name"] for tool in agent_tools(attempt)})


def _conversations(
    frame: Frame, row: dict[str, Any], attempt: Attempt | None, toolsets: list[str]
) -> tuple[list[Any], bool]:
    messages = _whole(row, frame, attempt)
    system_prompt = None
    if messages and messages[0].role == "system":
        system_prompt, messages = messages[0].content, messages[1:]
    turns, escaped = render_turns(messages)
    own = attempt is not None and attempt.own is not None
    tools = agent_tools(attempt) if attempt is not None and own else own_tools(row)
    if tools or own:
        first: Any = {"from": "system", "value": system_turn(tools, system_prompt)}
        return [first, *turns], escaped
    return [frame.system_turn(toolsets, system_prompt), *turns], escaped


def _whole(row: dict[str, Any], frame: Frame, attempt: Attempt | None) -> list[Message]:
    """All messages: what the row asks and the attempt said; or, of an own agent, what it says of both."""
    if attempt is not None and attempt.own is not None:
        return agent_messages(attempt) or _asked(row, frame.settings)
    return _asked(row, frame.settings) + ([] if attempt is None else attempt_messages(attempt))


def _asked(row: dict[str, Any], settings: dict[str, Any]) -> list[Message]:
    try:
        return row_messages(row, settings)
    except ValueError:
        # A row that cannot be asked fails its prompt; its line shows the prompt as far as there is one.
        prompt = row.get("prompt")
        return [Message("user", clean_text(prompt))] if isinstance(prompt, str) else []


def _metadata(frame: Frame, place: Place, row: dict[str, Any]) -> dict[str, Any]:
    """Ours, then the fields that the rows of this run bring along."""
    metadata: dict[str, Any] = {
        "batch_num": place.batch,
        "timestamp": rfc3339(place.time_ns),
        "model": frame.model,
    }
    if len(row) > 1 or frame.own:
        metadata |= in_form(own_fields(row, frame.template), frame.own)
    return metadata


def _usage(usage: Usage) -> dict[str, int | None]:
    return {
        "input_tokens": usage.input_tokens,
        "cached_input_tokens": usage.cached_input_tokens,
        "output_tokens": usage.output_tokens,
        "reasoning_tokens": usage.reasoning_tokens,
    }


def _cost(attempt: Attempt) -> str | None:
    """What the attempt's settled calls cost; null where a call has no price, or all money is in doubt."""
    if attempt.unpriced or (attempt.doubts and not attempt.priced):
        return None
    return usd(attempt.settled_nano_usd)
