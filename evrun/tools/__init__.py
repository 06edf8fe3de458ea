"""The tools that the built-in agent can use, in toolsets, and how they are chosen and run."""

from .arguments import parse_arguments
from .authoring import tool
from .base import Tool, ToolContext, Toolset
from .distributions import distribution_table, draw
from .running import run_tool
from .sources import (
    Prepared,
    Sources,
    always_given,
    check_sources,
    chosen_toolsets,
    left_out,
    open_toolbox,
    prepare,
)
from .toolbox import BUILT_IN, Toolbox, toolset_names

__all__ = [
    "BUILT_IN",
    "Prepared",
    "Sources",
    "Tool",
    "ToolContext",
    "Toolbox",
    "Toolset",
    "always_given",
    "check_sources",
    "chosen_toolsets",
    "distribution_table",
    "draw",
    "left_out",
    "open_toolbox",
    "parse_arguments",
    "prepare",
    "run_tool",
    "tool",
    "toolset_names",
]
