"""The terminal tool: one shell command in the attempt's own directory."""

import shutil
from functools import cache
from typing import Any

from .base import Tool, ToolContext, Toolset, parameters
from .shown import TIMEOUT_ARGUMENT, run_shown

SHELL_OF_AN_IMAGE = ("/bin/sh", "-c")
"""What nearly every image has."""


async def run_terminal(arguments: dict[str, Any], context: ToolContext) -> dict[str, Any]:
    """Run a command: `{"output", "exit_code", "error"}`; `error` is a text if it did not come to its own end.

    A command that ends with another code than 0 has worked as a tool: the model reads the code.
    """
    shell = _shell() if context.container is None else SHELL_OF_AN_IMAGE
    return await run_shown([*shell, arguments["command"]], arguments.get("timeout_s"), context)


@cache
def _shell() -> tuple[str, ...]:
    """Bash where it is, as models write for it; without the start-up files of whoever runs evrun."""
    bash = shutil.which("bash")
    return (bash, "--noprofile", "--norc", "-c") if bash else ("/bin/sh", "-c")


TERMINAL = Toolset(
    "terminal",
    (
        Tool(
            "terminal",
            "Run a shell command in your working directory and return its output (stdout and stderr "
            "together) and its exit code. Every command starts in the working directory; files stay there, "
            "but variables and background processes do not outlive the command. There is no input: do not "
            "start programs that wait for a user.",
            parameters(
                {"command": {"type": "string", "description": "The command line."}},
                {"timeout_s": TIMEOUT_ARGUMENT},
            ),
            run_terminal,
            safe_to_repeat=False,
            concurrent=False,
        ),
    ),
)
