"""The terminal tool: one shell command in the attempt's own directory."""

import errno
import shutil
from functools import cache
from typing import Any

from ..effects.processes import Ended, run_command
from ..effects.secrets import TEMPORARY_DIRECTORY, Redactor, child_environment
from .base import Tool, ToolContext, Toolset, parameters

DEFAULT_TIMEOUT_S = 60.0
KEPT_BYTES = 16_384
"""So much of an output is given back from its beginning, and as much from its end."""


async def run_terminal(arguments: dict[str, Any], context: ToolContext) -> dict[str, Any]:
    """Run a command: `{"output", "exit_code", "error"}`; `error` is a text if it did not come to its own end.

    A command that ends with another code than 0 has worked as a tool: the model reads the code.
    """
    timeout_s = min(arguments.get("timeout_s", DEFAULT_TIMEOUT_S), context.timeout_s)
    try:
        (context.workdir / TEMPORARY_DIRECTORY).mkdir(mode=0o700, exist_ok=True)
        ended = await run_command(
            [*_shell(), arguments["command"]],
            directory=context.workdir,
            environment=child_environment(context.workdir, context.marker),
            timeout_s=timeout_s,
            keep_bytes=KEPT_BYTES + context.redactor.longest,
        )
    except OSError as error:
        if error.errno == errno.E2BIG:
            return _failed("the command is too long for the system; write it to a file and run that")
        return _failed(f"the command could not be started: {error.strerror}")
    except ValueError as error:
        return _failed(f"the command could not be started: {error}")
    output = shown_output(ended, context.redactor)
    if ended.exit_code is None:
        problem = f"timed out after {timeout_s:g} s; the command and all that it had started were killed"
        return {"output": output, "exit_code": None, "error": problem}
    return {"output": output, "exit_code": ended.exit_code, "error": None}


def shown_output(ended: Ended, redactor: Redactor) -> str:
    """What a model is shown of an output: all of it, or both ends and how much is left out between.

    Where it is cut, as many bytes as the longest secret has are left out as well: else half a secret could
    stand there, which nobody would know.
    """
    head = redactor.clean(ended.head)
    if not ended.dropped_bytes:
        return _text(head)
    tail = redactor.clean(ended.tail)
    margin = redactor.longest
    left_out = ended.dropped_bytes + 2 * margin
    head, tail = head[: len(head) - margin], tail[margin:]
    return f"{_text(head)}\n[… {left_out} bytes left out …]\n{_text(tail)}"


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")


def _failed(problem: str) -> dict[str, Any]:
    return {"output": "", "exit_code": None, "error": problem}


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
                {
                    "timeout_s": {
                        "type": "number",
                        "minimum": 0.1,
                        "description": f"Seconds until it is killed (default {DEFAULT_TIMEOUT_S:g}).",
                    }
                },
            ),
            run_terminal,
            safe_to_repeat=False,
            concurrent=False,
        ),
    ),
)
