"""HTML as text that a model can read. Pure: the standard library's parser, which never fails on bad HTML."""

import re
from html.parser import HTMLParser
from urllib.parse import urljoin

_UNSEEN = frozenset({"script", "style", "noscript", "template", "svg", "iframe", "object", "select"})
_ALONE = frozenset(
    {
        "address", "article", "aside", "blockquote", "body", "br", "dd", "details", "div", "dl", "dt",
        "fieldset", "figcaption", "figure", "footer", "form", "h1", "h2", "h3", "h4", "h5", "h6", "header",
        "hr", "li", "main", "nav", "ol", "p", "pre", "section", "summary", "table", "tr", "ul",
    }
)  # fmt: skip
"""Elements that stand on lines of their own."""
_APART = frozenset({"p", "h1", "h2", "h3", "h4", "h5", "h6", "pre", "table", "ul", "ol", "blockquote"})
"""Elements with an empty line before them."""
_SPACE = re.compile(r"[ \t\r\n\f\xa0]+")
_EMPTY_LINES = re.compile(r"\n(?:[ \t]*\n){2,}")


def html_to_text(html: str, base: str) -> tuple[str | None, str]:
    """The title (null where there is none) and the text of a page; links are made whole with `base`."""
    reader = _Reader(base)
    reader.feed(html)
    reader.close()
    title = _SPACE.sub(" ", "".join(reader.title)).strip()
    lines = "\n".join(line.rstrip() for line in "".join(reader.parts).split("\n"))
    return title or None, _EMPTY_LINES.sub("\n\n", lines).strip()


class _Reader(HTMLParser):
    def __init__(self, base: str) -> None:
        super().__init__(convert_charrefs=True)
        self.parts: list[str] = []
        self.title: list[str] = []
        self._base = base
        self._unseen = 0
        self._kept_as_it_is = 0
        self._in_title = False
        self._links: list[tuple[int, str | None]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in _UNSEEN:
            self._unseen += 1
        elif tag == "title":
            self._in_title = True
        elif self._unseen:
            return
        elif tag == "a":
            self._links.append((len(self.parts), _target(self._base, dict(attrs).get("href"))))
        elif tag == "img":
            self._say(dict(attrs).get("alt") or "")
        elif tag in ("td", "th"):
            self._say(" | ")
        elif tag in _ALONE:
            self._new_line(apart=tag in _APART)
            if tag == "li":
                self.parts.append("- ")
            elif tag[0] == "h" and tag[1:].isdigit():
                self.parts.append("#" * int(tag[1:]) + " ")
            self._kept_as_it_is += tag == "pre"

    def handle_endtag(self, tag: str) -> None:
        if tag in _UNSEEN:
            self._unseen = max(0, self._unseen - 1)
        elif tag == "title":
            self._in_title = False
        elif self._unseen:
            return
        elif tag == "a" and self._links:
            self._end_link(*self._links.pop())
        elif tag in _ALONE:
            self._kept_as_it_is -= tag == "pre" and self._kept_as_it_is > 0
            self._new_line(apart=tag in _APART)

    def handle_data(self, data: str) -> None:
        if self._in_title:
            self.title.append(data)
        elif not self._unseen:
            self._say(data)

    def _say(self, text: str) -> None:
        if self._kept_as_it_is:
            self.parts.append(text)
            return
        text = _SPACE.sub(" ", text)
        if text.startswith(" ") and (not self.parts or self.parts[-1].endswith(("\n", " "))):
            text = text[1:]
        if text:
            self.parts.append(text)

    def _new_line(self, *, apart: bool) -> None:
        # Emptiness that was wanted is kept, doubled emptiness is taken out at the end.
        if apart:
            self.parts.append("\n\n")
        elif self.parts and not self.parts[-1].endswith("\n"):
            self.parts.append("\n")

    def _end_link(self, start: int, target: str | None) -> None:
        text = "".join(self.parts[start:]).strip()
        if target is None or not text or "\n" in text or text == target:
            return
        self.parts[start:] = [f"[{text}]({target})"]


def _target(base: str, href: str | None) -> str | None:
    """The whole address of a link that leads to another page; null for all others."""
    if href is None or href.startswith("#"):
        return None
    try:
        target = urljoin(base, href.strip())
    except ValueError:
        return None
    return target if target.startswith(("http://", "https://")) else None
