"""The most that a request can cost, known before it is sent. Pure.

No byte-level tokenizer makes more tokens than there are bytes, and a JSON body is never shorter than the text
in it. Some tokenizers normalise the text first (NFC, NFKC), which can make it longer; that is looked at. What
a server adds around the text (role markers, tool instructions, indents) is covered by allowances.
"""

import re
import unicodedata
from operator import attrgetter
from typing import Any, Literal, NamedTuple

import msgspec

from .rates import Price, bound_nano_usd

PER_REQUEST = 512
"""Tokens that a chat template may add on its own: a default system prompt, a date, begin and end markers."""
PER_MESSAGE = 16
WITH_TOOLS = 1024
"""Tokens of instructions that servers add as soon as there are tools."""
PER_TOOL = 64
PER_EXPONENT = 24
"""1e15 in a tool call's arguments is 1000000000000000.0 where a server reads them and prints them again."""
UNBOUNDED_FIELDS = (
    "models", "plugins", "web_search_options", "prediction", "modalities", "audio", "best_of",
    "mcp_servers", "container", "speed", "inference_geo", "cache_control",
)  # fmt: skip
"""Fields of a request by which an endpoint bills more than the tokens of the text, or another model."""


class Bound(NamedTuple):
    """Upper bounds of one call; null where none is known. `how` says how they were made.

    With `media` the request holds images, sound or files, or asks for what is not billed by its text:
    `input_tokens` counts the text alone then.
    """

    input_tokens: int
    output_tokens: int | None
    nano_usd: int | None
    how: str
    media: bool = False


class _Caps(msgspec.Struct, gc=False):
    max_tokens: Any = None
    max_completion_tokens: Any = None
    max_output_tokens: Any = None
    n: Any = None
    tools: msgspec.Raw = msgspec.Raw(b"")
    models: Any = None
    plugins: Any = None
    web_search_options: Any = None
    prediction: Any = None
    modalities: Any = None
    audio: Any = None
    best_of: Any = None
    mcp_servers: Any = None
    container: Any = None
    speed: Any = None
    inference_geo: Any = None
    cache_control: Any = None


class _Message(msgspec.Struct, gc=False):
    content: Any = None


class _Messages(msgspec.Struct, gc=False):
    messages: list[_Message]


_caps = msgspec.json.Decoder(_Caps)
_unbounded = attrgetter(*UNBOUNDED_FIELDS)
_ALL_BOUNDED = (None,) * len(UNBOUNDED_FIELDS)
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
_EXPONENT = re.compile(rb"\d[eE]\+?\d")
_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|.)", re.DOTALL)
_FORMS: tuple[Literal["NFC", "NFKC"], ...] = ("NFC", "NFKC")
_TEXT_PARTS = frozenset(
    {
        "text", "input_text", "thinking", "redacted_thinking", "reasoning", "refusal", "output_text",
        "tool_use", "tool_result",
    }
)  # fmt: skip


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
    if _unbounded(caps) != _ALL_BOUNDED:
        fields = [name for name in UNBOUNDED_FIELDS if getattr(caps, name) is not None]
        return Bound(given, output, None, f"{how}; {', '.join(fields)}: unknown", media=True)
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
    tokens = _longest(body) + PER_REQUEST + PER_MESSAGE * body.count(b'"role"')
    tools = bytes(caps.tools)
    if len(tools) > len(b"null"):
        # Templates print tools again in a form of their own, often indented: counted twice.
        tokens += WITH_TOOLS + _longest(tools) + PER_TOOL * tools.count(b'"name"')
    if b'"tool_calls"' in body or b'"tool_use"' in body:
        # Servers read the arguments and print them again, with a space after each comma and colon.
        tokens += body.count(b",") + body.count(b":") + PER_EXPONENT * len(_EXPONENT.findall(body))
    return tokens


def _longest(raw: bytes) -> int:
    """The bytes of a JSON text, or of its longest normal form: U+FDFA is 3 bytes, and 33 under NFKC."""
    if raw.isascii() and b"\\u" not in raw:
        return len(raw)
    text = _ESCAPE.sub(_unescaped, raw.decode("utf-8", "replace"))
    text = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    plain = len(text.encode())
    return len(raw) + max(0, *(len(unicodedata.normalize(form, text).encode()) - plain for form in _FORMS))


def _unescaped(found: re.Match[str]) -> str:
    return found[0] if found[1] is None else chr(int(found[1], 16))


def _output_tokens(caps: _Caps, fallback: int | None) -> int | None:
    """The output cap times the answers asked for; null where there is none, or one that cannot be read."""
    given = (caps.max_tokens, caps.max_completion_tokens, caps.max_output_tokens)
    if given == (None, None, None) and caps.n is None and fallback is None:
        return None
    named = [cap for cap in given if cap is not None]
    copies = 1 if caps.n is None else caps.n
    if not all(isinstance(number, int) for number in (*named, copies)):
        return None
    cap = max(named, default=fallback)
    return None if cap is None else max(cap, 0) * max(copies, 1)


def _has_media(body: bytes) -> bool:
    """Whether a message holds a part that is no text. Looked at closely only where a name of one is found."""
    for name in _MEDIA:
        if name in body:
            break
    else:
        return False
    try:
        messages = _messages.decode(body).messages
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        # No messages, or none that can be read: of another dialect, perhaps.
        return True
    return any(_is_media(part) for message in messages for part in _parts(message.content))


def _parts(content: Any) -> list[Any]:
    return content if isinstance(content, list) else []


def _is_media(part: Any) -> bool:
    return isinstance(part, dict) and part.get("type") not in _TEXT_PARTS
