"""The web tool: a page of the web as text."""

import re
from collections.abc import Sequence
from functools import partial
from typing import Any

from ..versions import versions
from .base import Tool, ToolContext, Toolset, parameters
from .hosts import HostRules
from .html_text import html_to_text
from .shown import shown_text

TIMEOUT_S = 30.0
LONGEST_WORD = 2000
"""Characters of a title or an address; whoever writes longer ones means no good."""
_TEXTS = re.compile(r"text/|application/(json|xml|javascript|x-ndjson|yaml|toml)|[^;]*\+(json|xml)")
_HTML = re.compile(r"text/html|application/xhtml\+xml")
_CHARSET = re.compile(r"charset\s*=\s*[\"']?([A-Za-z0-9._:-]+)", re.ASCII)
_META_CHARSET_WITHIN = 2048


async def web_fetch(rules: HostRules, arguments: dict[str, Any], context: ToolContext) -> dict[str, Any]:
    """Fetch a page: `{"url", "status", "title", "text", "truncated", "error"}`.

    A status of 400 and more is an error; the page that came with it is there all the same.
    """
    # Loaded when it is asked for: reading httpx takes a moment.
    from ..effects.web import Rules, fetch  # noqa: PLC0415

    found = await fetch(
        arguments["url"],
        Rules(rules.refusal, rules.refusal_of_address),
        agent=f"evrun/{versions()['evrun']} (web_fetch)",
        timeout_s=min(TIMEOUT_S, context.timeout_s),
    )
    title, text = readable(found.content_type, found.body, found.url)
    error = f"HTTP status {found.status}" if found.status >= 400 else None  # noqa: PLR2004 (HTTP's own line)
    return {
        "url": found.url[:LONGEST_WORD],
        "status": found.status,
        "title": title and title[:LONGEST_WORD],
        "text": shown_text(text, context.redactor),
        "truncated": found.cut,
        "error": error,
    }


def readable(content_type: str, body: bytes, url: str) -> tuple[str | None, str]:
    """Title (null where there is none) and text of an answer's body.

    Raises:
        ValueError: it is no text.
    """
    kind = content_type.strip().lower()
    if _HTML.match(kind) or (not kind and body.lstrip()[:1] == b"<"):
        return html_to_text(_decoded(kind, body), url)
    if (kind and not _TEXTS.match(kind)) or b"\0" in body[:4096]:
        raise ValueError(f"{url} is {kind.partition(';')[0] or 'no text'}, which cannot be shown as text")
    return None, _decoded(kind, body)


def _decoded(kind: str, body: bytes) -> str:
    found = _CHARSET.search(kind) or _CHARSET.search(body[:_META_CHARSET_WITHIN].decode("latin-1"))
    try:
        return body.decode(found[1] if found else "utf-8", "replace")
    except LookupError:
        return body.decode("utf-8", "replace")


def web_toolset(allow: Sequence[str] | None) -> Toolset:
    """The toolset; `allow` are the hosts that may be asked, null for all public ones.

    Raises:
        UsageFault: an entry that is no host.
    """
    return Toolset(
        "web",
        (
            Tool(
                "web_fetch",
                "Fetch a web page by its address and return its text; links are shown as [text](address). "
                "A long page is shown at its beginning and its end.",
                parameters({"url": {"type": "string", "description": "Begins with https:// or http://."}}),
                partial(web_fetch, HostRules(allow)),
                safe_to_repeat=True,
                concurrent=True,
            ),
        ),
    )
