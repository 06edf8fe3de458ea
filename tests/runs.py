"""Start, kill and read real `evrun` processes, for tests that look from the outside."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests import warm

ROOT = Path(__file__).resolve().parent.parent
DEADLINE_S = 90.0
Process = subprocess.Popen[str] | warm.Warm


def environment(**more: str) -> dict[str, str]:
    """This process's environment without anything that would lead a run elsewhere."""
    away = ("OPENAI_", "EVRUN_", "PYTHONDONTWRITE")
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(away) and not name.lower().endswith("_proxy")
    }
    return {**kept, "PYTHONPATH": str(ROOT), **more}


def start(*arguments: object, cwd: Path, **env: str) -> Process:
    """Start `evrun ARGUMENTS` in a directory."""
    words, surroundings = [*map(str, arguments)], environment(**env)
    if warm.fits(surroundings):
        return warm.start("cli.main:main", words, cwd=cwd, environment=surroundings)
    return subprocess.Popen(
        [sys.executable, "-m", "cli.main", *words],
        cwd=cwd,
        env=surroundings,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


class Ended:
    """How an `evrun` command ended."""

    def __init__(self, code: int, stdout: str, stderr: str) -> None:
        self.code = code
        self.stdout = stdout
        self.stderr = stderr

    @property
    def json(self) -> Any:
        """The last line of stdout, as JSON."""
        return json.loads(self.stdout.splitlines()[-1])

    def __repr__(self) -> str:
        return f"exit {self.code}\nstdout: {self.stdout}\nstderr: {self.stderr}"


def finish(process: Process, timeout_s: float = DEADLINE_S) -> Ended:
    """Wait for a started command."""
    stdout, stderr = process.communicate(timeout=timeout_s)
    return Ended(process.returncode, stdout, stderr)


def evrun(*arguments: object, cwd: Path, **env: str) -> Ended:
    """Run `evrun ARGUMENTS` in a directory to its end."""
    return finish(start(*arguments, cwd=cwd, **env))


def wait_until(holds: Callable[[], bool], what: str, timeout_s: float = DEADLINE_S) -> None:
    """Wait until something holds.

    Raises:
        AssertionError: it did not within the deadline.
    """
    deadline = time.monotonic() + timeout_s
    while not holds():
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {timeout_s:g} s: {what}")
        time.sleep(0.005)


def kill(process: Process) -> Ended:
    """End a process as a power cut would: SIGKILL."""
    process.send_signal(signal.SIGKILL)
    return finish(process)


def write_prompts(path: Path, prompts: list[str]) -> Path:
    """A dataset of these prompts."""
    path.write_text("".join(json.dumps({"prompt": prompt}) + "\n" for prompt in prompts), encoding="utf-8")
    return path


def gsm8k(path: Path, count: int) -> Path:
    """A dataset of `count` prompts: the example's real ones, again and again with a number in front."""
    rows = [json.loads(line) for line in (ROOT / "examples/gsm8k_20.jsonl").read_text("utf-8").splitlines()]
    prompts = [
        rows[n % len(rows)]["prompt"] if n < len(rows) else f"({n}) {rows[n % len(rows)]['prompt']}"
        for n in range(count)
    ]
    return write_prompts(path, prompts)


def rows_of(path: Path) -> list[dict[str, Any]]:
    """The rows of a JSONL file."""
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def prompts_of(run: Path) -> list[str]:
    """The prompts of the kept trajectories, in file order."""
    return [
        next(turn["value"] for turn in row["conversations"] if turn["from"] == "human")
        for row in rows_of(run / "trajectories.jsonl")
    ]


VIEW_PATTERNS = ("*.json", "*.jsonl")


def views_of(run: Path) -> dict[str, bytes]:
    """The bytes of all views in a run directory, by name."""
    return {p.name: p.read_bytes() for pattern in VIEW_PATTERNS for p in sorted(run.glob(pattern))}
