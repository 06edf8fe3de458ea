"""The chunks of a streamed chat completion, put together to the completion that was streamed. Pure."""

from typing import Any

_ONCE = frozenset({"role", "type", "id", "index", "object", "format", "signature", "refusal_reason"})
"""Text fields that are said once, or again and again, but never in pieces."""
_APART = frozenset({"tool_calls", "function_call", "index"})


class Completion:
    """A chat completion, growing chunk by chunk.

    `error` is what the endpoint reported within the stream; null where it did not.
    """

    def __init__(self) -> None:
        self._top: dict[str, Any] = {}
        self._choices: dict[int, _Choice] = {}
        self.error: Any = None
        self.ended = False

    def add(self, chunk: dict[str, Any]) -> None:
        """Take one more chunk."""
        if chunk.get("error"):
            self.error = chunk["error"]
        for name, value in chunk.items():
            if name not in {"choices", "error"} and value is not None:
                self._top[name] = value
        choices = chunk.get("choices")
        for place, choice in enumerate(choices if isinstance(choices, list) else []):
            if isinstance(choice, dict):
                index = choice.get("index")
                number = index if isinstance(index, int) else place
                if number not in self._choices:
                    self._choices[number] = _Choice(number)
                self._choices[number].add(choice)

    @property
    def whole(self) -> bool:
        """Whether the answer is all there: it said why it ended, or the stream had its mark of the end."""
        finished = [choice.finished for choice in self._choices.values()]
        return bool(finished) and (self.ended or all(finished))

    @property
    def usage(self) -> Any:
        """What was said about tokens so far; null: nothing."""
        return self._top.get("usage")

    def body(self) -> dict[str, Any]:
        """The completion as it would have come in one piece."""
        choices = [self._choices[index].body() for index in sorted(self._choices)]
        if self.error is not None:
            return {"error": self.error, **({"choices": choices} if choices else {})}
        return {**self._top, "object": "chat.completion", "choices": choices}


class _Choice:
    def __init__(self, index: int) -> None:
        self._top: dict[str, Any] = {"index": index}
        self._message: dict[str, Any] = {"role": "assistant", "content": None}
        self._begun = False
        self._calls = _Calls()

    def add(self, choice: dict[str, Any]) -> None:
        for name, value in choice.items():
            if name in {"index", "delta", "message"} or value is None:
                continue
            self._top[name] = grown(self._top.get(name), value) if name == "logprobs" else value
        delta = choice.get("delta")
        whole = choice.get("message")
        if isinstance(delta, dict) and delta:
            self._take(delta)
        elif isinstance(whole, dict) and not self._begun:
            # A few servers send the message itself at the end, or nothing else.
            self._take(whole)

    def _take(self, delta: dict[str, Any]) -> None:
        for name, value in delta.items():
            if name not in _APART and value is not None:
                self._begun = self._begun or name != "role"
                self._message[name] = value if name in _ONCE else grown(self._message.get(name), value)
        calls = delta.get("tool_calls")
        if isinstance(calls, list):
            self._begun = True
            self._calls.add([call for call in calls if isinstance(call, dict)])
        legacy = delta.get("function_call")
        if isinstance(legacy, dict):
            self._message["function_call"] = _joined_function(self._message.get("function_call"), legacy)

    @property
    def finished(self) -> bool:
        return bool(self._top.get("finish_reason"))

    def body(self) -> dict[str, Any]:
        message = settled(self._message)
        if self._calls.calls:
            message["tool_calls"] = [settled(call) for call in self._calls.calls]
        return {**settled(self._top), "message": message, "finish_reason": self._top.get("finish_reason")}


class _Calls:
    """Tool calls by their index; by their ids where a server counts all of them 0, or none."""

    def __init__(self) -> None:
        self.calls: list[dict[str, Any]] = []
        self._latest: dict[object, int] = {}

    def add(self, pieces: list[dict[str, Any]]) -> None:
        for piece in pieces:
            index = piece.get("index")
            place = self._latest.get(index) if index is not None else self._last()
            if place is None or self._begins_another(self.calls[place], piece):
                place = len(self.calls)
                self.calls.append({})
            self._latest[index] = place
            self._join(self.calls[place], piece)

    def _last(self) -> int | None:
        return len(self.calls) - 1 if self.calls else None

    def _begins_another(self, call: dict[str, Any], piece: dict[str, Any]) -> bool:
        """Another id and a name. Some servers make up a new id for each piece, but send the name once."""
        function = piece.get("function")
        named = isinstance(function, dict) and bool(function.get("name"))
        return named and bool(piece.get("id")) and bool(call.get("id")) and piece["id"] != call["id"]

    def _join(self, call: dict[str, Any], piece: dict[str, Any]) -> None:
        for name, value in piece.items():
            if name == "function" and isinstance(value, dict):
                call["function"] = _joined_function(call.get("function"), value)
            elif name != "index" and value not in (None, "") and not call.get(name):
                call[name] = value


class _Text:
    """A text that comes in pieces: joining them one by one would copy a long one again and again."""

    def __init__(self, first: str) -> None:
        self.pieces = [first]

    def __str__(self) -> str:
        return "".join(self.pieces)


def grown(before: Any, piece: Any) -> Any:
    """A value with its next piece: texts and lists grow (parts by their kind), others are replaced."""
    match before, piece:
        case None, str():
            return _Text(piece)
        case _Text(), str():
            before.pieces.append(piece)
            return before
        case ((None | _Text() | list()), list()):
            return _longer_list(before, piece)
        case list(), str():
            return _longer_list(before, [{"type": "text", "text": piece}] if piece else [])
        case dict(), dict():
            return {**before, **{name: grown(before.get(name), value) for name, value in piece.items()}}
        case _:
            return before if piece is None else piece


def _longer_list(before: Any, pieces: list[Any]) -> list[Any]:
    parts: list[Any] = before if isinstance(before, list) else []
    if isinstance(before, _Text) and str(before):
        parts = [{"type": "text", "text": before}]
    for piece in pieces:
        if parts and _continues(parts[-1], piece):
            _continue(parts[-1], piece)
        elif isinstance(piece, dict):
            begun: dict[str, Any] = {}
            _continue(begun, piece)
            parts.append(begun)
        else:
            parts.append(piece)
    return parts


def _continues(part: Any, piece: Any) -> bool:
    """Whether a part of a list is a piece of the one before: of one kind, and not numbered as another."""
    if not isinstance(part, dict) or not isinstance(piece, dict):
        return False
    kind = piece.get("type")
    same = all(part.get(name) == piece.get(name) for name in ("type", "index"))
    ids = part.get("id"), piece.get("id")
    return kind is not None and same and (None in ids or ids[0] == ids[1])


def _continue(part: dict[str, Any], piece: dict[str, Any]) -> None:
    for name, value in piece.items():
        if name in _ONCE:
            part[name] = value if value is not None else part.get(name)
        else:
            part[name] = grown(part.get(name), value)


def _joined_function(before: Any, piece: dict[str, Any]) -> dict[str, Any]:
    """A function with the next piece of its name and arguments; a name that only comes again is no piece."""
    joined: dict[str, Any] = before if isinstance(before, dict) else {}
    for name, value in piece.items():
        if name == "name" and isinstance(value, str) and str(joined.get("name", "")) == value:
            continue
        joined[name] = grown(joined.get(name), value)
    return joined


def settled(value: Any) -> Any:
    """The value as plain JSON types."""
    if isinstance(value, _Text):
        return str(value)
    if isinstance(value, dict):
        return {name: settled(field) for name, field in value.items()}
    if isinstance(value, list):
        return [settled(item) for item in value]
    return value
