"""One runner, one number of samples, against the endpoint: what it took, by the system and the endpoint."""

import contextlib
import os
import signal
import subprocess
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple, Protocol

from tests.endpoint.client import running_endpoint

from ._money import REFUSE_EMPTY, Job, clean_environment

FULL = 512
"""Bytes of a block, as `st_blocks` counts them."""


class Runner(Protocol):
    """One that asks for every prompt of a dataset once."""

    name: str

    def install(self, cache: Path) -> str:
        """Make it ready in `cache`; gives its name and version, or raises Unavailable."""
        ...

    def start(self, job: Job) -> list[str]:
        """The command that does it."""
        ...

    def environment(self, job: Job) -> dict[str, str]:
        """Variables for the command."""
        ...


class Taken(NamedTuple):
    """What one process took from its start to its end, and what the endpoint served it.

    `peak_kib`: the largest resident set of the process or one that it waited for. `disk_bytes`: what its
    files occupy afterwards, in whole blocks. `stopped`: it was killed at the time limit; then `served` is
    what it came to.
    """

    served: int
    wall_s: float
    cpu_s: float
    peak_kib: int
    disk_bytes: int
    stopped: bool

    @property
    def rate(self) -> float:
        """Samples a second."""
        return self.served / self.wall_s

    @property
    def cpu_s_per_1000(self) -> float:
        """CPU seconds for 1,000 samples."""
        return self.cpu_s / max(self.served, 1) * 1000

    @property
    def disk_per_sample(self) -> float:
        """Bytes on disk for a sample."""
        return self.disk_bytes / max(self.served, 1)


def take(runner: Runner, directory: Path, dataset: Path, in_flight: int, limit_s: float) -> Taken:
    """Run it in a new directory against a new endpoint without delay.

    Raises:
        RuntimeError: it failed, or it left prompts unasked; with the end of what it printed.
    """
    directory.mkdir(parents=True)
    prompts = dataset.read_bytes().count(b"\n")
    with running_endpoint(rules=[REFUSE_EMPTY]) as endpoint:
        job = Job(directory, endpoint.base_url, dataset, in_flight)
        code, stopped, wall_s, used = _timed(runner.start(job), runner.environment(job), directory, limit_s)
        served = int(endpoint.totals()["billed"])
    if not stopped and (code != 0 or served != prompts):
        said = (directory / "said").read_text("utf-8", "replace")[-2000:]
        raise RuntimeError(f"{runner.name}: exit code {code}, {served} of {prompts} prompts asked\n{said}")
    disk = occupied_bytes(directory) - (directory / "said").stat().st_blocks * FULL
    return Taken(served, wall_s, used.ru_utime + used.ru_stime, used.ru_maxrss, disk, stopped)


def _timed(
    command: list[str], more: Mapping[str, str], directory: Path, limit_s: float
) -> tuple[int, bool, float, "os.struct_rusage"]:
    """Exit code, whether the limit ended it, seconds, and what the system says it used."""
    began = time.monotonic()
    with (directory / "said").open("wb") as out:
        process = subprocess.Popen(
            command, cwd=directory, env=clean_environment(dict(more)), stdin=subprocess.DEVNULL,
            stdout=out, stderr=subprocess.STDOUT, start_new_session=True,
        )  # fmt: skip
    ended = threading.Event()

    def end() -> None:
        if not ended.wait(limit_s):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)

    watch = threading.Thread(target=end, daemon=True)
    watch.start()
    _, status, used = os.wait4(process.pid, 0)
    wall_s = time.monotonic() - began
    ended.set()
    watch.join()
    process.returncode = os.waitstatus_to_exitcode(status)
    return process.returncode, process.returncode == -signal.SIGKILL and wall_s >= limit_s, wall_s, used


def occupied_bytes(directory: Path) -> int:
    """What the files below a directory occupy on disk."""
    return sum(path.lstat().st_blocks * FULL for path in directory.rglob("*") if path.is_file())
