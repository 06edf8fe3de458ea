"""The toolsets of one session: the built-in ones, those of the user's own, and those of MCP servers."""

from collections.abc import Iterable, Mapping
from typing import Any

from ..errors import UsageFault
from .base import Tool, Toolset
from .files import FILE
from .python import PYTHON
from .terminal import TERMINAL
from .web import web_toolset

BUILT_IN: dict[str, Toolset] = {
    toolset.name: toolset for toolset in (TERMINAL, FILE, web_toolset(None), PYTHON)
}
"""The toolsets that are always there; `web` as it is when nothing was said about hosts."""


class Toolbox:
    """Toolsets by name, and the tools in them, whose names are all different.

    `secrets` are values that its tools were given and nobody may see, by the names they are replaced with.

    Raises:
        UsageFault: two toolsets have a tool of the same name.
    """

    def __init__(self, toolsets: Iterable[Toolset], secrets: Mapping[str, str] | None = None) -> None:
        self._toolsets = {toolset.name: toolset for toolset in toolsets}
        self._tools: dict[str, Tool] = {}
        self.secrets = dict(secrets or {})
        homes: dict[str, str] = {}
        for toolset in self._toolsets.values():
            for tool in toolset.tools:
                if tool.name in homes:
                    raise UsageFault(
                        f"the toolsets {homes[tool.name]} and {toolset.name} both have a tool {tool.name}",
                        hint="give one of them another name, or leave a toolset out of --toolsets",
                    )
                homes[tool.name] = toolset.name
                self._tools[tool.name] = tool

    @property
    def names(self) -> tuple[str, ...]:
        """The toolsets, built-in ones first."""
        return tuple(self._toolsets)

    def definitions(self, names: Iterable[str]) -> dict[str, list[dict[str, Any]]]:
        """What models are told, by toolset: {"name", "description", "parameters"} for each tool.

        Raises:
            UsageFault: a toolset that is not there; the known ones are listed.
        """
        return {name: [tool.definition() for tool in self._toolset(name).tools] for name in names}

    def _toolset(self, name: str) -> Toolset:
        check_toolset(name, self._toolsets)
        return self._toolsets[name]

    def find(self, name: str) -> Tool | None:
        """The tool of a name; null if there is none."""
        return self._tools.get(name)

    def safe_to_repeat(self, name: str) -> bool:
        """Whether a tool that was started and not seen to finish may simply be run again."""
        tool = self.find(name)
        return tool is not None and tool.safe_to_repeat


def check_toolset(name: str, known: Iterable[str]) -> None:
    """Refuse a toolset that is not there.

    Raises:
        UsageFault: the known ones are listed.
    """
    known = tuple(known)
    if name not in known:
        raise UsageFault(
            f"--toolsets {name}: expected one of {', '.join(known)}, or none",
            hint="tools of your own come with --tools FILE.py, those of MCP servers with --mcp-config FILE",
        )


def toolset_names() -> tuple[str, ...]:
    """The toolsets that evrun has."""
    return tuple(BUILT_IN)
