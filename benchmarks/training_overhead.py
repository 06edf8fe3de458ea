"""What a trainer costs by itself: steps whose task and learner cost nothing, beside hermit-harness 0.1.0.

python benchmarks/training_overhead.py [--steps 300] [--turn 25] [--still] [--trainers evrun,hermit,…]
                                       [--venvs DIR] [--json FILE]

Both trainers run the same toy (four tasks, two a step) in processes of their own and take turns of 25 steps,
so a busy machine is busy for both; `--trainers` takes names below or `module:Class`. A step is what lies
between two calls of the learner. The learner changes the adapter in every step, unless --still.
hermit-harness is installed through pip into an environment of its own under --venvs; it runs without its
sandbox (bubblewrap), as evrun has none.
"""

import argparse
import importlib
import json
import os
import platform
import signal
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks._money import Unavailable  # noqa: E402
from benchmarks._training import STEP_SIZE, Measured, Plan, Trainer  # noqa: E402

TRAINERS = {"evrun": "benchmarks._training:Evrun", "hermit": "benchmarks._training:Hermit"}
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "evrun-bench"
GOAL_S = 0.05
FLAT = 1.25


def load(name: str) -> Trainer:
    """The trainer that a name stands for."""
    module, _, cls = TRAINERS.get(name, name).partition(":")
    if not cls:
        sys.exit(f"no such trainer: {name}; there are {', '.join(TRAINERS)}, and module:Class")
    trainer: Trainer = getattr(importlib.import_module(module), cls)()
    return trainer


def measure(trainers: Sequence[Trainer], plan: Plan, absent: dict[str, str]) -> dict[str, Measured]:
    """All trainers in turns; one that does not come to its end is left out, with the reason."""
    found: dict[str, Measured] = {}
    with tempfile.TemporaryDirectory() as scratch:
        for trainer in trainers:
            attempt(trainer, absent, lambda one: one.begin(plan, Path(scratch) / one.name))
        for last in [*range(plan.turn, plan.steps, plan.turn), plan.steps]:
            for trainer in trainers:
                attempt(trainer, absent, lambda one, last=last: one.go(last, ends=last == plan.steps))
                if last == plan.steps:
                    attempt(trainer, absent, lambda one: found.update({one.name: one.end()}))
            print(f"{last} of {plan.steps} steps", file=sys.stderr, flush=True)
    return found


def attempt(trainer: Trainer, absent: dict[str, str], act) -> None:  # noqa: ANN001 (a callable on a trainer)
    """Do it, unless this trainer has failed before."""
    if trainer.name in absent:
        return
    try:
        act(trainer)
    except Unavailable as reason:
        absent[trainer.name] = str(reason)


def numbers(found: Measured) -> dict[str, float]:
    """What is shown of a run; steps in milliseconds."""
    steps = [1000 * step for step in found.steps_s]
    part = max(1, len(steps) // 6)
    first, last = statistics.median(steps[:part]), statistics.median(steps[-part:])
    return {
        "start, s": found.start_s,
        "step, ms": statistics.median(steps),
        "step, 90 %": statistics.quantiles(steps, n=10)[-1] if len(steps) > 1 else steps[0],
        "first sixth": first,
        "last sixth": last,
        "last/first": last / first,
        "CPU/step, ms": 1000 * found.cpu_s / (len(steps) + 1),
    }


def head(plan: Plan, versions: Sequence[str]) -> str:
    """The machine, the commit, the versions and what was asked for."""
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    learner = "changes the adapter in each" if plan.changes else "changes nothing"
    return (
        f"{platform.platform()}, {os.cpu_count()} cores, Python {platform.python_version()}, "
        f"commit {commit.stdout.strip()}, {', '.join(versions)}\n"
        f"{plan.steps} steps of {STEP_SIZE} tasks, the learner {learner}; medians; turns of {plan.turn} steps"
    )


def show(found: Mapping[str, Measured], absent: Mapping[str, str], top: str) -> None:
    """Print all."""
    print(top)
    table = {name: numbers(one) for name, one in found.items()}
    if table:
        titles = list(next(iter(table.values())))
        print(" " * 16 + "".join(f"{title:>14}" for title in titles))
        for name, row in table.items():
            print(f"{name:<16}" + "".join(f"{value:>14.2f}" for value in row.values()))
        for name in [name for name in table if name != "evrun" and "evrun" in table]:
            ratios = [table["evrun"][title] / table[name][title] for title in titles]
            print(f"{'evrun / it':<16}" + "".join(f"{ratio:>14.3f}" for ratio in ratios))
    if "evrun" in table:
        median, growth = table["evrun"]["step, ms"] / 1000, table["evrun"]["last/first"]
        print(f"goal: {GOAL_S:.2f} s a step or less: {median:.3f}, {'met' if median <= GOAL_S else 'MISSED'}")
        print(
            f"goal: flat, last sixth / first <= {FLAT}: {growth:.2f}, {'met' if growth <= FLAT else 'MISSED'}"
        )
    for name, reason in absent.items():
        print(f"{name} is not in the table: {reason}")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--turn", type=int, default=25)
    parser.add_argument("--still", action="store_true", help="the learner leaves the adapter as it is")
    parser.add_argument("--trainers", default=",".join(TRAINERS))
    parser.add_argument("--venvs", type=Path, default=CACHE, help="where hermit-harness is installed")
    parser.add_argument("--json", type=Path, help="write the seconds of every step there")
    given = parser.parse_args()
    trainers, versions, absent = [], [], {}
    for trainer in map(load, given.trainers.split(",")):
        try:
            versions.append(trainer.install(given.venvs))
            trainers.append(trainer)
        except Unavailable as reason:
            absent[trainer.name] = str(reason)
    plan = Plan(given.steps, given.turn, not given.still)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        found = measure(trainers, plan, absent)
    finally:
        for trainer in trainers:
            trainer.kill()
    show(found, absent, head(plan, versions))
    if given.json:
        record = {"found": {name: one._asdict() for name, one in found.items()}, "absent": absent}
        given.json.write_text(json.dumps(record, indent=1), "utf-8")
    sys.exit(0 if "evrun" in found else 1)


if __name__ == "__main__":
    main()
