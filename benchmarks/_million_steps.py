"""The processes of the million: each started, perhaps killed on the way, and measured.

Whoever measures stays small itself: a process that was started begins its account of peak memory with the
size of the one that started it.
"""

import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tests.runs import environment  # noqa: E402

POLL_S = 0.05
TAIL = 2000


class Step(NamedTuple):
    """One process: wall clock, CPU, peak memory, and seconds to its first call (null: it made none)."""

    name: str
    seconds: float
    cpu_s: float
    peak_mib: float
    first_call_s: float | None = None


class Machine:
    """Runs commands one after the other in one directory, and keeps what was measured."""

    def __init__(self, directory: Path, said: Callable[[str], None]) -> None:
        self.steps: list[Step] = []
        self._directory = directory
        self._said = said

    def evrun(
        self,
        name: str,
        *words: object,
        served: Callable[[], int] | None = None,
        kill_at: int | None = None,
    ) -> None:
        """Run `evrun WORDS` to its end, or kill it without warning once `served` says `kill_at` calls."""
        self.run(name, [sys.executable, "-m", "cli.main", *map(str, words)], served, kill_at)

    def run(
        self,
        name: str,
        command: list[str],
        served: Callable[[], int] | None = None,
        kill_at: int | None = None,
    ) -> None:
        """Run a command, measure it, and keep that as a step."""
        self.steps.append(self.aside(name, command, served, kill_at))

    def aside(
        self,
        name: str,
        command: list[str],
        served: Callable[[], int] | None = None,
        kill_at: int | None = None,
    ) -> Step:
        """Run a command and measure it.

        Raises:
            RuntimeError: it ended in another way than it should have.
        """
        with tempfile.TemporaryFile() as said:
            watch = _Watch(served, kill_at)
            process = subprocess.Popen(
                command, cwd=self._directory, env=environment(), stdout=said, stderr=said
            )
            try:
                status, used = watch.until_end(process.pid)
            except BaseException:
                process.kill()
                raise
            seconds = watch.seconds
            process.returncode = os.waitstatus_to_exitcode(status)
            expected = 0 if kill_at is None else -signal.SIGKILL
            if process.returncode != expected:
                said.seek(max(0, said.seek(0, os.SEEK_END) - TAIL))
                tail = said.read().decode(errors="replace")
                raise RuntimeError(f"{name} ended with {process.returncode}, not {expected}: {tail}")
        cpu = used.ru_utime + used.ru_stime
        step = Step(name, seconds, cpu, used.ru_maxrss / 1024, watch.first_call_s)
        self._said(f"  {name}: {seconds:.1f} s, {step.peak_mib:.0f} MiB")
        return step


class _Watch:
    """Waits for a process, while it looks at how many calls were served."""

    def __init__(self, served: Callable[[], int] | None, kill_at: int | None) -> None:
        self.first_call_s: float | None = None
        self._served = served
        self._kill_at = kill_at
        self._before = served() if served else 0
        self._began = time.monotonic()

    @property
    def seconds(self) -> float:
        """Since the beginning."""
        return time.monotonic() - self._began

    def until_end(self, pid: int) -> tuple[int, resource.struct_rusage]:
        """Wait; kill it when its time has come."""
        while self._served is not None and (self.first_call_s is None or self._kill_at is not None):
            time.sleep(POLL_S)
            count = self._served()
            if self.first_call_s is None and count > self._before:
                self.first_call_s = self.seconds
            if self._kill_at is not None and count >= self._kill_at:
                os.kill(pid, signal.SIGKILL)
                break
            ended, status, used = os.wait4(pid, os.WNOHANG)
            if ended:
                return status, used
        _, status, used = os.wait4(pid, 0)
        return status, used
