"""The process in which a learner's class lives; see `learner_process`.

It is told what to do by lines of JSON on stdin and answers each with one on stdout; see `_Line`. First it
says which methods the class has, or what is wrong with it. Orders are ``{"call": …}`` with all of a context
in it, answered by ``{"result"}`` or ``{"error"}``, and ``{"cancel": true}``, which is not answered. What a
learner prints goes to ``output/learner.log`` of its call. When evrun is gone, so is this process's group.

Nothing heavy is imported: this is the start of every run.
"""

import importlib
import importlib.util
import inspect
import json
import os
import queue
import signal
import sys
import tempfile
import threading
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import ModuleType
from typing import IO, Any

from .authoring import Evolver
from .learner_context import NotAResult, as_json, context_of, told

METHODS = ("setup", "bootstrap", "step", "finalize")
LOG_FILE = "learner.log"
_EXPECTED = "class Mine(Evolver): def step(self, ctx): return StepResult('done', 'what was changed')"
_OURS = frozenset({"cli", "eventlog", "evrun", "projections"})


class Unusable(Exception):
    """There is no such learner, and what to do."""

    def __init__(self, message: str, hint: str = _EXPECTED) -> None:
        super().__init__(message)
        self.hint = hint


class _Line:
    """The two pipes to evrun, out of reach of what the learner prints, reads, or starts."""

    def __init__(self) -> None:
        self._orders = os.fdopen(os.dup(0), "rb")
        self._answers = os.fdopen(os.dup(1), "wb")
        nothing = os.open(os.devnull, os.O_RDONLY)
        os.dup2(nothing, 0)
        os.close(nothing)
        self.cancel = threading.Event()
        self._waiting: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()

    def listen(self) -> None:
        """Take orders in a thread of its own; when no more can come, end this process and its group."""
        threading.Thread(target=self._listen, daemon=True, name="evrun").start()

    def next(self) -> dict[str, Any]:
        """The next call."""
        return self._waiting.get()

    def say(self, answer: bytes) -> None:
        """Answer evrun."""
        with suppress(BrokenPipeError):
            self._answers.write(answer + b"\n")
            self._answers.flush()

    def _listen(self) -> None:
        with suppress(OSError, ValueError):
            for line in self._orders:
                order = json.loads(line)
                if "call" in order:
                    self.cancel.clear()
                    self._waiting.put(order)
                else:
                    self.cancel.set()
        if os.getpgrp() == os.getpid():
            os.killpg(os.getpid(), signal.SIGKILL)
        os._exit(1)


def main(name: str) -> None:
    """Make the learner, and call it as evrun says until that is over."""
    line = _Line()
    line.listen()
    with tempfile.TemporaryFile() as early:
        _print_to(early.fileno())
        try:
            learner, file = _made(name)
        except Unusable as problem:
            line.say(as_json({"problem": str(problem), "hint": problem.hint}))
            return
        line.say(as_json({"methods": _methods(type(learner))}))
        while True:
            order = line.next()
            line.say(_called(learner, file, order, line.cancel, early))


def _called(
    learner: Any, file: str | None, order: dict[str, Any], cancel: threading.Event, early: IO[bytes]
) -> bytes:
    context = context_of(order, cancel)
    with _logging(context.workspace.output / LOG_FILE, early):
        try:
            given = getattr(learner, order["call"])(context)
            if inspect.isawaitable(given):
                given = _awaited(given)
            return as_json({"result": told(order["call"], given, context)})
        except NotAResult as error:
            return as_json({"error": str(error)})
        except BaseException as error:  # noqa: BLE001 (whatever a learner raises ends its call, and only that)
            traceback.print_exc()
            return as_json({"error": _told(error, file)})


def _awaited(given: Any) -> Any:
    import asyncio  # noqa: PLC0415 (few learners are async)

    async def whole() -> Any:
        return await given

    return asyncio.run(whole())


