"""The tasks of a training run and their splits: read, checked, and put in the order of an epoch."""

import difflib
import random
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from projections import judge_unit

from ..errors import UsageFault
from .config import DataConfig, TrainingConfig

_JUDGE = judge_unit("")
LONGEST_ID = 200
_SHOWN = 5


class Tasks(NamedTuple):
    """Every task by its id, as its line says it, and the ids of the splits, in the order of their files."""

    rows: dict[str, dict[str, Any]]
    train: list[str]
    val: list[str]
    test: list[str]


def load_tasks(config: TrainingConfig) -> Tasks:
    """Read the tasks and the splits.

    Raises:
        UsageFault: a file cannot be read or is wrong, by file and line; two splits share a task.
    """
    data = config.data
    rows = _rows(Path(data.tasks))
    splits = {name: _split(name, path, rows) for name, path in _paths(data).items()}
    _check_disjoint(splits, _paths(data))
    return Tasks(rows, splits["train"], splits.get("val", []), splits.get("test", []))


def epoch_order(tasks: list[str], config: TrainingConfig, epoch: int) -> list[str]:
    """The tasks in the order in which an epoch's steps take them."""
    order = list(tasks)
    if config.data.shuffle:
        random.Random(config.data.shuffle_seed + epoch).shuffle(order)  # noqa: S311 (to be repeated)
    return order


def chunks(order: list[str], step_size: int) -> list[list[str]]:
    """The tasks of each step; the last may have fewer."""
    return [order[start : start + step_size] for start in range(0, len(order), step_size)]


def steps_total(config: TrainingConfig, train: list[str]) -> int:
    """How many steps all epochs have together."""
    return config.trainer.epochs * len(chunks(train, config.data.step_size))


def _paths(data: DataConfig) -> dict[str, Path]:
    given = {"train": data.train, "val": data.val, "test": data.test}
    return {name: Path(path) for name, path in given.items() if path is not None}


def _rows(path: Path) -> dict[str, dict[str, Any]]:
    rows: dict[str, dict[str, Any]] = {}
    lines: dict[str, int] = {}
    wrong: list[str] = []
    for number, line in enumerate(_lines("data.tasks", path), 1):
        if not line.strip():
            continue
        found = _row(line)
        name = found if isinstance(found, str) else _id(found)
        if isinstance(found, str) or not isinstance(name, str):
            wrong.append(f"line {number}: {found if isinstance(found, str) else name[0]}")
        elif name in rows:
            wrong.append(f"line {number}: the id {name!r} is that of line {lines[name]} as well")
        else:
            rows[name], lines[name] = found, number
    if wrong:
        more = f"; and {len(wrong) - _SHOWN} more" if len(wrong) > _SHOWN else ""
        raise UsageFault(
            f"data.tasks {path}, {'; '.join(wrong[:_SHOWN])}{more}",
            'a line is a JSON object with an id of its own, for example {"id": "a1", "prompt": "…"}',
        )
    if not rows:
        raise UsageFault(f"data.tasks {path}: holds no task", "give a JSON object a line, each with an id")
    return rows


def _row(line: str) -> dict[str, Any] | str:
    """A line as a task; a text says what is wrong with it."""
    try:
        row = msgspec.json.decode(line)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        return f"no JSON: {error}"
    return row if isinstance(row, dict) else f"expected a JSON object, found {line[:40]!r}"


def _id(row: dict[str, Any]) -> str | tuple[str]:
    """A task's id; a tuple says what is wrong with it."""
    given = row.get("id", row.get("task_id"))
    if isinstance(given, int) and not isinstance(given, bool):
        return str(given)
    if given is None:
        return ("it has no id",)
    if not isinstance(given, str):
        return (f"its id is {given!r}; expected a text or a whole number",)
    if not given or given != given.strip() or not given.isprintable() or len(given) > LONGEST_ID:
        return (
            f"its id is {given[:60]!r}; expected 1 to {LONGEST_ID} printable characters, no blank around",
        )
    if given.startswith("#") or given.endswith(_JUDGE):
        return (f"its id is {given!r}; expected one that neither begins with # nor ends with {_JUDGE}",)
    return given


def _split(name: str, path: Path, rows: dict[str, dict[str, Any]]) -> list[str]:
    key = f"data.{name}"
    found: dict[str, int] = {}
    for number, line in enumerate(_lines(key, path), 1):
        task = line.strip()
        if not task or task.startswith("#"):
            continue
        if task not in rows:
            near = difflib.get_close_matches(task, rows, n=1)
            raise UsageFault(
                f"{key} {path}, line {number}: there is no task {task!r} in data.tasks",
                f"did you mean {near[0]}?" if near else "write one id of a task a line",
            )
        if task in found:
            raise UsageFault(
                f"{key} {path}, line {number}: the task {task!r} is on line {found[task]} as well",
                "name each task once",
            )
        found[task] = number
    if not found:
        leave = "" if name == "train" else f", or leave {key} out"
        raise UsageFault(f"{key} {path}: it names no task", f"write one id of a task a line{leave}")
    return list(found)


def _check_disjoint(splits: dict[str, list[str]], paths: dict[str, Path]) -> None:
    seen: dict[str, str] = {}
    for name, tasks in splits.items():
        shared = [task for task in tasks if task in seen]
        if shared:
            other = seen[shared[0]]
            more = f" and {len(shared) - 1} more" if len(shared) > 1 else ""
            raise UsageFault(
                f"data.{name} {paths[name]}: the task {shared[0]!r}{more} is in data.{other} too",
                "a task belongs to one split: what is trained on says nothing when it is tested",
            )
        seen |= dict.fromkeys(tasks, name)


def _lines(key: str, path: Path) -> list[str]:
    """The lines of a file; only line feeds end one, as a text in JSON may hold other separators."""
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UsageFault(f"{key} {path}: not UTF-8 text at byte {error.start}") from error
    except OSError as error:
        raise UsageFault(
            f"{key} {path}: {error.strerror or error}", "paths are relative to the config file's directory"
        ) from error
    return text.split("\n")
