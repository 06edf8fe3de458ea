"""The python tool: code in a fresh interpreter, in the attempt's own directory."""

import sys
from typing import Any

from .base import Tool, ToolContext, Toolset, parameters
from .shown import TIMEOUT_ARGUMENT, run_shown

# UTF-8 whatever the locale says; unbuffered, so that what was printed before a timeout is seen.
_OPTIONS = ("-X", "utf8", "-u", "-c")


async def run_python(arguments: dict[str, Any], context: ToolContext) -> dict[str, Any]:
    """Run code: `{"output", "exit_code", "error"}`, as the terminal does; a traceback is in the output.

    The interpreter is the one that runs evrun, or `python3` in the row's container.
    """
    program = sys.executable if context.container is None else "python3"
    return await run_shown([program, *_OPTIONS, arguments["code"]], arguments.get("timeout_s"), context)


PYTHON = Toolset(
    "python",
    (
        Tool(
            "python",
            "Run Python code in a fresh interpreter and return what it printed (stdout and stderr together) "
            "and its exit code. It starts in your working directory; files stay there, but variables do not "
            "outlive the call: print what you want to see. There is no input.",
            parameters(
                {"code": {"type": "string", "description": "The program text."}},
                {"timeout_s": TIMEOUT_ARGUMENT},
            ),
            run_python,
            safe_to_repeat=False,
            concurrent=False,
        ),
    ),
)