@contextmanager
def _logging(path: Path, early: IO[bytes]) -> Iterator[None]:
    """What is printed goes into the log; an empty one does not stay."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    early.seek(0)
    os.write(descriptor, early.read())
    early.truncate(0)
    _print_to(descriptor)
    os.close(descriptor)
    try:
        yield
    finally:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        _print_to(nowhere)
        os.close(nowhere)
        with suppress(OSError):
            if not path.stat().st_size:
                path.unlink()


def _print_to(descriptor: int) -> None:
    for stream in (sys.stdout, sys.stderr):
        with suppress(Exception):
            stream.flush()
    os.dup2(descriptor, 1)
    os.dup2(descriptor, 2)


def _made(name: str) -> tuple[Any, str | None]:
    """The learner, and the file of its class."""
    home, colon, class_name = name.rpartition(":")
    if not colon or not class_name.isidentifier():
        raise Unusable(f"expected FILE.py:CLASS, found {name}")
    module = _module(home)
    found = getattr(module, class_name, None)
    if not isinstance(found, type):
        raise Unusable(_missing(module, home, class_name, found))
    if "step" not in _methods(found):
        raise Unusable(f"{home}: the class {class_name} has no method step(self, ctx)")
    file = getattr(module, "__file__", None)
    try:
        learner = found()
    except (Exception, SystemExit) as error:  # noqa: BLE001 (as in `_called`)
        raise Unusable(
            f"{class_name}() failed: {_told(error, file)}", "it is made without arguments"
        ) from None
    if not hasattr(learner, "directory") and file is not None:
        with suppress(AttributeError):
            learner.directory = Path(file).parent
    return learner, file


def _missing(module: ModuleType, home: str, name: str, found: Any) -> str:
    if found is not None:
        return f"{home}: {name} is no class"
    here = [
        key
        for key, value in vars(module).items()
        if isinstance(value, type) and value.__module__ == module.__name__ and "step" in _methods(value)
    ]
    return f"{home}: there is no class {name}" + (f"; there is {', '.join(here)}" if here else "")


def _module(home: str) -> ModuleType:
    path = Path(home)
    try:
        return _file(path) if home.endswith(".py") else importlib.import_module(home)
    except Unusable:
        raise
    except (Exception, SystemExit) as error:  # noqa: BLE001 (as in `_called`)
        hint = str(getattr(error, "hint", None) or "mend it, then do this again")
        raise Unusable(_told(error, str(path.absolute()) if home.endswith(".py") else None), hint) from None


def _file(path: Path) -> ModuleType:
    if not path.is_file():
        raise Unusable(f"there is no file {path}", "give the path of a Python file")
    if path.stem in _OURS:
        why = f"{path}: a file of this name hides evrun's own {path.stem} from what it imports"
        raise Unusable(why, "give the file another name")
    # A name of its own, so that a file called json.py is not the library's json to anybody.
    spec = importlib.util.spec_from_file_location(f"evrun_own_{path.stem}", path.absolute())
    assert spec is not None, "the suffix is .py"
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    sys.path.append(str(path.parent.resolve()))
    spec.loader.exec_module(module)
    return module


def _methods(kind: type) -> list[str]:
    """Those that the class has of its own: what `Evolver` only describes is not there."""
    return [
        name
        for name in METHODS
        if callable(getattr(kind, name, None)) and getattr(kind, name) is not getattr(Evolver, name)
    ]


def _told(error: BaseException, file: str | None) -> str:
    """An error in one line, with the last place in the learner's file that took part."""
    if isinstance(error, SyntaxError):
        return f"{error.filename}, line {error.lineno}: {type(error).__name__}: {error.msg}"
    frames = traceback.extract_tb(error.__traceback__)
    lines = [frame.lineno for frame in frames if file is not None and frame.filename == file]
    what = f"{type(error).__name__}: {error}".rstrip(": ")
    return f"{file}, line {lines[-1]}: {what}" if lines else what
