"""Paths of a config file: from its own directory, with `~` and `$VAR` expanded."""

import os
import re
from pathlib import Path

from ..batch.agent_setting import COMMAND, absolute_agent
from ..errors import UsageFault

_VARIABLE = re.compile(r"\$(?:\{(\w+)\}|(\w+))")
_BEGINNINGS = ("/", "~", "$", "./", "../", ".")
MANIFEST = "adapter.yaml"


class Paths:
    """Makes the paths of one config file absolute."""

    def __init__(self, base: Path) -> None:
        self._base = base

    def plain(self, key: str, text: str) -> str:
        """A path.

        Raises:
            UsageFault: it is empty, or names a variable that is not set.
        """

        def value(found: re.Match[str]) -> str:
            name = found[1] or found[2]
            if name not in os.environ:
                raise UsageFault(f"{key}: {text}: the environment variable {name} is not set")
            return os.environ[name]

        expanded = os.path.expanduser(_VARIABLE.sub(value, text))  # noqa: PTH111 (a Path would drop a slash)
        if not expanded.strip() or "\0" in expanded:
            raise UsageFault(f"{key}: expected a path, found {text!r}")
        return os.path.normpath(self._base / expanded)

    def code(self, key: str, text: str) -> str:
        """``FILE.py:NAME`` and ``command:CMD`` with their files made absolute; anything else as it is."""
        if text.startswith(COMMAND):
            return absolute_agent(text, self._base)
        home, colon, name = text.rpartition(":")
        return f"{self.plain(key, home)}:{name}" if colon and home.endswith(".py") else text

    def directory_or_name(self, key: str, text: str) -> str:
        """A directory made absolute; what names something else (a built-in, a tag) as it is."""
        if text.startswith(_BEGINNINGS) or text.endswith("/") or (self._base / text / MANIFEST).is_file():
            return self.plain(key, text)
        return text
