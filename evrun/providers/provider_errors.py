"""What an endpoint says about an error, in whatever shape it says it. Pure."""

import json
from typing import Any

import msgspec

LONGEST_MESSAGE = 500
_LARGEST_BODY = 1 << 20
_CODE_FIELDS = frozenset({"code", "type", "status", "reason", "error_code", "errorcode"})
_DEEPEST = 5


class ProviderError(msgspec.Struct, frozen=True):
    """An error as an endpoint told it.

    `message` is its own text, cut to 500 characters; `codes` holds every short code that stands in it, in
    lower case; `status` is an HTTP status that the body names.
    """

    message: str
    codes: frozenset[str]
    status: int | None

    def has_code(self, *parts: str) -> bool:
        """Whether one of the codes holds one of these words."""
        return any(part in code for code in self.codes for part in parts)

    def says(self, *parts: str) -> bool:
        """Whether the message holds one of these words, in any case."""
        text = self.message.lower()
        return any(part in text for part in parts)


def read_error(body: bytes) -> ProviderError:
    """The error in a response body: an object of any provider's shape, plain text, or a page of HTML."""
    try:
        value = json.loads(body[:_LARGEST_BODY])
    except (ValueError, RecursionError):
        return ProviderError(_plain(body), frozenset(), None)
    if isinstance(value, list) and value:
        value = value[0]
    return error_of(value, body)


def error_of(value: Any, body: bytes = b"") -> ProviderError:
    """The same for a value that is decoded already; `body` is shown where the value has no message."""
    inner = value.get("error") if isinstance(value, dict) else None
    codes: set[str] = set()
    _collect(value, codes, 0)
    message = _message(inner) or _message(value) or _plain(body)
    statuses = [int(code) for code in codes if code.isdecimal() and len(code) == 3]  # noqa: PLR2004  # 100 to 999
    named = [status for status in statuses if 400 <= status <= 599]  # noqa: PLR2004  # of errors
    return ProviderError(message[:LONGEST_MESSAGE], frozenset(codes), max(named, default=None))


def _message(value: Any) -> str | None:
    if isinstance(value, str):
        return value.strip() or None
    if isinstance(value, list):
        return next((text for item in value if (text := _message(item))), None)
    if not isinstance(value, dict):
        return None
    for name in (
        "message",
        "msg",
        "detail",
        "error_message",
        "error_description",
        "title",
        "errors",
        "error",
    ):
        text = _message(value.get(name))
        if text:
            return text
    return None


def _collect(value: Any, codes: set[str], depth: int) -> None:
    """Every short code in the value, a few levels deep."""
    if depth > _DEEPEST:
        return
    if isinstance(value, list):
        for item in value[:20]:
            _collect(item, codes, depth + 1)
    if not isinstance(value, dict):
        return
    for name, field in value.items():
        if name.lower() in _CODE_FIELDS and isinstance(field, str | int) and not isinstance(field, bool):
            codes.add(str(field)[:100].lower())
        elif isinstance(field, dict | list):
            _collect(field, codes, depth + 1)
            if field and name.lower() in {"flagged_input", "reasons", "content_filter_result"}:
                codes.add(name.lower())
        elif name.lower() == "flagged_input" and field:
            codes.add("flagged_input")


def _plain(body: bytes) -> str:
    """The beginning of a body that is no JSON, on one line."""
    text = " ".join(body[: 4 * LONGEST_MESSAGE].decode("utf-8", "replace").split())
    return text[:LONGEST_MESSAGE] if text else "the response has no body"
