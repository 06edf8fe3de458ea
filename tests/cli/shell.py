"""The real `evrun`: as a process of its own, or by the same door in this one."""

import contextlib
import io
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

from cli.main import call
from tests import warm

ROOT = Path(__file__).parent.parent.parent
EVRUN = [sys.executable, "-m", "cli.main"]
ENVIRONMENT = {
    **{name: value for name, value in os.environ.items() if not name.startswith(("EVRUN_", "OPENAI_"))},
    "PYTHONPATH": str(ROOT),
    "COLUMNS": "100",
    "PYTHONWARNINGS": "error",
}


class Said(NamedTuple):
    """What a command printed and how it ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """All of stdout as one JSON value: anything else there fails the test."""
        return json.loads(self.out)


def evrun(*arguments: object, cwd: Path) -> Said:
    """Do `evrun ARGUMENTS` in a directory, by the console script's own door but without a new process."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.chdir(cwd), contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = call([*map(str, arguments)])
    return Said(code, out.getvalue(), err.getvalue())


def evrun_process(*arguments: object, cwd: Path, environment: dict[str, str] | None = None) -> Said:
    """Run `evrun ARGUMENTS` in a directory as a process of its own, with no stdin, and wait for its end."""
    done = subprocess.run(
        [*EVRUN, *map(str, arguments)],
        cwd=cwd,
        env=ENVIRONMENT | (environment or {}),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=60,
        check=False,
    )
    return Said(done.returncode, done.stdout.decode(), done.stderr.decode())


def evrun_forked(*arguments: object, cwd: Path, environment: dict[str, str] | None = None) -> Said:
    """The same, forked from a process that has imported everything: for those who start many."""
    surroundings = ENVIRONMENT | (environment or {})
    process = warm.start("cli.main:main", [*map(str, arguments)], cwd=cwd, environment=surroundings)
    out, err = process.communicate(60)
    return Said(process.wait(), out, err)


def start(*arguments: object, cwd: Path) -> "subprocess.Popen[str]":
    """Start `evrun ARGUMENTS` and go on; its stdout and stderr can be read."""
    return subprocess.Popen(
        [*EVRUN, *map(str, arguments)],
        cwd=cwd,
        env=ENVIRONMENT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # Tests that a script has started in the background ignore interrupts, and so would what they start.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # noqa: PLW1509
    )
