"""One training task, done once without an adapter, in a run of its own that is thrown away."""

import json
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple

import msgspec

from eventlog.events import Recorded
from projections import RunState, usd

from ..errors import EvrunError, Stopped
from .config import EvalConfig, TrainingConfig
from .tasks import Tasks
from .trainer import run_evaluation

STAND_IN = "evrun-stand-in"
"""A run needs a task to train on besides the one that is probed."""
_SHOWN = 200


class Probe(NamedTuple):
    """How it went: `state` is "ok" or "PROBLEM"; `task` is which, `score` what the judge gave."""

    state: Literal["ok", "PROBLEM"]
    task: str
    score: float | None
    cost_usd: str | None
    detail: str
    hint: str | None = None


async def probe(config: TrainingConfig, tasks: Tasks, environment: Mapping[str, str]) -> Probe:
    """Let the agent work on the first training task and the judge score it. What that costs is told.

    Raises:
        Stopped: a signal came.
    """
    task = tasks.train[0]
    with tempfile.TemporaryDirectory(prefix="evrun-check-") as name:
        place = Path(name)
        try:
            result = await run_evaluation(_shrunk(config, tasks, place), "none", environment, _Silent())
        except Stopped:
            raise
        except EvrunError as error:
            return Probe("PROBLEM", task, None, None, str(error), error.hint)
        if result.name == "interrupted":
            raise Stopped(f"{result.reason}: the probe was not finished", result.exit_code)
        row = _row(place, config.trainer.run_name)
    total = result.state.ledger.total
    cost = usd(total.settled_nano_usd) if not result.state.ledger.in_doubt else None
    told = f"cost {cost} USD, in no run's account" if cost else "what it cost is in doubt"
    if row is None:
        return Probe("PROBLEM", task, None, cost, f"task {task}: {result.reason or 'no result'}; {told}")
    problem = _problem(row)
    if problem is not None:
        return Probe(
            "PROBLEM", task, None, cost, f"task {task}: {problem}; {told}", "mend it and check again"
        )
    score = row["judge"]["score"]
    shown = json.dumps(row["output"], ensure_ascii=False)
    shown = shown if len(shown) <= _SHOWN else f"{shown[: _SHOWN - 1]}…"
    return Probe(
        "ok", task, score, cost, f"task {task} without an adapter: score {score}, {told}; output {shown}"
    )


def _problem(row: dict[str, Any]) -> str | None:
    """What went wrong, if anything did."""
    if row["status"] != "ok" or row.get("error"):
        return f"{row['status']}: {row.get('error')}"
    judge = row.get("judge") or {}
    return None if judge.get("score") is not None else f"the judge gave no score: {judge.get('error')}"


def _shrunk(config: TrainingConfig, tasks: Tasks, place: Path) -> TrainingConfig:
    """The configuration of a run with this one task to evaluate, in a directory of its own."""
    row = tasks.rows[tasks.train[0]]
    rows = [{"id": STAND_IN}, row]
    (place / "tasks.jsonl").write_bytes(b"".join(msgspec.json.encode(one) + b"\n" for one in rows))
    (place / "train.txt").write_text(STAND_IN, "utf-8")
    (place / "test.txt").write_text(tasks.train[0], "utf-8")
    replace = msgspec.structs.replace
    data = replace(
        config.data,
        tasks=str(place / "tasks.jsonl"),
        train=str(place / "train.txt"),
        val=None,
        test=str(place / "test.txt"),
    )
    trainer = replace(
        config.trainer,
        output_dir=str(place / "runs"),
        tree_dir=str(place / "tree"),
        resume_mode="auto",
        retries=0,
    )
    return replace(config, data=data, trainer=trainer, start_from=None, eval=EvalConfig(repeats=1))


def _row(place: Path, run: str) -> dict[str, Any] | None:
    """The one line of the evaluation's results."""
    path = place / "runs" / run / "eval" / "none" / "results.jsonl"
    lines = path.read_bytes().splitlines() if path.is_file() else []
    return json.loads(lines[0]) if lines else None


class _Silent:
    """Nobody is told of a probe while it works."""

    def note(self, text: str) -> None:
        """Say nothing."""

    def progress(self, state: RunState) -> None:
        """Show nothing."""

    @property
    def see(self) -> Callable[[Recorded], None] | None:
        """Look at nothing."""
        return None
