"""The trajectory of an own agent, read off what it asked and was answered. Pure.

evrun did not lead this conversation, so it is told as its last answered request told it: these messages, and
the answer. What requests leave out (a model's reasoning) is put back from the answers that were recorded.
"""

import json
from typing import Any

import msgspec

from .answer import Answer, ToolCall, read_answer
from .answer_responses import part_texts, response_call
from .asking import lenient_messages, row_messages
from .conversation import Attempt
from .exchanges import Exchange, Request
from .jsontext import clean_text
from .messages import Message, attempt_messages, says_something

CHATS = ("chat/completions", "responses")
"""The paths whose answers are turns of a conversation."""

_Spoken = tuple[str, tuple[tuple[str, str], ...]]


def agent_messages(attempt: Attempt) -> list[Message]:
    """The conversation of an own agent's attempt so far, system and user messages included."""
    if attempt.own is None:
        return []
    requests = attempt.own.requests()
    last = _last_chat(attempt.own.made)
    if last is None:
        asked = [one for one in attempt.own.made if one.asked.path in CHATS]
        return _asked(asked[-1], requests, attempt) if asked else []
    answer = read_answer(last.body or b"")
    messages = _with_reasoning(_asked(last, requests, attempt), agent_answers(attempt))
    return [*messages, *([_said(answer)] if says_something(answer) else [])]


def conversation_messages(row: dict[str, Any], settings: dict[str, Any], attempt: Attempt) -> list[Message]:
    """All messages of an attempt: what its row asks and it said; of an own agent, what it says of both.

    Raises:
        ValueError: as `row_messages`.
    """
    if attempt.own is not None and (told := agent_messages(attempt)):
        return told
    return row_messages(row, settings) + attempt_messages(attempt)


def last_answer(attempt: Attempt) -> Answer | None:
    """The answer with which an own agent's conversation ends; null where it has none."""
    last = None if attempt.own is None else _last_chat(attempt.own.made)
    return None if last is None else read_answer(last.body or b"")


def agent_tools(attempt: Attempt) -> list[dict[str, Any]]:
    """The tools that an own agent offered with its last answered request: name, description, parameters."""
    last = None if attempt.own is None else _last_chat(attempt.own.made)
    if attempt.own is None or last is None:
        return []
    tools = attempt.own.requests()[last.call].get("tools")
    return [_definition(tool) for tool in tools if isinstance(tool, dict)] if isinstance(tools, list) else []


def agent_answers(attempt: Attempt) -> list[Answer]:
    """Every answer that an own agent got in a conversation, in the order in which they were asked for."""
    made = [] if attempt.own is None else attempt.own.made
    return [read_answer(one.body) for one in made if one.body is not None and one.asked.path in CHATS]


def _last_chat(made: list[Exchange]) -> Exchange | None:
    answered = (one for one in reversed(made) if one.body is not None and one.asked.path in CHATS)
    return next(answered, None)


def _said(answer: Answer) -> Message:
    return Message("assistant", answer.text, answer.reasoning, answer.tool_calls)


def _with_reasoning(messages: list[Message], answers: list[Answer]) -> list[Message]:
    thoughts: dict[_Spoken, str] = {
        _spoken(_said(answer)): answer.reasoning for answer in answers if answer.reasoning
    }
    return [
        msgspec.structs.replace(message, reasoning=thoughts[_spoken(message)])
        if message.role == "assistant" and not message.reasoning and _spoken(message) in thoughts
        else message
        for message in messages
    ]


def _spoken(message: Message) -> _Spoken:
    """What an answer and its copy in a later request have in common."""
    return message.content.strip(), tuple((call.id, call.name) for call in message.tool_calls)


def _asked(exchange: Exchange, requests: dict[str, Request], attempt: Attempt) -> list[Message]:
    request = requests[exchange.call]
    if exchange.asked.path == "chat/completions":
        return lenient_messages(request.get("messages"))
    return _of_responses(request, requests, attempt)


def _of_responses(request: Request, requests: dict[str, Request], attempt: Attempt) -> list[Message]:
    """The messages of a Responses request; what it continues by an id is looked up among the answers."""
    earlier = _continued(request.get("previous_response_id"), requests, attempt)
    instructions = request.get("instructions")
    if isinstance(instructions, str) and instructions:
        earlier = [Message("system", clean_text(instructions)), *(m for m in earlier if m.role != "system")]
    given = request.get("input")
    items = [{"role": "user", "content": given}] if isinstance(given, str) else given
    return earlier + _of_items(items if isinstance(items, list) else [])


def _continued(identity: Any, requests: dict[str, Request], attempt: Attempt) -> list[Message]:
    if not isinstance(identity, str) or attempt.own is None:
        return []
    for exchange in attempt.own.made:
        if exchange.body is not None and exchange.asked.path == "responses":
            try:
                answered = json.loads(exchange.body)
            except ValueError:
                continue
            if isinstance(answered, dict) and answered.get("id") == identity:
                return [*_asked(exchange, requests, attempt), _said(read_answer(exchange.body))]
    return []


def _of_items(items: list[Any]) -> list[Message]:
    messages: list[Message] = []
    names: dict[str, str] = {}
    for item in items:
        if not isinstance(item, dict):
            continue
        kind = item.get("type", "message")
        if kind == "message":
            messages += lenient_messages([{"role": item.get("role"), "content": _text(item.get("content"))}])
        elif kind == "function_call":
            made = response_call(item)
            name, identity = str(made["function"]["name"]), str(made["id"])
            call = ToolCall(identity, name, str(made["function"]["arguments"] or "{}"))
            names[identity] = name
            if messages and messages[-1].role == "assistant":
                messages[-1] = msgspec.structs.replace(
                    messages[-1], tool_calls=[*messages[-1].tool_calls, call]
                )
            else:
                messages.append(Message("assistant", "", tool_calls=[call]))
        elif kind == "function_call_output":
            identity = str(item.get("call_id"))
            text = clean_text(_text(item.get("output")))
            messages.append(Message("tool", text, tool_call_id=identity, name=names.get(identity, "unknown")))
    return messages


def _text(content: Any) -> str:
    return content if isinstance(content, str) else "".join(part_texts(content))


def _definition(tool: dict[str, Any]) -> dict[str, Any]:
    function = tool.get("function")
    told = function if isinstance(function, dict) else tool
    return {
        "name": str(told.get("name") or tool.get("type") or ""),
        "description": str(told.get("description") or ""),
        "parameters": told.get("parameters") or {},
    }
