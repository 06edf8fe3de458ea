"""Anthropic's dialect: the same answers as messages, and errors in its shape."""

from typing import Any

import msgspec

_REASONS = {"stop": "end_turn", "tool_calls": "tool_use", "length": "max_tokens", "content_filter": "refusal"}
_ERRORS = {
    400: "invalid_request_error", 401: "authentication_error", 402: "billing_error", 403: "permission_error",
    404: "not_found_error", 413: "request_too_large", 429: "rate_limit_error", 529: "overloaded_error",
}  # fmt: skip


def message_of(completion: bytes) -> bytes:
    """A chat completion as a message of the dialect."""
    whole = msgspec.json.decode(completion)
    choice = whole["choices"][0]
    said = choice["message"]
    content = [*_thoughts(said), *_text(said), *map(_use, said.get("tool_calls") or [])]
    reason = choice["finish_reason"]
    message = {
        "id": "msg_" + whole["id"].removeprefix("chatcmpl-"),
        "type": "message",
        "role": "assistant",
        "model": whole["model"],
        "content": content,
        "stop_reason": _REASONS.get(reason, reason),
        "stop_sequence": None,
    }
    if "usage" in whole:
        message["usage"] = _usage(whole["usage"])
    return msgspec.json.encode(message)


def error_of(status: int, given: dict[str, Any]) -> bytes:
    """An error in the dialect's envelope; its kind by the status, unless given."""
    error = {"type": _ERRORS.get(status, "api_error"), **given}
    return msgspec.json.encode({"type": "error", "error": error, "request_id": "req_test"})


def events_of(message: bytes, size: int) -> list[dict[str, Any]]:
    """A message as the events of its stream; texts in pieces of `size` characters."""
    whole = msgspec.json.decode(message)
    blocks, usage = whole["content"], whole.get("usage") or {}
    first = {**usage, "output_tokens": 1} if usage else {}
    begun = {**whole, "content": [], "stop_reason": None, **({"usage": first} if usage else {})}
    events: list[dict[str, Any]] = [{"type": "message_start", "message": begun}, {"type": "ping"}]
    for index, block in enumerate(blocks):
        events += _block_events(index, block, size)
    end = {"stop_reason": whole["stop_reason"], "stop_sequence": None}
    counted = {"usage": {"output_tokens": usage["output_tokens"]}} if usage else {}
    return [*events, {"type": "message_delta", "delta": end, **counted}, {"type": "message_stop"}]


def _thoughts(said: dict[str, Any]) -> list[dict[str, Any]]:
    thought = said.get("reasoning")
    return (
        [{"type": "thinking", "thinking": thought, "signature": f"signed {len(thought)}"}] if thought else []
    )


def _text(said: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"type": "text", "text": said["content"]}] if said.get("content") else []


def _use(call: dict[str, Any]) -> dict[str, Any]:
    arguments = msgspec.json.decode(call["function"]["arguments"])
    return {"type": "tool_use", "id": call["id"], "name": call["function"]["name"], "input": arguments}


def _usage(usage: dict[str, Any] | None) -> dict[str, Any]:
    """Its own counts; those that a rule gave in its words stay."""
    if usage is None or "input_tokens" in usage:
        return usage or {}
    return {
        "input_tokens": usage.get("prompt_tokens", 0),
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": 0,
        "output_tokens": usage.get("completion_tokens", 0),
    }


def _block_events(index: int, block: dict[str, Any], size: int) -> list[dict[str, Any]]:
    kind = block["type"]
    if kind == "tool_use":
        begun, text, delta = (
            {**block, "input": {}},
            msgspec.json.encode(block["input"]).decode(),
            "partial_json",
        )
        name = "input_json_delta"
    else:
        begun, text, delta = {**block, kind: ""}, block[kind], kind
        name = f"{kind}_delta"
    if "signature" in begun:
        begun["signature"] = ""
    pieces = [text[at : at + size] for at in range(0, len(text), size)]
    deltas: list[dict[str, Any]] = [{"type": name, delta: piece} for piece in pieces]
    if "signature" in block:
        deltas.append({"type": "signature_delta", "signature": block["signature"]})
    return [
        {"type": "content_block_start", "index": index, "content_block": begun},
        *({"type": "content_block_delta", "index": index, "delta": one} for one in deltas),
        {"type": "content_block_stop", "index": index},
    ]
