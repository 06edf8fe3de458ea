"""A process for a template's code: ``… FILE FUNCTION ADAPTER ROOT PARENT``, or ``… --load FILE…``.

It says one JSON line on stdout: ``{"problems": [[path, problem], …]}``, or ``{"error": text}`` where the code
raised. What the code prints goes nowhere. It is run by its path and needs nothing of evrun.
"""

import ctypes
import importlib.util
import inspect
import json
import os
import signal
import sys
import traceback
from pathlib import Path
from types import ModuleType
from typing import Any

LOAD = "--load"
PR_SET_PDEATHSIG = 1


def main(arguments: list[str]) -> None:
    """Do what was asked and say what came of it."""
    report = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    said = load_all(arguments[1:]) if arguments[0] == LOAD else ask(*arguments)
    report.write(json.dumps(said) + "\n")
    report.flush()
    os._exit(0)  # a thread that the code started must not keep the process


def load_all(paths: list[str]) -> dict[str, Any]:
    """Import each of these files, given relative to the working directory."""
    problems = []
    for path in paths:
        try:
            load(Path(path).absolute())
        except BaseException as error:  # noqa: BLE001 (whatever the file raises is its author's to see)
            problems.append([path, f"cannot be imported: {_where(path, error)}"])
    return {"problems": problems}


def ask(file: str, function: str, adapter: str, root: str, parent: str) -> dict[str, Any]:
    """What a template's own check says of an adapter."""
    try:
        check = getattr(load(Path(file).absolute()), function)
        _first, *others = inspect.signature(check).parameters
        more = {"root": Path(root), "parent": Path(parent)}
        given = check(Path(adapter), **{name: more[name] for name in others if name in more})
        return {"problems": [*map(_problem, _listed(given))]}
    except BaseException as error:  # noqa: BLE001 (as above)
        return {"error": _where(file, error)}


def load(path: Path) -> ModuleType:
    """The module in a file; what stands beside it can be imported."""
    sys.path.insert(0, str(path.parent))
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path.name} is no Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


def _listed(given: Any) -> list[Any]:
    if given is None or given is True:
        return []
    if given is False:
        return ["it does not pass"]
    return list(given) if isinstance(given, list | tuple) else [given]


def _problem(one: Any) -> list[str]:
    if isinstance(one, str):
        return ["", one]
    if isinstance(one, dict) and "problem" in one:
        return [str(one.get("path") or ""), str(one["problem"])]
    raise TypeError(f"it gave {one!r:.100}; expected texts, or mappings with path and problem")


def _where(path: str, error: BaseException) -> str:
    name = Path(path).name
    if isinstance(error, SyntaxError):
        return f"{Path(error.filename or path).name}:{error.lineno}: {type(error).__name__}: {error.msg}"
    lines = [f.lineno for f in traceback.extract_tb(error.__traceback__) if Path(f.filename).name == name]
    place = f"{name}:{lines[-1]}" if lines else name
    return f"{place}: {type(error).__name__}: {error}"[:1000]


if __name__ == "__main__":
    main(sys.argv[1:])
