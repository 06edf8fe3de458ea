"""The tools of a run, from its settings and from what its log remembers of them."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..effects.foreign import in_daemon_thread
from ..tools import (
    BUILT_IN,
    Prepared,
    Sources,
    Tool,
    Toolbox,
    ToolContext,
    Toolset,
    chosen_toolsets,
    left_out,
    prepare,
)
from .settings import Settings
from .wire_options import check_tool_choice

Definitions = Mapping[str, list[dict[str, Any]]]
TOOL_SETTINGS = ("toolsets", "distribution", "tools", "mcp_config", "web_allow")


def sources_of(settings: Settings) -> Sources:
    """What settings say about tools."""
    return Sources(
        settings.toolsets, settings.distribution, settings.tools, settings.mcp_config, settings.web_allow
    )


def absolute_paths(given: Mapping[str, Any]) -> dict[str, Any]:
    """The given files of tools as they are recorded: a resume may come from another directory."""
    found: dict[str, Any] = {}
    if "tools" in given:
        found["tools"] = [str(Path(path).absolute()) for path in given["tools"]]
    if "mcp_config" in given:
        found["mcp_config"] = str(Path(given["mcp_config"]).absolute())
    return found


async def prepare_tools(settings: Settings, environment: Mapping[str, str]) -> Prepared:
    """Look at all sources of tools. The user's files are run in a thread: a signal must be heard meanwhile.

    Raises:
        UsageFault: whatever is wrong with them.
    """
    sources = sources_of(settings)
    if sources.only_built_in:
        return prepare(sources, environment)
    return await in_daemon_thread(lambda: prepare(sources, environment))


def run_toolsets(settings: Settings, toolbox: Toolbox) -> dict[str, list[dict[str, Any]]]:
    """The tool definitions that a run may use, by toolset.

    Raises:
        UsageFault: a tool is forced (--tool-choice) that is not among them.
    """
    found = toolbox.definitions(chosen_toolsets(sources_of(settings), toolbox.names))
    check_tool_choice(settings, found)
    return found


def toolsets_left_out(settings: Settings, toolbox: Toolbox) -> list[str]:
    """The toolsets of the run's distribution that are not there; they are left out of each draw."""
    return [] if settings.toolsets is not None else left_out(settings.distribution, toolbox.names)


def same_tools(recorded: Settings, settings: Settings) -> bool:
    """Whether what is recorded of the tools still stands for what these settings name."""
    return all(getattr(recorded, name) == getattr(settings, name) for name in TOOL_SETTINGS)


def remembered_toolbox(recorded: Definitions) -> Toolbox:
    """The built-in toolsets, and the others as the log remembers them: good for looking, not for calling."""
    others = [
        Toolset(name, tuple(_remembered(each) for each in definitions))
        for name, definitions in recorded.items()
        if name not in BUILT_IN
    ]
    return Toolbox([*BUILT_IN.values(), *others])


def _remembered(definition: dict[str, Any]) -> Tool:
    return Tool(
        definition["name"],
        definition["description"],
        definition["parameters"],
        _not_open,
        safe_to_repeat=False,
        concurrent=False,
    )


async def _not_open(_arguments: dict[str, Any], _context: ToolContext) -> dict[str, Any]:
    return {"error": "this tool is not open"}
