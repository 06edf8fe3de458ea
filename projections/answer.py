"""What a model said: the answer in a response body, whatever dialect it is written in.

Nothing here raises: a body that is no usable answer gives an `Answer` whose `problem` says why. Success needs
positive evidence, so a missing or unknown finish reason is a problem too.
"""

from functools import lru_cache
from typing import Any

import msgspec

from eventlog.events import Usage

from .answer_anthropic import as_choice, is_anthropic, sent_back
from .answer_responses import is_embedding, is_response, response_choice
from .jsontext import loads_lenient
from .reasoning import native_reasoning, split_thinking, words

# What providers call the end of an answer, and what it is called here.
FINISH_REASONS = {
    "stop": "stop",
    "end": "stop",
    "end_turn": "stop",
    "eos": "stop",
    "eos_token": "stop",
    "stop_sequence": "stop",
    "length": "length",
    "max_tokens": "length",
    "max_output_tokens": "length",
    "model_length": "length",
    "tool_calls": "tool_calls",
    "tool_use": "tool_calls",
    "function_call": "function_call",
    "content_filter": "content_filter",
}

_LARGEST_COUNT = 2**63 - 1


class ToolCall(msgspec.Struct, gc=False):
    """A tool call as the model wrote it; `arguments` is its raw text, which may be no JSON at all.

    `id` is empty where the provider sent none, until the turn it stands in gives it one.
    """

    id: str
    name: str
    arguments: str


class Answer(msgspec.Struct, gc=False):
    """An answer, read.

    `text` has its think blocks taken out, which are in `reasoning` (null where there was none).
    `finish_reason` is in OpenAI's spelling where it is known, else verbatim. `problem` is null for a usable
    answer, else plain words for why it is none. `blocks` are the parts of an answer in Anthropic's dialect as
    they came (null in the other one): the next request has to hold them.
    """

    text: str = ""
    reasoning: str | None = None
    tool_calls: list[ToolCall] = []
    finish_reason: str | None = None
    usage_raw: dict[str, Any] | None = None
    problem: str | None = None
    blocks: list[dict[str, Any]] | None = None


def parse_answer(body: bytes) -> Answer:
    """The answer in a response body. Never raises.

    Lone surrogates (a JSON escape can spell them) come out as U+FFFD; the raw body in the log keeps them.
    """
    if not body.strip():
        return Answer(problem="the body is empty")
    try:
        value = loads_lenient(body)
    except ValueError:
        return Answer(problem=_not_json(body))
    if not isinstance(value, dict):
        return Answer(problem=f"the body is a JSON {_kind(value)}, expected an object")
    usage = value.get("usage")
    try:
        answer = _read_object(value)
    except RecursionError:
        return Answer(problem="the answer's JSON is nested too deeply to be read")
    answer.usage_raw = usage if isinstance(usage, dict) else None
    if answer.usage_raw is not None and is_embedding(value):
        # They have no output, and most endpoints do not say so.
        answer.usage_raw = {"completion_tokens": 0, **answer.usage_raw}
    return answer


def read_answer(body: bytes) -> Answer:
    """As `parse_answer`, but a body is parsed once while it passes from decision to fold to view.

    What comes back is shared, so nobody may change it. Large bodies are not remembered.
    """
    return _remembered(body) if len(body) <= _REMEMBERED_BYTES else parse_answer(body)


_REMEMBERED_BYTES = 16 << 10
_remembered = lru_cache(maxsize=128)(parse_answer)


def normalise_usage(usage_raw: object) -> Usage:
    """Token counts under our names; null where they are not reported or no counts (junk, negative).

    `input_tokens` includes cached ones: where a provider reports them apart (Anthropic), they are added. So
    does `output_tokens` reasoning: where it stands beside the output (Gemini, xAI) the total shows it.
    """
    usage = usage_raw if isinstance(usage_raw, dict) else {}
    prompt = _details(usage, "prompt_tokens_details", "input_tokens_details", "promptTokensDetails")
    cached = _count(prompt, "cached_tokens", "cachedTokens", "cache_read") if prompt else None
    if cached is None:
        cached = _count(usage, *_CACHED_NAMES)
    reasoning = reasoning_tokens(usage)
    given = _input_tokens(usage)
    return Usage(given, cached, _output_tokens(usage, given, reasoning), reasoning)


