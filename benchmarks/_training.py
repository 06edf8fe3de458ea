"""The toy of the training benchmark, for two trainers: a task and a learner that cost nothing, and a gate.

The learner notes when it is called and when it goes back, so a step is measured from outside the trainer:
from its going back to its next being called lies all that a trainer does for a step. At the gate it waits
until its next steps are wanted: so trainers that run at the same time take turns.
"""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path
from typing import ClassVar, NamedTuple

import yaml

from ._money import Unavailable
from ._money_peers import once

ROOT = Path(__file__).resolve().parent.parent
TASKS = 4
STEP_SIZE = 2
DEADLINE_S = 3600
TAIL = 1500

LEARNER = """\
import time
from pathlib import Path

{imports}


class Toy(Evolver):
    def step(self, ctx):
        number = ctx.progress.step
        note(ctx, f"called {{number}}")
        while int(Path(ctx.params["gate"]).read_text() or 0) < number:
            time.sleep(0.1)
        if ctx.params["changes"]:
            (ctx.workspace.adapter / "ADAPTER.md").write_text(f"Step {{number:06d}}.\\n")
        note(ctx, f"back {{number}}")
        return StepResult(status="done", summary="nothing was learned")


def note(ctx, what):
    with open(ctx.params["notes"], "a") as file:
        file.write(f"{{what}} {{time.monotonic_ns()}}\\n")
"""
AGENT = "def run(task, adapter):\n    return {output}\n"
JUDGE = "def score(task, output):\n    return 0.5\n"


class Plan(NamedTuple):
    """How many steps, how many before the other's turn, and whether the learner changes the adapter."""

    steps: int
    turn: int
    changes: bool


class Measured(NamedTuple):
    """One trainer's run, in seconds: from its start to the first call, each step; and all its CPU time."""

    start_s: float
    steps_s: list[float]
    cpu_s: float


