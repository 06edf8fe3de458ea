"""The registry: which toolsets there are, what a model is told about them, and how a call is run."""

from collections.abc import Iterable
from typing import Any

import msgspec

from ..errors import UsageFault
from .base import Tool, ToolContext, Toolset
from .distributions import DISTRIBUTIONS, draw, split_by_availability
from .files import FILE
from .terminal import TERMINAL

BUILT_IN: dict[str, Toolset] = {toolset.name: toolset for toolset in (TERMINAL, FILE)}
_TOOLS: dict[str, Tool] = {tool.name: tool for toolset in BUILT_IN.values() for tool in toolset.tools}


def toolset_names() -> tuple[str, ...]:
    """The toolsets that evrun has."""
    return tuple(BUILT_IN)


def definitions(names: Iterable[str]) -> dict[str, list[dict[str, Any]]]:
    """What models are told, by toolset: {"name", "description", "parameters"} for each tool.

    Raises:
        UsageFault: a toolset that evrun does not have; the known ones are listed.
    """
    return {name: [tool.definition() for tool in _toolset(name).tools] for name in names}


def _toolset(name: str) -> Toolset:
    if name not in BUILT_IN:
        raise UsageFault(f"--toolsets {name}: expected one of {', '.join(BUILT_IN)}, or none")
    return BUILT_IN[name]


def find_tool(name: str) -> Tool | None:
    """The tool of a name; null if there is none."""
    return _TOOLS.get(name)


async def run_tool(tool: Tool, arguments: dict[str, Any], context: ToolContext) -> str:
    """Run a tool and return what the model is given back: one JSON object whose `error` is null or a text.

    `arguments` must have come from `parse_arguments`. What the world refuses (a missing file, a full disk) is
    an error for the model; the run goes on.
    """
    try:
        result = await tool.run(arguments, context)
    except OSError as error:
        result = {"error": _explained(error, arguments)}
    except ValueError as error:
        result = {"error": str(error)}
    return msgspec.json.encode(result).decode()


def _explained(error: OSError, arguments: dict[str, Any]) -> str:
    # With the path as the model wrote it, not as this machine knows it.
    cause = error.strerror or type(error).__name__
    return f"{arguments['path']}: {cause}" if "path" in arguments else cause


def distribution_names() -> tuple[str, ...]:
    """The distributions there are."""
    return tuple(DISTRIBUTIONS)


def distribution_table() -> dict[str, dict[str, int]]:
    """Distribution -> toolset -> percent."""
    return DISTRIBUTIONS


def distribution_toolsets(distribution: str) -> list[str]:
    """The toolsets that a unit may draw from a distribution: those of its table that evrun has."""
    return split_by_availability(distribution, toolset_names())[0]


def left_out(distribution: str) -> list[str]:
    """The toolsets of a distribution that evrun does not have: to be reported once, never drawn."""
    return split_by_availability(distribution, toolset_names())[1]


def draw_toolsets(distribution: str, seed: int, prompt_content: bytes, sample: int) -> list[str]:
    """The toolsets of one unit, the same in every session; see `distributions.draw`."""
    return draw(distribution, seed, prompt_content, sample, toolset_names())