def reasoning_tokens(usage_raw: object) -> int | None:
    """The reasoning tokens of `normalise_usage`, alone."""
    usage = usage_raw if isinstance(usage_raw, dict) else {}
    completion = _details(usage, "completion_tokens_details", "output_tokens_details")
    found = _count(completion, "reasoning_tokens", "reasoningTokens", "reasoning") if completion else None
    return _count(usage, *_REASONING_NAMES) if found is None else found


_INPUT_NAMES = (
    "prompt_tokens",
    "promptTokens",
    "prompt_token_count",
    "promptTokenCount",
    "prompt_eval_count",
)
_OUTPUT_NAMES = (
    "completion_tokens",
    "output_tokens",
    "completionTokens",
    "outputTokens",
    "candidates_token_count",
    "candidatesTokenCount",
    "eval_count",
)
_TOTAL_NAMES = ("total_tokens", "totalTokens", "total_token_count", "totalTokenCount")
_CACHED_NAMES = (
    "cached_tokens",
    "cached_input_tokens",
    "cache_read_input_tokens",
    "prompt_cache_hit_tokens",
    "cachedContentTokenCount",
)
_REASONING_NAMES = ("reasoning_tokens", "reasoningTokens", "thoughts_token_count", "thoughtsTokenCount")


def _read_object(value: dict[str, Any]) -> Answer:
    """The answer of a response object, without its usage."""
    error = value.get("error")
    if error is not None:
        return Answer(problem=f"the endpoint reported an error: {_error_words(error)}")
    if is_anthropic(value):
        choice = as_choice(value)
        answer = _read_message(choice["message"], choice["finish_reason"])
        answer.blocks = sent_back(value)
        return answer
    choices = [response_choice(value)] if is_response(value) else value.get("choices")
    if not isinstance(choices, list) or not choices:
        if is_embedding(value):
            return Answer(finish_reason="stop")
        return Answer(problem="the response has no choices")
    choice = choices[0]
    if not isinstance(choice, dict):
        return Answer(problem=f"the first choice is a JSON {_kind(choice)}, expected an object")
    if choice.get("error") is not None:
        return Answer(problem=f"the endpoint reported an error: {_error_words(choice['error'])}")
    message = choice.get("message")
    if not isinstance(message, dict):
        return Answer(problem="the first choice has no message")
    return _read_message(message, choice.get("finish_reason"))


def _read_message(message: dict[str, Any], finish: object) -> Answer:
    text, part_reasoning = _content(message.get("content"))
    native = native_reasoning(message) or part_reasoning
    text, reasoning = split_thinking(text, native)
    reason = None
    if isinstance(finish, str) and finish:
        reason = FINISH_REASONS.get(finish.lower(), finish)
    answer = Answer(text, reasoning, _tool_calls(message), reason)
    answer.problem = _problem(answer, finish, message.get("refusal"))
    return answer


def _content(content: object) -> tuple[str, str | None]:
    """Text and reasoning of a content that is a string, null, or a list of parts."""
    if isinstance(content, str):
        return content, None
    if not isinstance(content, list):
        return "", None
    texts: list[str] = []
    thoughts: list[str] = []
    for part in content:
        if isinstance(part, str):
            texts.append(part)
        elif isinstance(part, dict) and str(part.get("type")) in {"thinking", "reasoning"}:
            thoughts.append(words(part) or "")
        elif isinstance(part, dict):
            text = part.get("text")
            texts.append(text if isinstance(text, str) else "")
    reasoning = "\n".join(filter(None, thoughts))
    return "".join(texts), reasoning or None


