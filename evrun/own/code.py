"""Python files of the user's own: run as they are, with errors told by file and line."""

import importlib.util
import sys
import traceback
from pathlib import Path
from types import ModuleType
from typing import Any

from ..errors import UsageFault

_OURS = frozenset({"cli", "eventlog", "evrun", "projections"})


def load_name(text: str, option: str) -> tuple[Any, Path]:
    """What ``FILE.py:NAME`` names, and the file. `option` says in messages where the text came from.

    The file's neighbours can be imported by it.

    Raises:
        UsageFault: no such file, the file cannot be run, or there is no such name in it.
    """
    file, colon, name = text.rpartition(":")
    path = Path(file)
    if not colon or path.suffix != ".py" or not name.isidentifier():
        raise UsageFault(f"{option} {text}: expected FILE.py:NAME, for example spend.py:SpendPerHour")
    if not path.is_file():
        raise UsageFault(f"{option} {text}: there is no file {path}", "give the path of a Python file")
    found = vars(run_file(path, option)).get(name)
    if found is None:
        raise UsageFault(f"{option} {text}: there is no {name} in {path}")
    return found, path


def place_of(error: BaseException, path: Path) -> str:
    """Where in a file something went wrong: its last line that took part; the file, where none did."""
    whole = str(path.absolute())
    if isinstance(error, SyntaxError) and error.filename == whole:
        return f"{path}, line {error.lineno}"
    frames = traceback.extract_tb(error.__traceback__)
    lines = [frame.lineno for frame in frames if frame.filename == whole]
    return f"{path}, line {lines[-1]}" if lines else str(path)


def run_file(path: Path, option: str) -> ModuleType:
    """Run a Python file that is there, once more at each call; its neighbours can be imported by it.

    Raises:
        UsageFault: it cannot be run; with file, line, and what to do.
    """
    if path.stem in _OURS:
        raise UsageFault(
            f"{option} {path}: a file of this name hides evrun's own {path.stem} from what it imports",
            "give the file another name",
        )
    # A name of its own, so that a file called json.py is not the library's json to anybody.
    spec = importlib.util.spec_from_file_location(f"evrun_own_{path.stem}", path.absolute())
    assert spec is not None, "the suffix is .py"
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    # Its dataclasses and type hints look it up there.
    sys.modules[spec.name] = module
    neighbours = str(path.parent.resolve())
    if neighbours not in sys.path:
        sys.path.append(neighbours)
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        raise UsageFault(
            f"{option} {place_of(error, path)}: {type(error).__name__}: {error}",
            "mend the file, then do this again",
        ) from error
    return module
