"""The events of a streamed Anthropic message, put together to the message that was streamed. Pure."""

import json
from typing import Any

from .llm_stream_openai import grown, settled

KINDS = frozenset(
    {
        "message_start", "content_block_start", "content_block_delta", "content_block_stop", "message_delta",
        "message_stop", "ping", "error",
    }
)  # fmt: skip
_TEXTS = {"text_delta": "text", "thinking_delta": "thinking"}


class Message:
    """A message, growing event by event; `error` is what the endpoint reported within the stream."""

    def __init__(self) -> None:
        self._top: dict[str, Any] = {}
        self._blocks: dict[int, dict[str, Any]] = {}
        self._inputs: dict[int, Any] = {}
        self.error: Any = None
        self.ended = False

    def add(self, event: dict[str, Any]) -> None:
        """Take one more event; one of an unknown kind changes nothing, as the API asks of its clients."""
        index = event.get("index")
        match event.get("type"):
            case "message_start" if isinstance(event.get("message"), dict):
                self._top = dict(event["message"])
            case "content_block_start" if isinstance(event.get("content_block"), dict):
                self._blocks[int(index or 0)] = _begun(event["content_block"])
            case "content_block_delta" if isinstance(event.get("delta"), dict):
                self._grow(int(index or 0), event["delta"])
            case "message_delta":
                self._top |= _fields(event.get("delta"))
                self._top["usage"] = {**_fields(self._top.get("usage")), **_fields(event.get("usage"))}
            case "message_stop":
                self.ended = True
            case "error":
                self.error = event.get("error") or "an error without a word"
            case _:
                pass

    def _grow(self, index: int, delta: dict[str, Any]) -> None:
        block = self._blocks.setdefault(index, {})
        kind = delta.get("type")
        if kind in _TEXTS:
            name = _TEXTS[kind]
            block[name] = grown(block.get(name), delta.get(name))
        elif kind == "input_json_delta":
            self._inputs[index] = grown(self._inputs.get(index), delta.get("partial_json"))
        elif kind == "citations_delta":
            block["citations"] = [*(block.get("citations") or []), delta.get("citation")]
        elif kind == "signature_delta":
            block["signature"] = delta.get("signature")

    @property
    def whole(self) -> bool:
        """Whether the message is all there: it said why it stopped, or that it did."""
        return bool(self._top) and (self.ended or bool(self._top.get("stop_reason")))

    @property
    def usage(self) -> Any:
        """What was said about tokens so far; null: nothing."""
        return self._top.get("usage")

    def body(self) -> dict[str, Any]:
        """The message as it would have come in one piece."""
        content = [self._block(index) for index in sorted(self._blocks)]
        if self.error is not None:
            begun = {"content": content} if content else {}
            return {"type": "error", "error": self.error, **begun}
        return {**self._top, "type": "message", "content": content}

    def _block(self, index: int) -> dict[str, Any]:
        block: dict[str, Any] = settled(self._blocks[index])
        if index in self._inputs:
            block["input"] = _input(str(settled(self._inputs[index])), block.get("input"))
        return block


def _fields(value: Any) -> dict[str, Any]:
    """The fields of an object that say something."""
    return (
        {name: field for name, field in value.items() if field is not None} if isinstance(value, dict) else {}
    )


def _begun(block: dict[str, Any]) -> dict[str, Any]:
    """The beginning of a block, its texts ready to grow."""
    return {
        name: grown(None, value) if name in {"text", "thinking"} else value for name, value in block.items()
    }


def _input(text: str, begun: Any) -> Any:
    """A tool's arguments; the text itself where it is no JSON object, because it was cut or is wrong."""
    if not text:
        return begun
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return text
    return value if isinstance(value, dict) else text
