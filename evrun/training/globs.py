"""Patterns of a template's paths: `*` and `?` stay within a name, `**` goes across.

A pattern that is a directory covers all that lies below it.
"""

import re
from collections.abc import Iterable
from functools import lru_cache


def covers(pattern: str, path: str) -> bool:
    """Whether a path is what a pattern names, or lies below it."""
    return _compiled(pattern).fullmatch(path) is not None


def covered(patterns: Iterable[str], path: str) -> bool:
    """Whether one of the patterns covers a path."""
    return any(covers(pattern, path) for pattern in patterns)


def is_pattern(text: str) -> bool:
    """Whether this can be a pattern: relative, with slashes, and nothing that leads out of the directory."""
    parts = text.rstrip("/").split("/")
    return bool(text) and "\\" not in text and all(part not in {"", ".", ".."} for part in parts)


@lru_cache(maxsize=1024)
def _compiled(pattern: str) -> re.Pattern[str]:
    *folders, last = pattern.rstrip("/").split("/")
    text = "".join("(?:[^/]+/)*" if folder == "**" else f"{_name(folder)}/" for folder in folders)
    return re.compile(f"{text}{'.+' if last == '**' else _name(last)}(?:/.*)?", re.DOTALL)


def _name(part: str) -> str:
    """A part between slashes."""
    return "".join(
        _LETTERS.get(letter, re.escape(letter)) for letter in re.findall(r"\*+|.", part, re.DOTALL)
    )


_LETTERS = {"?": "[^/]", "*": "[^/]*", "**": ".*"}