def _tool_calls(message: dict[str, Any]) -> list[ToolCall]:
    raw = message.get("tool_calls")
    calls = [_tool_call(item) for item in raw if isinstance(item, dict)] if isinstance(raw, list) else []
    legacy = message.get("function_call")
    if not calls and isinstance(legacy, dict):
        calls.append(_tool_call({"function": legacy}))
    return calls


def _tool_call(item: dict[str, Any]) -> ToolCall:
    function = item.get("function")
    if not isinstance(function, dict):
        # A few local servers leave the wrapper out.
        function = item
    name = function.get("name")
    identity = item.get("id")
    return ToolCall(
        id="" if identity is None else str(identity),
        name=name if isinstance(name, str) else "",
        arguments=_arguments(function.get("arguments")),
    )


def _arguments(value: object) -> str:
    """Raw argument text. Blank or missing means no arguments; some servers send an object, not its text."""
    if isinstance(value, str):
        return value if value.strip() else "{}"
    if value is None:
        return "{}"
    return msgspec.json.encode(value).decode()


def _problem(answer: Answer, finish: object, refusal: object) -> str | None:
    if isinstance(refusal, str) and refusal.strip() and not answer.text.strip():
        return f"the model refused: {refusal[:500]}"
    if finish is None or finish == "":
        return "the answer has no finish_reason, so nothing says that it is whole"
    if answer.finish_reason not in _KNOWN_REASONS:
        return f"unknown finish_reason: {str(finish)[:200]}"
    if answer.finish_reason == "content_filter":
        return "the provider's content filter stopped the answer"
    if answer.text.strip() or answer.tool_calls:
        return None
    if answer.finish_reason == "length":
        return "the token limit was reached before any text or tool call"
    return "the answer has neither text nor tool calls"


_KNOWN_REASONS = frozenset(FINISH_REASONS.values())


def _not_json(body: bytes) -> str:
    start = body.lstrip()[:80].decode("utf-8", "replace")
    if start.startswith("<"):
        return f"the body is an HTML or XML page, not JSON: {start!r}"
    if start.startswith(("{", "[")):
        return f"the body begins like JSON but cannot be read, perhaps it was cut: {start!r}"
    return f"the body is not JSON: {start!r}"


def _error_words(error: object) -> str:
    if isinstance(error, dict):
        message = error.get("message")
        if isinstance(message, str) and message:
            return message[:2000]
    if isinstance(error, str):
        return error[:2000]
    return msgspec.json.encode(error).decode()[:2000]


def _kind(value: object) -> str:
    names = {list: "array", str: "string", bool: "boolean", int: "number", float: "number"}
    return "null" if value is None else names.get(type(value), "object")


def _details(usage: dict[str, Any], *names: str) -> dict[str, Any]:
    for name in names:
        value = usage.get(name)
        if isinstance(value, dict):
            return value
    return {}


def _count(usage: dict[str, Any], *names: str) -> int | None:
    """The first of the named values that is a count: a whole number from 0 that fits in 64 bits."""
    for name in names:
        value = usage.get(name)
        if value is None:
            continue
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if type(value) is int and 0 <= value <= _LARGEST_COUNT:
            return value
    return None


def _output_tokens(usage: dict[str, Any], given: int | None, reasoning: int | None) -> int | None:
    count, total = _count(usage, *_OUTPUT_NAMES), _count(usage, *_TOTAL_NAMES)
    if count is None or given is None or total is None:
        return count
    beside = total - given - count
    return count + beside if beside > 0 and reasoning in {None, beside} else count


def _input_tokens(usage: dict[str, Any]) -> int | None:
    count = _count(usage, *_INPUT_NAMES)
    if count is not None:
        return count
    count = _count(usage, "input_tokens", "inputTokens")
    if count is None:
        return None
    read = _count(usage, "cache_read_input_tokens") or 0
    created = _count(usage, "cache_creation_input_tokens") or 0
    return min(count + read + created, _LARGEST_COUNT)
