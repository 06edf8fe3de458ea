"""Where models put their reasoning: fields of the message, or tags in the text."""

import re
from typing import Any

_FIELDS = ("reasoning", "reasoning_content", "thinking", "reasoning_details")
_WORDS = ("text", "summary", "thinking", "reasoning", "content")
_TAGS = "think|thinking|REASONING_SCRATCHPAD"

_LEADING = re.compile(rf"\s*<({_TAGS})>(.*?)</\1>", re.DOTALL)
_LEADING_UNCLOSED = re.compile(rf"\s*<({_TAGS})>(.*)\Z", re.DOTALL)
# Further in, only a block that begins a line is one; a sentence may speak of the tags.
_OPENING = re.compile(rf"^[ \t]*<({_TAGS})>", re.MULTILINE)
# Some chat templates open the block in the prompt, so that the answer only closes it.
_CLOSED_ONLY = re.compile(rf"\A(.*?)</({_TAGS})>[ \t]*(?:\n|\Z)", re.DOTALL)


def words(value: object) -> str | None:
    """The text in a reasoning field: a string, a list, or an object with one of the usual keys."""
    if isinstance(value, str):
        return value if value.strip() else None
    if isinstance(value, list):
        return "\n".join(filter(None, map(words, value))) or None
    if isinstance(value, dict):
        found = (words(value.get(key)) for key in _WORDS)
        return next((text for text in found if text), None)
    return None


def native_reasoning(message: dict[str, Any]) -> str | None:
    """The first reasoning field of a message that says something.

    Several fields are spellings of one text, not parts of it.
    """
    found = (words(message[key]) for key in _FIELDS if key in message)
    return next((text for text in found if text), None)


def split_thinking(text: str, native: str | None) -> tuple[str, str | None]:
    """The text without its think blocks, and the reasoning: the native one, then what the blocks say."""
    if "<" not in text or not _mentions(text):
        return text, native
    rest, blocks = _take_leading(text)
    if not blocks and native is None:
        rest, blocks = _take_inside(text)
    if not blocks and native is None:
        rest, blocks = _take_closed_only(text)
    return rest, _join(native, blocks)


def _mentions(text: str) -> bool:
    return "think>" in text or "thinking>" in text or "REASONING_SCRATCHPAD>" in text


def _take_leading(text: str) -> tuple[str, list[str]]:
    blocks: list[str] = []
    at = 0
    while (match := _LEADING.match(text, at)) or (match := _LEADING_UNCLOSED.match(text, at)):
        blocks.append(match[2])
        at = match.end()
    return (text[at:].lstrip() if blocks else text), blocks


def _take_inside(text: str) -> tuple[str, list[str]]:
    """A scan that looks at each character a few times only: a model that loops can write a million tags."""
    blocks: list[str] = []
    kept: list[str] = []
    at = 0
    while match := _OPENING.search(text, at):
        end = text.find(f"</{match[1]}>", match.end())
        if end < 0:
            break
        kept.append(text[at : match.start()])
        blocks.append(text[match.end() : end])
        at = end + len(f"</{match[1]}>")
    return ("".join([*kept, text[at:]]).strip() if blocks else text), blocks


def _take_closed_only(text: str) -> tuple[str, list[str]]:
    match = _CLOSED_ONLY.match(text)
    if match is None or f"<{match[2]}>" in match[1]:
        return text, []
    return text[match.end() :].lstrip(), [match[1]]


def _join(native: str | None, blocks: list[str]) -> str | None:
    parts = [block.strip() for block in blocks if block.strip()]
    if native is not None:
        parts = [native, *(part for part in parts if part != native.strip())]
    return "\n".join(parts) or None
