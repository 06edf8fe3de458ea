"""Answers of OpenAI's Responses dialect, in the shape of a chat completion's choice; and embeddings."""

from typing import Any

_INCOMPLETE = {"max_output_tokens": "length", "content_filter": "content_filter"}


def is_response(value: dict[str, Any]) -> bool:
    """Whether a response object is one of the Responses dialect."""
    return "choices" not in value and isinstance(value.get("output"), list)


def is_embedding(value: dict[str, Any]) -> bool:
    """Whether a response object holds embeddings: an answer without words."""
    data = value.get("data")
    return isinstance(data, list) and bool(data) and isinstance(data[0], dict) and "embedding" in data[0]


def response_choice(value: dict[str, Any]) -> dict[str, Any]:
    """A response object as a choice: its texts follow each other; calls and thoughts are read."""
    items = [item for item in value["output"] if isinstance(item, dict)]
    texts = [
        text for item in items if item.get("type") == "message" for text in part_texts(item.get("content"))
    ]
    thoughts = [thought for item in items if item.get("type") == "reasoning" for thought in _thoughts(item)]
    calls = [response_call(item) for item in items if item.get("type") == "function_call"]
    refusals = [
        str(part.get("refusal"))
        for item in items
        if item.get("type") == "message"
        for part in item.get("content") or ()
        if isinstance(part, dict) and part.get("type") == "refusal"
    ]
    message = {
        "content": "".join(texts),
        "reasoning": "\n".join(thoughts) or None,
        "tool_calls": calls,
        "refusal": refusals[0] if refusals else None,
    }
    return {"message": message, "finish_reason": _finish(value, calls)}


def part_texts(content: object) -> list[str]:
    """The texts of a content that is a string or a list of parts."""
    if isinstance(content, str):
        return [content]
    parts = content if isinstance(content, list) else []
    return [part["text"] for part in parts if isinstance(part, dict) and isinstance(part.get("text"), str)]


def response_call(item: dict[str, Any]) -> dict[str, Any]:
    """A `function_call` item as a tool call."""
    function = {"name": item.get("name"), "arguments": item.get("arguments")}
    return {"id": item.get("call_id") or item.get("id"), "function": function}


def _thoughts(item: dict[str, Any]) -> list[str]:
    return part_texts(item.get("content")) or part_texts(item.get("summary"))


def _finish(value: dict[str, Any], calls: list[dict[str, Any]]) -> str | None:
    status = value.get("status")
    if status == "incomplete":
        details = value.get("incomplete_details")
        reason = details.get("reason") if isinstance(details, dict) else None
        return _INCOMPLETE.get(reason, reason) if isinstance(reason, str) else None
    if status == "completed":
        return "tool_calls" if calls else "stop"
    return status if isinstance(status, str) else None
