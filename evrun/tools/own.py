"""Tools of the user's own: the functions of a Python file (`--tools FILE.py`), a toolset named after it."""

import importlib.util
import inspect
import re
import sys
import traceback
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import anyio

from ..effects.foreign import in_a_task, in_daemon_thread
from ..errors import UsageFault
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
    # A name of its own, so that a file called json.py is not the library's json to anybody.
    spec = importlib.util.spec_from_file_location(f"evrun_tools_{path.stem}", path)
    if spec is None or spec.loader is None or not NAME.fullmatch(path.stem):
        raise UsageFault(
            f"--tools {path}: expected a file named with letters, digits, '_' and '-', ending in .py",
            hint="its name is that of its toolset",
        )
    module = importlib.util.module_from_spec(spec)
    # Its dataclasses and type hints look it up there; its neighbours can be imported by it.
    sys.modules[spec.name] = module
    if str(path.parent) not in sys.path:
        sys.path.append(str(path.parent))
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        raise UsageFault(
            f"--tools {_place(path, error)}: {type(error).__name__}: {error}",
            hint="mend the file, then do this again",
        ) from error
    return module


def _place(path: Path, error: BaseException) -> str:
    """Where in the file something went wrong: its last line that took part."""
    if isinstance(error, SyntaxError) and error.filename == str(path):
        return f"{path}, line {error.lineno}"
    lines = [
        frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(path)
    ]
    return f"{path}, line {lines[-1]}" if lines else str(path)


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
