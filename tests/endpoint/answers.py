"""What the endpoint answers: a function of the request's messages and the rule in force."""

import hashlib
from typing import Any

import msgspec

_encode = msgspec.json.Encoder().encode


class Request(msgspec.Struct, gc=False):
    """One POST, read."""

    body: bytes
    digest: str
    model: str
    prompt: str
    turn: int
    input_tokens: int
    max_tokens: int | None
    stream: bool
    copies: int
    usage: bool = False


class _Body(msgspec.Struct, gc=False):
    messages: list[dict[str, Any]] = []
    model: str = ""
    max_tokens: int | None = None
    max_completion_tokens: int | None = None
    stream: bool | None = None
    stream_options: dict[str, Any] | None = None
    n: int | None = None
    system: Any = None


class Answered(msgspec.Struct, gc=False):
    """An answer's body and what it bills."""

    body: bytes
    output_tokens: int


_decode = msgspec.json.Decoder(_Body).decode


def read_request(body: bytes) -> Request:
    """The parts of a request's body that the endpoint looks at; empty where it is no chat request."""
    digest = hashlib.sha256(body).hexdigest()
    try:
        parsed = _decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return Request(body, digest, "", "", 1, 0, None, stream=False, copies=1)
    prompt, turn, words = "", 1, len(_text_of(parsed.system).split())
    for message in parsed.messages:
        text = _text_of(message.get("content"))
        words += len(text.split())
        if message.get("role") == "user" and not _is_results(message.get("content")):
            prompt, turn = text, 1
        elif message.get("role") == "assistant":
            turn += 1
    limit = parsed.max_tokens if parsed.max_completion_tokens is None else parsed.max_completion_tokens
    options = parsed.stream_options or {}
    return Request(
        body,
        digest,
        parsed.model,
        prompt,
        turn,
        max(1, words),
        limit,
        bool(parsed.stream),
        parsed.n or 1,
        bool(options.get("include_usage")),
    )


def _is_results(content: Any) -> bool:
    """Whether a user turn only gives back what tools said, as Anthropic's dialect has it."""
    parts = content if isinstance(content, list) else []
    return bool(parts) and all(isinstance(part, dict) and part.get("type") == "tool_result" for part in parts)


def _text_of(content: Any) -> str:
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return " ".join(
            _text_of(part.get("content")) if part.get("type") == "tool_result" else part.get("text", "")
            for part in content
            if isinstance(part, dict)
        )
    return ""


def answer(request: Request, then: dict[str, Any], defaults: dict[str, Any]) -> Answered:
    """The chat completion for a request: a function of its arguments and nothing else."""
    text = _filled(then.get("text", defaults["text"]), request)
    reasoning = _filled(then.get("reasoning", defaults["reasoning"]), request)
    message: dict[str, Any] = {"role": "assistant", "content": text}
    finish = "stop"
    calls = then.get("tool_calls")
    if calls:
        message["tool_calls"] = [_tool_call(request, place, call) for place, call in enumerate(calls)]
        message["content"] = then.get("text")
        finish = "tool_calls"
    thought = _count(reasoning)
    spoken = _count(message["content"] or "") + sum(_count(str(call)) for call in calls or ())
    spoken, finish = _cut(message, request.max_tokens, thought, spoken, finish)
    if reasoning:
        _place(message, reasoning, then.get("reasoning_field", defaults["reasoning_field"]))
    output = max(1, spoken + thought) * request.copies * then.get("usage_factor", 1)
    usage, output = _usage(request, then, thought, output)
    finish = then.get("finish_reason", finish)
    whole: dict[str, Any] = {
        "id": "chatcmpl-" + request.digest[:24],
        "object": "chat.completion",
        "created": 1700000000,
        "model": request.model,
        "choices": [
            {"index": index, "message": message, "finish_reason": finish} for index in range(request.copies)
        ],
    }
    if usage is not None:
        whole["usage"] = usage
    return Answered(_encode(whole), output)


def _usage(
    request: Request, then: dict[str, Any], thought: int, output: int
) -> tuple[dict[str, Any] | None, int]:
    if "usage" in then:
        given = then["usage"]
        return given, output if given is None else int(given.get("completion_tokens", output))
    usage = {
        "prompt_tokens": request.input_tokens,
        "completion_tokens": output,
        "total_tokens": request.input_tokens + output,
        "completion_tokens_details": {"reasoning_tokens": thought},
    }
    return usage, output


def _cut(
    message: dict[str, Any], limit: int | None, thought: int, spoken: int, finish: str
) -> tuple[int, str]:
    if limit is None or spoken + thought <= limit or "tool_calls" in message:
        return spoken, finish
    keep = max(0, limit - thought)
    message["content"] = " ".join(message["content"].split()[:keep])
    return keep, "length"


def _filled(text: str | None, request: Request) -> str:
    if not text:
        return ""
    return text.replace("{prompt}", request.prompt).replace("{turn}", str(request.turn))


def _count(text: str) -> int:
    return len(text.split())


def _tool_call(request: Request, place: int, call: dict[str, Any]) -> dict[str, Any]:
    arguments = call.get("arguments", {})
    if not isinstance(arguments, str):
        arguments = _encode(arguments).decode()
    name = call.get("id", f"call_{request.digest[:8]}_{place}")
    return {"id": name, "type": "function", "function": {"name": call["name"], "arguments": arguments}}


def _place(message: dict[str, Any], reasoning: str, field: str) -> None:
    if field == "tags":
        message["content"] = f"<think>{reasoning}</think>{message['content'] or ''}"
    elif field == "reasoning_details":
        message[field] = [{"type": "reasoning.text", "text": reasoning}]
    else:
        message[field] = reasoning
