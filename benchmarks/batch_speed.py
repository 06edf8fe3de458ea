"""How fast a batch run is, beside a bare loop of the same HTTP client over the same endpoint.

python benchmarks/batch_speed.py [--prompts 10000] [--rounds 3] [--in-flight 8,64,256] [--memory]

The endpoint (tests/endpoint, no latency) is a process of its own in the same process group. Both sides are
whole processes, start-up included, in one interleaved run; medians and ratios count, on a noisy machine
absolutes do not. With `--memory` also: peak memory at five times as many prompts, per prompt above the
first.
"""

import argparse
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tests.endpoint.client import running_endpoint  # noqa: E402
from tests.runs import environment, gsm8k  # noqa: E402


class Measured(NamedTuple):
    """One process: seconds of wall clock and of CPU, peak memory in KiB, log bytes (0 for the bare loop)."""

    wall_s: float
    cpu_s: float
    peak_kib: int
    log_bytes: int


def used_bytes(segment: Path) -> int:
    """The bytes of a segment up to its last frame; behind that it is preallocated zeros."""
    return len(segment.read_bytes().rstrip(b"\0"))


def measure(command: list[str], log: Path | None) -> Measured:
    """Run a command to its end and measure it."""
    began = time.monotonic()
    process = subprocess.Popen(command, env=environment(), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    assert process.stderr is not None
    said = process.stderr.read()
    _, status, used = os.wait4(process.pid, 0)
    wall = time.monotonic() - began
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        raise RuntimeError(f"{command} ended with {process.returncode}: {said.decode()}")
    size = sum(used_bytes(p) for p in log.glob("*.evl")) if log is not None else 0
    return Measured(wall, used.ru_utime + used.ru_stime, used.ru_maxrss, size)


def evrun_once(url: str, dataset: Path, in_flight: int, directory: Path) -> Measured:
    """One fresh batch run."""
    shutil.rmtree(directory, ignore_errors=True)
    command = [
        sys.executable, "-m", "cli.main", "run", str(dataset), "--run-name", "r",
        "--output-dir", str(directory),
        "--model", "m", "--base-url", url, "--toolsets", "none", "--keep-all", "--quiet",
        "--concurrency", str(in_flight),
    ]  # fmt: skip
    return measure(command, directory / "r/log")


def bare_once(url: str, dataset: Path, in_flight: int) -> Measured:
    """One bare loop."""
    command = [sys.executable, str(ROOT / "benchmarks/_bare_loop.py"), url, str(dataset), str(in_flight)]
    return measure(command, None)


def row(name: str, in_flight: int, prompts: int, runs: list[Measured]) -> float:
    """Print one line of medians; gives samples per second."""
    wall, cpu = (statistics.median(run[i] for run in runs) for i in (0, 1))
    peak = max(run.peak_kib for run in runs) / 1024
    log = statistics.median(run.log_bytes for run in runs) / prompts
    rate = prompts / wall
    print(f"{name:<10} {in_flight:>9} {rate:>11.0f} {cpu / prompts * 1e3:>13.3f} {peak:>9.0f} {log:>16.0f}")
    return rate


def speeds(prompts: int, rounds: int, widths: list[int], scratch: Path) -> None:
    """Both sides at each width, interleaved."""
    dataset = gsm8k(scratch / "prompts.jsonl", prompts)
    heads = ("", "in flight", "samples/s", "CPU ms each", "peak MiB", "log bytes each")
    print("{:<10} {:>9} {:>11} {:>13} {:>9} {:>16}".format(*heads))
    for width in widths:
        bare: list[Measured] = []
        ours: list[Measured] = []
        with running_endpoint() as endpoint:
            for _ in range(rounds):
                bare.append(bare_once(endpoint.base_url, dataset, width))
                ours.append(evrun_once(endpoint.base_url, dataset, width, scratch / "data"))
        ratio = row("evrun", width, prompts, ours) / row("bare loop", width, prompts, bare)
        print(f"{'ratio':<10} {width:>9} {ratio:>11.2f}   (goal: at least 0.50)")


def memory(prompts: int, scratch: Path) -> None:
    """Peak memory at `prompts` and at five times as many."""
    peaks = []
    for count in (prompts, 5 * prompts):
        dataset = gsm8k(scratch / f"{count}.jsonl", count)
        with running_endpoint() as endpoint:
            peaks.append(evrun_once(endpoint.base_url, dataset, 64, scratch / "data").peak_kib)
    per_prompt = (peaks[1] - peaks[0]) * 1024 / (4 * prompts)
    print(
        f"peak memory: {peaks[0] / 1024:.0f} MiB at {prompts}, {peaks[1] / 1024:.0f} MiB at {5 * prompts}: "
        f"{per_prompt:.0f} bytes a prompt (goal: at most 500)"
    )


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--prompts", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--in-flight", default="8,64,256")
    parser.add_argument("--memory", action="store_true")
    given = parser.parse_args()
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    print(
        f"{platform.platform()}, {os.cpu_count()} cores, Python {platform.python_version()}, "
        f"commit {commit.stdout.strip()}, {given.prompts} prompts, medians of {given.rounds}"
    )
    with tempfile.TemporaryDirectory() as scratch:
        speeds(
            given.prompts, given.rounds, [int(width) for width in given.in_flight.split(",")], Path(scratch)
        )
        if given.memory:
            memory(given.prompts, Path(scratch))


if __name__ == "__main__":
    main()
