"""Tools of the user's own: the functions of a Python file (`--tools FILE.py`), a toolset named after it."""

import inspect
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import anyio

from ..effects.foreign import in_a_task, in_daemon_thread
from ..errors import UsageFault
from ..own.code import run_file
from .authoring import MARK, Marked
from .base import Tool, ToolContext, Toolset
from .shown import as_result
from .signatures import Signature, Unusable, signature_of

NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
"""What endpoints take as the name of a tool."""
_HINT = "mark functions with @tool (from evrun.tools import tool), or list them: TOOLS = [function, …]"


def load_tools(path: Path) -> Toolset:
    """Run a file and take the functions that it marks or lists as tools.

    Raises:
        UsageFault: the file cannot be run, or a function cannot be a tool; with file, line, and what to do.
    """
    module = _run_file(path)
    functions = _marked(module, path)
    if not functions:
        raise UsageFault(f"--tools {path}: found no tool in it", hint=_HINT)
    return Toolset(path.stem, tuple(_tool(function, marked, path) for function, marked in functions))


def _run_file(path: Path) -> ModuleType:
    if not path.is_file():
        raise UsageFault(f"--tools {path}: there is no such file", hint="give the path of a Python file")
    if path.suffix != ".py" or not NAME.fullmatch(path.stem):
        raise UsageFault(
            f"--tools {path}: expected a file named with letters, digits, '_' and '-', ending in .py",
            hint="its name is that of its toolset",
        )
    return run_file(path, "--tools")


def _marked(module: ModuleType, path: Path) -> list[tuple[Callable[..., Any], Marked]]:
    found: dict[int, tuple[Callable[..., Any], Marked]] = {}
    for value in vars(module).values():
        marked = getattr(value, MARK, None) if inspect.isfunction(value) else None
        if isinstance(marked, Marked):
            found[id(value)] = (value, marked)
    listed = getattr(module, "TOOLS", [])
    if not isinstance(listed, list | tuple) or not all(inspect.isfunction(each) for each in listed):
        raise UsageFault(f"--tools {path}: TOOLS must be a list of functions", hint=_HINT)
    for function in listed:
        found.setdefault(id(function), (function, getattr(function, MARK, Marked())))
    return list(found.values())


def _tool(function: Callable[..., Any], marked: Marked, path: Path) -> Tool:
    name = marked.name or function.__name__
    try:
        signature = _checked(name, function)
    except Unusable as error:
        line = function.__code__.co_firstlineno
        raise UsageFault(f"--tools {path}, line {line}: {name} cannot be a tool", hint=str(error)) from error
    return Tool(
        name,
        signature.description,
        signature.parameters,
        partial(_call, function, signature, marked.timeout_s),
        safe_to_repeat=marked.safe_to_repeat,
        concurrent=marked.concurrent,
        fit=signature.fit,
    )


def _checked(name: str, function: Callable[..., Any]) -> Signature:
    if not NAME.fullmatch(name):
        raise Unusable("its name must be of letters, digits, '_' and '-', at most 64; give @tool a name=…")
    signature = signature_of(function)
    if not signature.description:
        raise Unusable("it has no docstring, which is what the model is told about it; write one")
    return signature


async def _call(
    function: Callable[..., Any],
    signature: Signature,
    timeout_s: float,
    arguments: dict[str, Any],
    context: ToolContext,
) -> dict[str, Any]:
    """Call a function; whatever it raises is an error for the model, and so is a time that is too long."""
    values = signature.values(arguments)
    if signature.context is not None:
        values[signature.context] = context
    timeout_s = min(timeout_s, context.timeout_s)
    try:
        with anyio.move_on_after(timeout_s) as deadline:
            return as_result(await _outcome(function, values), context.redactor)
    except Exception as error:  # noqa: BLE001 - it is somebody else's code, and the run goes on
        return {"error": f"{type(error).__name__}: {error}"}
    assert deadline.cancelled_caught
    return {"error": f"not done within {timeout_s:g} s"}


async def _outcome(function: Callable[..., Any], values: dict[str, Any]) -> Any:
    work = partial(function, **values)
    return await (in_a_task(work) if inspect.iscoroutinefunction(function) else in_daemon_thread(work))
