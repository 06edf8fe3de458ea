"""Commands as tools: run in the attempt's own directory or container, their output shown in bounds."""

import errno
from collections.abc import Sequence
from typing import Any

import msgspec

from ..effects.containers import run_in_container
from ..effects.processes import BoundedOutput, Ended, run_command
from ..effects.secrets import TEMPORARY_DIRECTORY, Redactor, child_environment
from .base import ToolContext

DEFAULT_TIMEOUT_S = 60.0
KEPT_BYTES = 16_384
"""So much of an output is given back from its beginning, and as much from its end."""
MOST_BYTES = 64 * 1024
"""So large may a result of a tool be that is not evrun's, as JSON."""
TIMEOUT_ARGUMENT = {
    "type": "number",
    "minimum": 0.1,
    "description": f"Seconds until it is killed (default {DEFAULT_TIMEOUT_S:g}).",
}


async def run_shown(command: Sequence[str], timeout_s: float | None, context: ToolContext) -> dict[str, Any]:
    """Run a command: `{"output", "exit_code", "error"}`; `error` is null if it came to its own end."""
    timeout_s = min(DEFAULT_TIMEOUT_S if timeout_s is None else timeout_s, context.timeout_s)
    try:
        ended = await _run(command, timeout_s, context)
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


async def _run(command: Sequence[str], timeout_s: float, context: ToolContext) -> Ended:
    (context.workdir / TEMPORARY_DIRECTORY).mkdir(mode=0o700, exist_ok=True)
    keep_bytes = KEPT_BYTES + context.redactor.longest
    if context.container is not None:
        return await run_in_container(
            context.container,
            command,
            directory=context.workdir,
            marker=context.marker,
            timeout_s=timeout_s,
            keep_bytes=keep_bytes,
        )
    return await run_command(
        command,
        directory=context.workdir,
        environment=child_environment(context.workdir, context.marker),
        timeout_s=timeout_s,
        keep_bytes=keep_bytes,
    )


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


def shown_text(text: str, redactor: Redactor) -> str:
    """A text as a model is shown it, in the bounds of an output."""
    output = BoundedOutput(KEPT_BYTES + redactor.longest)
    output.feed(text.encode("utf-8", "replace"))
    return shown_output(Ended(0, *output.parts()), redactor)


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")


def _failed(problem: str) -> dict[str, Any]:
    return {"output": "", "exit_code": None, "error": problem}


def as_result(value: Any, redactor: Redactor) -> dict[str, Any]:
    """What a tool that is not evrun's gave back, as a result in bounds: an object as it is, all else in one.

    One that is too large is shown as text, at both ends: it would be sent again with every further turn.

    Raises:
        TypeError, ValueError: it cannot be said in JSON.
    """
    plain = msgspec.to_builtins(value, str_keys=True)
    result: dict[str, Any] = plain if isinstance(plain, dict) else {"result": plain, "error": None}
    encoded = msgspec.json.encode(result)
    if len(encoded) <= MOST_BYTES:
        return result
    shown = {"result": shown_text(encoded.decode(), redactor), "truncated": True}
    error = result.get("error")
    return {**shown, "error": None if error is None else shown_text(str(error), redactor)}
