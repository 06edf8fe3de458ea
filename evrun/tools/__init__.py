"""The tools that the built-in agent can use, in toolsets, and how they are chosen and run."""

from .arguments import parse_arguments
from .base import Tool, ToolContext, Toolset
from .toolsets import (
    BUILT_IN,
    definitions,
    distribution_names,
    distribution_table,
    distribution_toolsets,
    draw_toolsets,
    find_tool,
    left_out,
    run_tool,
    toolset_names,
)

__all__ = [
    "BUILT_IN",
    "Tool",
    "ToolContext",
    "Toolset",
    "definitions",
    "distribution_names",
    "distribution_table",
    "distribution_toolsets",
    "draw_toolsets",
    "find_tool",
    "left_out",
    "parse_arguments",
    "run_tool",
    "toolset_names",
]
