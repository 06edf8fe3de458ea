"""A whole chat completion told as a stream of chunks. Pure: the same completion gives the same bytes."""

from collections.abc import Iterator
from typing import Any

from .endpoint_json import NotJson, read_json, write_json

_PIECES = 4
# What every chunk repeats; any other field of the completion is told once, with its end.
_EVERYWHERE = ("id", "created", "model", "provider", "service_tier", "system_fingerprint")
_OWN = frozenset({*_EVERYWHERE, "object", "choices", "usage"})
_REASONING = ("reasoning", "reasoning_content", "thinking")
_DONE = b"data: [DONE]\n\n"


def chat_stream(whole: bytes, *, include_usage: bool) -> bytes:
    """The server-sent events of a chat completion: usage is among them only if it was asked for.

    Raises:
        NotJson: this is no chat completion.
    """
    completion = read_json(whole)
    choices = completion.get("choices") if isinstance(completion, dict) else None
    if not isinstance(choices, list):
        raise NotJson("it has no list of choices")
    base = {name: completion[name] for name in _EVERYWHERE if name in completion}
    base = {**base, "object": "chat.completion.chunk"}
    quiet = {"usage": None} if include_usage else {}
    rest = {name: value for name, value in completion.items() if name not in _OWN}
    told = [told for place, choice in enumerate(choices) for told in _choice(place, choice)]
    chunks = [{**base, "choices": [one], **quiet} for one in told] or [{**base, "choices": [], **quiet}]
    chunks[-1] |= rest
    usage = completion.get("usage")
    if include_usage and usage is not None:
        chunks.append({**base, "choices": [], "usage": usage})
    return b"".join(b"data: " + write_json(chunk) + b"\n\n" for chunk in chunks) + _DONE


def pieces(text: str) -> list[str]:
    """A text in a few pieces, none of them empty."""
    step = max(1, -(-len(text) // _PIECES))
    return [text[start : start + step] for start in range(0, len(text), step)]


def _choice(place: int, choice: Any) -> Iterator[dict[str, Any]]:
    message = choice.get("message") if isinstance(choice, dict) else None
    if not isinstance(message, dict):
        raise NotJson(f"choice {place} has no message")
    index = choice.get("index", place)
    # Log probabilities go with the first words, or with the end where there are none.
    logprobs = choice.get("logprobs")
    for delta in _deltas(message):
        told = {"index": index, "delta": delta, "logprobs": None, "finish_reason": None}
        if logprobs is not None and (delta.get("content") or delta.get("refusal")):
            told["logprobs"], logprobs = logprobs, None
        yield told
    rest = {name: value for name, value in choice.items() if name not in ("message", "index")}
    yield {"index": index, "delta": {}, "finish_reason": None, **rest, "logprobs": logprobs}


def _deltas(message: dict[str, Any]) -> Iterator[dict[str, Any]]:
    left = dict(message)
    calls = left.pop("tool_calls", None) or []
    content = left.pop("content", None)
    yield {"role": left.pop("role", "assistant"), "content": "" if isinstance(content, str) else None}
    for name in _REASONING:
        if isinstance(left.get(name), str):
            yield from ({name: piece} for piece in pieces(left.pop(name)))
    if isinstance(content, str):
        yield from ({"content": piece} for piece in pieces(content))
    elif content is not None:
        yield {"content": content}
    if isinstance(left.get("refusal"), str):
        yield from ({"refusal": piece} for piece in pieces(left.pop("refusal")))
    rest = {name: value for name, value in left.items() if value is not None}
    if rest:
        yield rest
    for index, call in enumerate(calls):
        yield from ({"tool_calls": [part]} for part in _call(index, call))


def _call(index: int, call: Any) -> Iterator[dict[str, Any]]:
    if not isinstance(call, dict):
        raise NotJson(f"tool call {index} is no object")
    function = call.get("function")
    arguments = function.get("arguments") if isinstance(function, dict) else None
    if not isinstance(function, dict) or not isinstance(arguments, str):
        yield {**call, "index": index}
        return
    yield {**call, "index": index, "function": {**function, "arguments": ""}}
    for piece in pieces(arguments):
        yield {"index": index, "function": {"arguments": piece}}
