"""The process in which a judge's function runs; see `judge`.

One JSON line on stdout says that the function is there, or why not; then each line on stdin, the two things
that it judges by and perhaps its parameters, gets a line ``{"score", "feedback", "extra"}`` or ``{"error"}``.
What the function prints goes to stderr.
"""

import contextlib
import ctypes
import importlib.util
import inspect
import json
import os
import signal
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

PR_SET_PDEATHSIG = 1
_PARTS = ("score", "feedback", "extra")


def main(path: Path, name: str) -> None:
    """Load the function, and let it judge until stdin ends."""
    report = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    _die_with_parent()
    function, problem = load(path, name)
    _say(report, {"error": problem} if function is None else {"ready": name})
    if function is None:
        return
    for line in sys.stdin.buffer:
        _say(report, judge(function, path, json.loads(line)))


def load(path: Path, name: str) -> tuple[Callable[..., Any] | None, str]:
    """The function of this name, or null and why there is none."""
    # As for a script: what stands beside the file can be imported.
    sys.path.insert(0, str(path.parent))
    try:
        spec = importlib.util.spec_from_file_location(path.stem, path)
        if spec is None or spec.loader is None:
            return None, f"{path}: expected a Python file, with a name that ends in .py"
        module = importlib.util.module_from_spec(spec)
        sys.modules[path.stem] = module
        spec.loader.exec_module(module)
    except BaseException as error:  # noqa: BLE001 (whatever the file raises is its author's to see)
        return None, _where(path, error)
    function = getattr(module, name, None)
    if not callable(function) or inspect.iscoroutinefunction(function):
        found = "a coroutine function" if callable(function) else "nothing of that name to call"
        return None, f"{path}: expected a plain function {name}, found {found}"
    return function, ""


def judge(function: Callable[..., Any], path: Path, values: list[Any]) -> dict[str, Any]:
    """What the function says of two values, or its error. It gets a third where it has `params`."""
    try:
        given = _asked(function, *values[:2], **_params(function, values[2:]))
    except BaseException as error:  # noqa: BLE001 (as above)
        return {"error": _where(path, error)}
    score, feedback, extra = _parts(given)
    if extra is None and isinstance(given, dict) and len(values) > 2:  # noqa: PLR2004 (a training run's)
        extra = {key: value for key, value in given.items() if key not in _PARTS} or None
    try:
        if isinstance(score, bool) or not isinstance(score, int | float | str):
            score = float(score)  # true and false, and the numbers of numpy
        json.dumps(score, allow_nan=False)
    except (TypeError, ValueError):
        return {"error": f"{path}: the judge gave {given!r:.100}; expected a number, or a number and a text"}
    said = {"score": score, "feedback": None if feedback is None else str(feedback)}
    try:
        json.dumps(extra)
    except (TypeError, ValueError) as error:
        return {"error": f"{path}: the judge gave something extra that is no JSON: {error}"}
    return said if extra is None else {**said, "extra": extra}


class _Held:
    """An output as Hermit hands it to a judge, in the attribute `output`."""

    def __init__(self, output: Any) -> None:
        self.output = output

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"a judge is given the output alone, without {name!r}")


def _asked(function: Callable[..., Any], task: Any, output: Any, **params: Any) -> Any:
    """What it gives. A judge that was written for Hermit looks for `output.output`: it is asked that way."""
    try:
        return function(task, output, **params)
    except AttributeError as error:
        if error.name != "output" or error.obj is not output:
            raise
    return function(task, _Held(output), **params)


def _parts(given: Any) -> tuple[Any, Any, Any]:
    """Score, feedback and what is extra, in any of the forms that a judge may give."""
    if isinstance(given, dict):
        return given.get("score"), given.get("feedback"), given.get("extra")
    if isinstance(given, tuple) and len(given) == 2:  # noqa: PLR2004 (score and feedback)
        return *given, None
    if hasattr(given, "score"):
        return given.score, getattr(given, "feedback", None), getattr(given, "extra", None)
    return given, None, None


def _params(function: Callable[..., Any], rest: list[Any]) -> dict[str, Any]:
    """The parameters, where there are some and the function asks for them."""
    try:
        asked = "params" in inspect.signature(function).parameters
    except (TypeError, ValueError):
        return {}
    return {"params": rest[0]} if rest and asked else {}


def _where(path: Path, error: BaseException) -> str:
    """The error with the last line of the file that it came through."""
    if isinstance(error, SyntaxError):
        return f"{error.filename}:{error.lineno}: {type(error).__name__}: {error.msg}"
    lines = [
        frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(path)
    ]
    place = f"{path}:{lines[-1]}" if lines else str(path)
    return f"{place}: {type(error).__name__}: {error}"


def _say(report: Any, value: dict[str, Any]) -> None:
    report.write(json.dumps(value) + "\n")
    report.flush()


def _die_with_parent() -> None:
    parent = os.getppid()
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os.kill(os.getpid(), signal.SIGKILL)


def run(path: str, name: str) -> None:
    """The whole process."""
    with contextlib.suppress(BrokenPipeError, KeyboardInterrupt):
        main(Path(path), name)
