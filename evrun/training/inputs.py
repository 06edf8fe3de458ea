"""The inputs of a run by digest: what a resume compares with the record."""

import ast
import hashlib
import importlib.util
import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from eventlog.events import InputDigest

from ..batch.agent_setting import COMMAND, files_of_command
from ..errors import UsageFault
from .blobs import Files
from .config import CHAT, TrainingConfig
from .config_checks import LEARNERS

_SKIPPED = frozenset({"__pycache__", ".git"})
MOST_FILES = 10_000


def input_digests(config: TrainingConfig, template_files: Files) -> list[InputDigest]:
    """Digests of tasks, splits, task_info, template, and of the user's code.

    Code is the file that a key names, and the files beside it that it imports, each by a name of its own
    (``agent.name``, ``agent.name/helpers.py``). A directory is one input.

    Raises:
        UsageFault: a file cannot be read.
    """
    data = config.data
    found = [_of_file(f"data.{name}", path) for name, path in (
        ("tasks", data.tasks), ("train", data.train), ("val", data.val), ("test", data.test),
    ) if path is not None]  # fmt: skip
    if config.task_info is not None:
        found.append(_of_directory("task_info", Path(config.task_info)))
    contents = ((path, content.data) for path, content in sorted(template_files.items()))
    found.append(_of_contents("template", config.template, contents))
    found += agent_digests(config)
    if config.judge.path is not None:
        found += _of_modules("judge.path", Path(config.judge.path))
    rubric = config.judge.params.get("rubric_file")
    if config.judge.path is None and isinstance(rubric, str):
        found.append(_of_file("judge.params.rubric_file", rubric))
    return found + _of_code("evolver.name", config.evolver.name, LEARNERS)


def agent_digests(config: TrainingConfig) -> list[InputDigest]:
    """Digests of what works on tasks: the agent's code, or that of the tools that `chat` is given.

    Raises:
        UsageFault: a file cannot be read.
    """
    found = _of_code("agent.name", config.agent.name, (CHAT,))
    if config.agent.name == CHAT:
        for path in config.agent.params.get("tools") or []:
            found += _of_modules(f"agent.params.tools/{Path(path).name}", Path(path))
    return found


def _of_code(key: str, name: str, built_in: tuple[str, ...]) -> list[InputDigest]:
    if name in built_in:
        return []
    if name.startswith(COMMAND):
        files = [path for path in files_of_command(name) if str(path.parent) not in os.get_exec_path()]
        return [
            _of_file(f"{key}/{path.name}" if place else key, str(path)) for place, path in enumerate(files)
        ]
    home = name.rpartition(":")[0]
    path = Path(home) if home.endswith(".py") else _file_of_module(home)
    return [] if path is None else _of_modules(key, path)


def _file_of_module(module: str) -> Path | None:
    """The file of an importable module, found without importing it; null where there is none."""
    top, *rest = module.split(".")
    try:
        spec = importlib.util.find_spec(top)
    except (ImportError, ValueError):
        return None
    if spec is None or (rest and not spec.submodule_search_locations):
        return None
    if not rest:
        return Path(spec.origin) if spec.origin and spec.origin.endswith(".py") else None
    for place in spec.submodule_search_locations or ():
        for path in (Path(place, *rest[:-1], f"{rest[-1]}.py"), Path(place, *rest, "__init__.py")):
            if path.is_file():
                return path
    return None


def _of_modules(key: str, path: Path) -> list[InputDigest]:
    """A Python file, and those of its directory that it imports, and those that they import."""
    base = path.parent
    names = {path: key}
    waiting = [path]
    while waiting:
        for imported in _imported_beside(waiting.pop(), base):
            if imported not in names and len(names) < MOST_FILES:
                names[imported] = f"{key}/{imported.relative_to(base).as_posix()}"
                waiting.append(imported)
    return [_of_file(name, str(file)) for file, name in sorted(names.items(), key=lambda item: item[1])]


def _imported_beside(path: Path, base: Path) -> Iterator[Path]:
    """The files below `base` that a Python file's imports name."""
    try:
        tree = ast.parse(path.read_bytes())
    except (OSError, SyntaxError, ValueError):
        # Whoever loads it says what is wrong with it.
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield from _files_of(base, alias.name.split("."))
        elif isinstance(node, ast.ImportFrom):
            above = path.parents[node.level - 1] if 0 < node.level <= len(path.parents) else base
            parts = node.module.split(".") if node.module else []
            for alias in node.names:
                yield from (one for one in _files_of(above, [*parts, alias.name]) if one.is_relative_to(base))


def _files_of(base: Path, parts: list[str]) -> Iterator[Path]:
    """The files that importing a dotted name runs: packages on the way, and the module."""
    for count in range(1, len(parts) + 1):
        for path in (
            Path(base, *parts[:count], "__init__.py"),
            Path(base, *parts[:count]).with_suffix(".py"),
        ):
            if path.is_file():
                yield path


def _of_file(name: str, path: str) -> InputDigest:
    data = _read(name, Path(path))
    return InputDigest(name, hashlib.sha256(data).hexdigest(), len(data), path)


def _of_directory(name: str, directory: Path) -> InputDigest:
    if not directory.is_dir():
        raise UsageFault(
            f"{name} {directory}: there is no such directory", "it holds README.md for the learner"
        )
    files = sorted(
        Path(place, file)
        for place, _, inside in os.walk(directory)
        if _SKIPPED.isdisjoint(Path(place).relative_to(directory).parts)
        for file in inside
    )
    if len(files) > MOST_FILES:
        raise UsageFault(
            f"{name} {directory}: holds more than {MOST_FILES} files", "name a smaller directory"
        )
    contents = ((path.relative_to(directory).as_posix(), _read(name, path)) for path in files)
    return _of_contents(name, str(directory), contents)


def _of_contents(name: str, path: str, contents: Iterable[tuple[str, bytes]]) -> InputDigest:
    digest, size = hashlib.sha256(), 0
    for file, data in contents:
        digest.update(f"{file}\0{hashlib.sha256(data).hexdigest()}\n".encode("utf-8", "surrogateescape"))
        size += len(data)
    return InputDigest(name, digest.hexdigest(), size, path)


def _read(name: str, path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise UsageFault(f"{name} {path}: {error.strerror or error}") from error
