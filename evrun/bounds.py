"""The most that a request can cost, known before it is sent. Pure.

No byte-level tokenizer makes more tokens than there are bytes, and a JSON body is never shorter than the text
in it. What a server adds around the text (role markers, tool instructions, indents) is covered by allowances.
"""

from typing import Any, NamedTuple

import msgspec

from .rates import Price, bound_nano_usd

PER_REQUEST = 512
"""Tokens that a chat template may add on its own: a default system prompt, a date, begin and end markers."""
PER_MESSAGE = 16
WITH_TOOLS = 1024
"""Tokens of instructions that servers add as soon as there are tools."""
PER_TOOL = 64


class Bound(NamedTuple):
    """Upper bounds of one call; null where none is known. `how` says how they were made.

    With `media` the request holds images, sound or files: `input_tokens` counts the text alone then.
    """

    input_tokens: int
    output_tokens: int | None
    nano_usd: int | None
    how: str
    media: bool = False


class _Caps(msgspec.Struct, gc=False):
    max_tokens: int | None = None
    max_completion_tokens: int | None = None
    n: int | None = None
    tools: msgspec.Raw = msgspec.Raw(b"")


class _Message(msgspec.Struct, gc=False):
    content: Any = None


class _Messages(msgspec.Struct, gc=False):
    messages: list[_Message] = []


_caps = msgspec.json.Decoder(_Caps)
_messages = msgspec.json.Decoder(_Messages)
_MEDIA = (
    b'"image_url"',
    b'"input_image"',
    b'"image"',
    b'"input_audio"',
    b'"file"',
    b'"video_url"',
    b'"input_file"',
)
_TEXT_PARTS = frozenset({"text", "input_text", "thinking", "reasoning", "refusal", "output_text"})


def request_bound(body: bytes, price: Price | None, *, max_tokens: int | None = None) -> Bound:
    """The bound of a chat completion request with this body.

    The output cap is what the body says (the larger, if it names two), times `n`; `max_tokens` stands in
    where the body names none. Images, sound and files have tokens that their bytes do not show: their cost is
    unknown.
    """
    caps = _read_caps(body)
    given = _input_tokens(body, caps)
    output = _output_tokens(caps, max_tokens)
    how = f"{len(body)} bytes + {given - len(body)} allowed"
    if _has_media(body):
        return Bound(given, output, None, f"{how}; images, sound or files: unknown", media=True)
    if price is None:
        return Bound(given, output, None, f"{how}; no price")
    if output is None:
        free = price.dearest_output == 0
        return Bound(given, None, bound_nano_usd(price, given, 0) if free else None, f"{how}; no output cap")
    return Bound(given, output, bound_nano_usd(price, given, output), how)


def _read_caps(body: bytes) -> _Caps:
    """The caps in a body; none where it cannot be read (the endpoint will refuse it)."""
    try:
        return _caps.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return _Caps()


def _input_tokens(body: bytes, caps: _Caps) -> int:
    # A quote inside a JSON string is written \", so these are keys or whole strings: at least one a message
    # or tool, now and then one more, which only widens the bound.
    tokens = len(body) + PER_REQUEST + PER_MESSAGE * body.count(b'"role"')
    tools = len(bytes(caps.tools))
    if tools > len(b"null"):
        # Templates print tools again in a form of their own, often indented: counted twice.
        tokens += WITH_TOOLS + tools + PER_TOOL * bytes(caps.tools).count(b'"name"')
    return tokens


def _output_tokens(caps: _Caps, fallback: int | None) -> int | None:
    named = [cap for cap in (caps.max_tokens, caps.max_completion_tokens) if cap is not None]
    cap = max(named, default=fallback)
    return None if cap is None else max(cap, 0) * max(caps.n or 1, 1)


def _has_media(body: bytes) -> bool:
    """Whether a message holds a part that is no text. Looked at closely only where a name of one is found."""
    if not any(name in body for name in _MEDIA):
        return False
    try:
        messages = _messages.decode(body).messages
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return True
    return any(_is_media(part) for message in messages for part in _parts(message.content))


def _parts(content: Any) -> list[Any]:
    return content if isinstance(content, list) else []


def _is_media(part: Any) -> bool:
    return isinstance(part, dict) and part.get("type") not in _TEXT_PARTS
