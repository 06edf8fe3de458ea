"""OpenAI's Responses dialect and embeddings: read as a chat, answered in their own shapes."""

import hashlib
from typing import Any

import msgspec


def as_chat(path: str, body: bytes) -> bytes:
    """A request of these dialects as a chat request, for rules to look at."""
    try:
        given = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return body
    asked = given.get("input", "")
    if path.endswith("/embeddings"):
        texts = asked if isinstance(asked, list) else [asked]
        return msgspec.json.encode(
            {**given, "messages": [{"role": "user", "content": " ".join(map(str, texts))}]}
        )
    system = given.get("instructions")
    messages = [{"role": "system", "content": system}] if system else []
    items = [{"role": "user", "content": asked}] if isinstance(asked, str) else asked
    for item in items:
        message = _message(item)
        # A text and its calls are items of their own here, and one answer.
        if message["role"] != "assistant" or messages[-1:] == [] or messages[-1]["role"] != "assistant":
            messages.append(message)
    return msgspec.json.encode({**given, "messages": messages, "max_tokens": given.get("max_output_tokens")})


def _message(item: dict[str, Any]) -> dict[str, Any]:
    match item.get("type", "message"):
        case "function_call":
            return {"role": "assistant", "content": None}
        case "function_call_output":
            return {"role": "tool", "content": item.get("output")}
        case _:
            return {"role": item.get("role"), "content": item.get("content")}


def response_of(completion: bytes) -> bytes:
    """A chat completion as a response of the dialect."""
    whole = msgspec.json.decode(completion)
    choice = whole["choices"][0]
    said, name = choice["message"], whole["id"].removeprefix("chatcmpl-")
    output: list[dict[str, Any]] = []
    if said.get("reasoning"):
        summary = [{"type": "summary_text", "text": said["reasoning"]}]
        output.append({"type": "reasoning", "id": f"rs_{name}", "summary": summary})
    if said.get("content"):
        content = [{"type": "output_text", "text": said["content"], "annotations": []}]
        about = {"type": "message", "id": f"msg_{name}", "role": "assistant", "status": "completed"}
        output.append({**about, "content": content})
    for place, call in enumerate(said.get("tool_calls") or []):
        about = {"type": "function_call", "id": f"fc_{name}_{place}", "status": "completed"}
        output.append({**about, "call_id": call["id"], **call["function"]})
    cut = choice["finish_reason"] == "length"
    response = {
        "id": f"resp_{name}", "object": "response", "created_at": 1700000000, "model": whole["model"],
        "status": "incomplete" if cut else "completed", "output": output, "tools": [], "tool_choice": "auto",
        "incomplete_details": {"reason": "max_output_tokens"} if cut else None, "error": None,
        "parallel_tool_calls": True,
    }  # fmt: skip
    usage = whole.get("usage")
    if usage:
        response["usage"] = {
            "input_tokens": usage["prompt_tokens"],
            "output_tokens": usage["completion_tokens"],
            "total_tokens": usage["prompt_tokens"] + usage["completion_tokens"],
        }
    return msgspec.json.encode(response)


def embeddings_of(body: bytes, input_tokens: int) -> bytes:
    """Four numbers for each text, made of its digest."""
    asked = msgspec.json.decode(body)
    texts = asked["input"] if isinstance(asked["input"], list) else [asked["input"]]
    data = [
        {"object": "embedding", "index": place, "embedding": _numbers(str(text))}
        for place, text in enumerate(texts)
    ]
    usage = {"prompt_tokens": input_tokens, "total_tokens": input_tokens}
    return msgspec.json.encode({"object": "list", "model": asked["model"], "data": data, "usage": usage})


def _numbers(text: str) -> list[float]:
    return [byte / 256 for byte in hashlib.sha256(text.encode()).digest()[:4]]
