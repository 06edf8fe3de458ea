"""Running a batch from Python, in a script, in an async program, and in a notebook."""

import difflib
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple, get_type_hints

import msgspec

from ..agents.function_agent import hand_over
from ..batch import CAP_OPTIONS, Options, Result, Switch, parse_cap, report_of, run_batch
from ..batch.settings import Settings
from ..errors import UsageFault
from .opened import Run
from .opening import open_run
from .progress import LineProgress, Silent
from .threads import finish

Dataset = str | Path | Iterable[str | Mapping[str, Any]]
_FLAGS = ("retry_failed", "retry_discarded", "skip_bad_rows")
_CAPS = {option.removeprefix("--").replace("-", "_"): cap for cap, option in CAP_OPTIONS.items()}
_SETTINGS = frozenset(Settings.__struct_fields__) - {"dataset", "prefill", "judge_text"}
_TYPES = get_type_hints(Settings)
_LISTS = frozenset({"toolsets", "web_allow", "providers_allowed", "providers_ignored", "providers_order"})
_OTHER_NAMES = {"price": "prices", "header": "headers", "num_workers": "concurrency"}


class RunResult(NamedTuple):
    """How a session ended.

    `state` is "done", "paused", "interrupted" or "failed" and `reason` says why it is not done; `exit_code`
    is that of `evrun run`; `report` is the object that `evrun run --json` prints; `run` reads the run.
    """

    state: str
    reason: str | None
    exit_code: int
    report: dict[str, Any]
    run: Run


def run(
    dataset: Dataset | None = None,
    *,
    run_name: str,
    output_dir: str | Path = "data",
    resume: bool = False,
    progress: bool | Callable[[str], None] = True,
    environment: Mapping[str, str] | None = None,
    **options: Any,
) -> RunResult:
    """Run a batch, or go on with one (`resume=True`), and return when the session has ended.

    `dataset` is a path as `evrun run` takes it, or rows: strings, or mappings as a line of JSONL holds.
    `options` are those of `evrun run`, with underscores: ``model="m"``, ``concurrency=16``,
    ``keep_all=True``, ``budget_usd="5"``, ``price={"m": "0.15,0.60"}``, ``agent=my_async_function``.
    `environment` stands in for the process's own, which the key and the endpoint are read from. `progress`
    may be a function that is given each line.

    Works inside a running event loop too (a notebook): the session then runs in a thread, and interrupting
    the cell ends it in order.

    Raises:
        UsageFault: refused; nothing was spent and nothing was changed.
        LogLocked, LogRefused: the log is in use by another process, or not whole.
    """
    return finish(
        lambda switch: run_async(
            dataset, run_name=run_name, output_dir=output_dir, resume=resume, progress=progress,
            environment=environment, switch=switch, **options,
        )
    )  # fmt: skip


async def run_async(
    dataset: Dataset | None = None,
    *,
    run_name: str,
    output_dir: str | Path = "data",
    resume: bool = False,
    progress: bool | Callable[[str], None] = True,
    environment: Mapping[str, str] | None = None,
    switch: Switch | None = None,
    **options: Any,
) -> RunResult:
    """`run` for an asyncio program: on its own loop. `switch.turn()` ends the session in order."""
    typed = _options(run_name, Path(output_dir), resume=resume, given=options)
    ui = LineProgress(progress) if callable(progress) else LineProgress() if progress else Silent()
    with _dataset(dataset) as (path, name):
        typed.dataset, typed.dataset_name = path, name
        variables = dict(os.environ if environment is None else environment)
        result = await run_batch(typed, variables, ui, switch or Switch())
    return _result(result, typed)


def _result(result: Result, options: Options) -> RunResult:
    report = report_of(result, options)
    return RunResult(result.name, result.reason, result.exit_code, report, open_run(options.directory))


def _options(run_name: str, output_dir: Path, *, resume: bool, given: dict[str, Any]) -> Options:
    options = Options(run_name=run_name, output_dir=output_dir, resume=resume)
    settings: dict[str, Any] = {}
    caps: dict[str, int | None] = {}
    for name, value in given.items():
        if name in _CAPS:
            caps[_CAPS[name]] = parse_cap(_CAPS[name], "none" if value is None else str(value))
        elif name in _FLAGS:
            setattr(options, name, bool(value))
        elif name == "prefill_messages_file":
            options.prefill_messages_file = Path(value)
        else:
            settings |= _setting(name, value)
    return msgspec.structs.replace(options, given=settings, caps=caps)


def _setting(name: str, value: Any) -> dict[str, Any]:
    """An option as a setting: named as on the command line; a value as Python has it, or as it is typed."""
    name = _OTHER_NAMES.get(name, name)
    if name == "keep_all":
        return {"require_reasoning": not value}
    if name == "agent" and callable(value):
        return {"agent": hand_over(value)}
    if name not in _SETTINGS:
        near = difflib.get_close_matches(name, [*_SETTINGS, *_CAPS, *_FLAGS, "keep_all", "price"], n=1)
        hint = f"did you mean {near[0]}?" if near else "`evrun run --help` lists the options"
        raise UsageFault(f"{name}=: no option of that name", hint=hint)
    try:
        given = msgspec.convert(_as_python(name, value), _TYPES[name], strict=False)
    except (msgspec.ValidationError, ValueError, TypeError) as error:
        raise UsageFault(
            f"{name}={value!r}: {error}", hint="`evrun run --help` says what it takes"
        ) from error
    return {name: given}


def _as_python(name: str, value: Any) -> Any:
    """What was typed as on the command line, as Python would have it."""
    if isinstance(value, Path):
        return str(value)
    if name == "prices" and isinstance(value, Mapping):
        return [f"{model}={amounts}" for model, amounts in value.items()]
    if name == "headers" and isinstance(value, list | tuple):
        return dict(pair.partition("=")[::2] for pair in value)
    if name in {"prices", "tools"}:
        return [value] if isinstance(value, str) else [str(item) for item in value]
    if not isinstance(value, str):
        return list(value) if isinstance(value, tuple | set) else value
    if name in _LISTS:
        return [] if value == "none" else [item.strip() for item in value.split(",") if item.strip()]
    if name == "extra_body" or (name == "response_format" and value.lstrip().startswith("{")):
        return json.loads(value)
    return {"type": value} if name == "response_format" else value


@contextmanager
def _dataset(given: Dataset | None) -> Iterator[tuple[Path | None, str | None]]:
    """The dataset as a file, because it is read twice: once to check it, once to plan it."""
    if given is None or isinstance(given, str | Path):
        yield (None if given is None else Path(given)), None
        return
    with TemporaryDirectory() as scratch:
        path = Path(scratch) / "rows.jsonl"
        with path.open("w", encoding="utf-8") as file:
            for number, row in enumerate(given, 1):
                file.write(_line(number, row) + "\n")
        yield path, "rows given from Python"


def _line(number: int, row: Any) -> str:
    if not isinstance(row, str | Mapping):
        raise UsageFault(f"row {number}: expected a string or a mapping, found {row!r}"[:200])
    try:
        return json.dumps({"prompt": row} if isinstance(row, str) else dict(row), allow_nan=False)
    except (TypeError, ValueError) as error:
        raise UsageFault(f"row {number}: {error}", hint="values are what JSON can hold") from error