class Trainer:
    """A trainer that goes through the toy."""

    name: ClassVar[str]
    imports: ClassVar[str]
    output: ClassVar[str] = 'str(task["prompt"])'

    def install(self, cache: Path) -> str:
        """Make it ready; its name and version.

        Raises:
            Unavailable: it cannot be had.
        """
        raise NotImplementedError

    def command(self, config: Path) -> list[str]:
        """What trains by a config."""
        raise NotImplementedError

    def configure(self, config: dict[str, object], directory: Path) -> None:
        """What is this trainer's own in the config, and beside it."""

    def begin(self, plan: Plan, directory: Path) -> None:
        """Write the toy and start; it stops at the gate of its first step."""
        directory.mkdir(parents=True)
        self.directory, self.notes, self.gate = directory, directory / "notes", directory / "gate"
        self.notes.touch()
        self.gate.write_text("0")
        config = self._toy(plan)
        (directory / "run.yaml").write_text(yaml.safe_dump(config), "utf-8")
        self.began = time.monotonic_ns()
        with (directory / "printed").open("wb") as printed:
            self.process = subprocess.Popen(
                self.command(directory / "run.yaml"),
                cwd=directory,
                env=self._environment(),
                stdin=subprocess.DEVNULL,
                stdout=printed,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self._until("called 1 ")

    def go(self, last: int, *, ends: bool) -> None:
        """Let it do its steps up to `last`, and wait until it has; or until it `ends`."""
        waiting = self.gate.with_suffix(".new")
        waiting.write_text(str(last))
        waiting.replace(self.gate)
        if not ends:
            self._until(f"called {last + 1} ")

    def kill(self) -> None:
        """End it and what it started, if it still runs: it would wait at the gate for ever."""
        if hasattr(self, "process") and self.process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)

    def end(self) -> Measured:
        """Wait for its end, and say how long all took."""
        _, status, used = os.wait4(self.process.pid, 0)
        self.process.returncode = os.waitstatus_to_exitcode(status)
        if self.process.returncode != 0:
            raise Unavailable(f"it ended with {self.process.returncode}: {self._said()}")
        called, back = self._moments("called"), self._moments("back")
        steps = [(called[number + 1] - back[number]) / 1e9 for number in sorted(back) if number + 1 in called]
        cpu = used.ru_utime + used.ru_stime
        return Measured((called[1] - self.began) / 1e9, steps, cpu)

    def _toy(self, plan: Plan) -> dict[str, object]:
        rows = [{"id": f"t{number}", "prompt": f"task {number}"} for number in range(TASKS)]
        lines = "".join(json.dumps(row) + "\n" for row in rows)
        (self.directory / "tasks.jsonl").write_text(lines, "utf-8")
        (self.directory / "train.txt").write_text("".join(f"{row['id']}\n" for row in rows), "utf-8")
        (self.directory / "agent.py").write_text(AGENT.format(output=self.output), "utf-8")
        (self.directory / "judge.py").write_text(JUDGE, "utf-8")
        (self.directory / "learner.py").write_text(LEARNER.format(imports=self.imports), "utf-8")
        params = {"notes": str(self.notes), "gate": str(self.gate), "changes": plan.changes}
        config: dict[str, object] = {
            "data": {"tasks": "tasks.jsonl", "train": "train.txt", "step_size": STEP_SIZE},
            "agent": {"name": "agent.py:run", "concurrency": STEP_SIZE},
            "judge": {"path": "judge.py", "name": "score"},
            "template": "prompt-only",
            "evolver": {"name": "learner.py:Toy", "params": params},
            "trainer": {
                "run_name": "toy",
                "output_dir": "runs",
                "epochs": -(-plan.steps * STEP_SIZE // TASKS),
                "budget": {"hours": 2},
            },
        }
        self.configure(config, self.directory)
        return config

    def _environment(self) -> dict[str, str]:
        away = ("EVRUN_", "OPENAI_", "ANTHROPIC_", "PYTHON")
        return {name: value for name, value in os.environ.items() if not name.startswith(away)}

    def _moments(self, what: str) -> dict[int, int]:
        words = [line.split() for line in self.notes.read_text("utf-8").splitlines()]
        return {int(number): int(moment) for kind, number, moment in words if kind == what}

    def _until(self, noted: str) -> None:
        deadline = time.monotonic() + DEADLINE_S
        while noted not in self.notes.read_text("utf-8"):
            if self.process.poll() is not None:
                raise Unavailable(f"it ended early, with {self.process.returncode}: {self._said()}")
            if time.monotonic() > deadline:
                self.process.kill()
                raise Unavailable(f"{noted!r} was not seen in {DEADLINE_S} s; it printed: {self._said()}")
            time.sleep(0.05)

    def _said(self) -> str:
        return (self.directory / "printed").read_text("utf-8", "replace")[-TAIL:].strip()


class Evrun(Trainer):
    """The checkout's."""

    name = "evrun"
    imports = "from evrun import Evolver, StepResult"

    def install(self, cache: Path) -> str:
        """It is there."""
        del cache
        return f"evrun {metadata.version('evrun')}"

    def command(self, config: Path) -> list[str]:
        """`evrun train`."""
        return [sys.executable, "-m", "cli.main", "train", "--config", str(config), "--json"]

    def _environment(self) -> dict[str, str]:
        return super()._environment() | {"PYTHONPATH": str(ROOT)}


class Hermit(Trainer):
    """hermit-harness from PyPI, in an environment of its own, without a sandbox: evrun has none either."""

    name = "hermit-harness"
    imports = "from hermit.evolver.base import Evolver, StepResult"
    output = '__import__("hermit.task").task.RunOutput(output=str(task["prompt"]))'
    wanted: ClassVar[Sequence[str]] = ("hermit-harness==0.1.0",)

    def install(self, cache: Path) -> str:
        """A venv, made once."""
        if shutil.which("git") is None:
            raise Unavailable("it needs the program git, which is not here")
        self.venv = cache.resolve() / "hermit-harness"
        pip = [str(self.venv / "bin/python"), "-m", "pip", "install", "--quiet", *self.wanted]
        once(self.venv, " ".join(self.wanted), [[sys.executable, "-m", "venv", str(self.venv)], pip])
        return self.wanted[0].replace("==", " ")

    def configure(self, config: dict[str, object], directory: Path) -> None:
        """A learner is a directory with a manifest."""
        (directory / "toy").mkdir()
        (directory / "toy/evolver.yaml").write_text("class: learner.py:Toy\n", "utf-8")
        (directory / "learner.py").rename(directory / "toy/learner.py")
        evolver = config["evolver"]
        assert isinstance(evolver, dict)
        evolver["name"] = "toy"
        config["sandbox"] = {"enabled": False}

    def command(self, config: Path) -> list[str]:
        """`hermit train`."""
        return [str(self.venv / "bin/hermit"), "train", "--config", str(config)]
