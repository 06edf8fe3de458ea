"""How a tool call is run: whatever it meets becomes one JSON object for the model."""

from typing import Any

import msgspec

from .base import Tool, ToolContext


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
