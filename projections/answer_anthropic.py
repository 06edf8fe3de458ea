"""Messages of Anthropic's dialect, in the shape of the other one: a choice with a message and a reason."""

from typing import Any

# What the dialect calls the end of an answer, where the words are not in answer.FINISH_REASONS.
_REASONS = {"refusal": "content_filter", "model_context_window_exceeded": "length"}


def is_anthropic(value: dict[str, Any]) -> bool:
    """Whether a response object is a message of this dialect."""
    return (
        value.get("type") == "message" and "choices" not in value and isinstance(value.get("content"), list)
    )


def as_choice(value: dict[str, Any]) -> dict[str, Any]:
    """A response object as a choice of a chat completion.

    Text blocks follow each other in one text, as the blocks of one answer do. Blocks of other kinds (of tools
    that run at the provider) say nothing here; the body in the log keeps them.
    """
    blocks = [block for block in value["content"] if isinstance(block, dict)]
    text = "".join(str(block.get("text") or "") for block in blocks if block.get("type") == "text")
    thoughts = [block.get("thinking") for block in blocks if block.get("type") == "thinking"]
    calls = [_call(block) for block in blocks if block.get("type") == "tool_use"]
    message = {"content": text, "thinking": thoughts, "tool_calls": calls}
    reason = value.get("stop_reason")
    return {"message": message, "finish_reason": _REASONS.get(reason, reason) if reason else None}


def sent_back(value: dict[str, Any]) -> list[dict[str, Any]]:
    """The blocks of an answer as the next request must hold them: thoughts are signed, and missed if gone."""
    return [block for block in value["content"] if isinstance(block, dict)]


def _call(block: dict[str, Any]) -> dict[str, Any]:
    return {"id": block.get("id"), "function": {"name": block.get("name"), "arguments": block.get("input")}}
