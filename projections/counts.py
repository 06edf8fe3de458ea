"""What an attempt adds to the statistics, read off its conversation."""

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from eventlog.events import Counts

from .agent_messages import agent_answers, agent_messages
from .answer import Answer, reasoning_tokens
from .conversation import Attempt, Turn
from .messages import Message, says_something
from .tool_outcome import tool_succeeded


def count_attempt(attempt: Attempt) -> Counts:
    """The counts of an attempt so far.

    A turn has reasoning where its answer has a non-blank one. A tool call without a result is in `count`
    only. Names of tools that do not exist are counted as the model wrote them.
    """
    tools: dict[str, tuple[int, int, int]] = {}
    thought: int | None = None
    reasoned = spoken = 0
    if attempt.own is not None:
        answers = agent_answers(attempt)
        _count_told_tools(agent_messages(attempt), tools)
    else:
        answers = attempt.answers()
        for turn, answer in zip(attempt.answered_turns, answers, strict=True):
            _count_tools(turn, answer, tools)
    for answer in answers:
        spoken += says_something(answer)
        reasoned += bool(answer.reasoning and answer.reasoning.strip())
        tokens = reasoning_tokens(answer.usage_raw)
        if tokens is not None:
            thought = (thought or 0) + tokens
    return Counts(attempt.api_calls, reasoned, spoken - reasoned, thought, tools)


def _count_told_tools(messages: list[Message], tools: dict[str, tuple[int, int, int]]) -> None:
    """The tools of a conversation that evrun did not lead: results are paired with calls by their ids."""
    results = {one.tool_call_id: tool_succeeded(one.content) for one in messages if one.role == "tool"}
    for call in (call for message in messages for call in message.tool_calls):
        count, success, failure = tools.get(call.name, (0, 0, 0))
        won = results.get(call.id)
        tools[call.name] = (count + 1, success + (won is True), failure + (won is False))


def _count_tools(turn: Turn, answer: Answer, tools: dict[str, tuple[int, int, int]]) -> None:
    for position, call in enumerate(answer.tool_calls):
        count, success, failure = tools.get(call.name, (0, 0, 0))
        result = turn.results.get(position)
        won = result is not None and result.success
        lost = result is not None and not result.success
        tools[call.name] = (count + 1, success + won, failure + lost)


def offered(names: Iterable[str], toolsets: Mapping[str, list[dict[str, Any]]]) -> set[str]:
    """The names of the tools in these toolsets."""
    return {str(tool["name"]) for name in names for tool in toolsets.get(name, ())}


def unknown_calls(attempt: Attempt, counts: Counts, tools: Collection[str]) -> int:
    """How many calls asked for a tool that is not among these; an own agent knows its tools itself."""
    if attempt.own is not None:
        return 0
    return sum(numbers[0] for name, numbers in counts.tools.items() if name not in tools)
