"""What the benchmarks of the log share: the heading, a place on the disk, typical events, sides in turn."""

import os
import platform
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from eventlog.events import ModelAnswered, encode_event  # noqa: E402
from eventlog.storage import LogWriter, RealFileSystem  # noqa: E402

SCRATCH = ROOT / "build"  # not in git, and on the disk of the checkout: /tmp is memory on many machines
MEBIBYTE = 1024 * 1024
_WORDS = (
    "the",
    "sum",
    "of",
    "all",
    "parts",
    "is",
    "seven",
    "so",
    "we",
    "add",
    "three",
    "and",
    "carry",
    "below",
)


def heading(about: str) -> None:
    """Print what was measured, where, and on which commit."""
    commit = subprocess.run(
        ["git", "describe", "--always", "--dirty"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    load = "/".join(f"{value:.1f}" for value in os.getloadavg())
    print(
        f"{platform.platform()}, {os.cpu_count()} cores, Python {platform.python_version()}, "
        f"{_kind_of_disk()}, commit {commit.stdout.strip()}, load {load}\n{about}"
    )


def _kind_of_disk() -> str:
    SCRATCH.mkdir(exist_ok=True)
    mounts = [one for one in psutil.disk_partitions(all=True) if SCRATCH.is_relative_to(one.mountpoint)]
    return max(mounts, key=lambda one: len(one.mountpoint)).fstype if mounts else "disk unknown"


@contextmanager
def scratch() -> Iterator[Path]:
    """A directory on the disk of the checkout, removed at the end."""
    SCRATCH.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=SCRATCH, prefix="bench-") as made:
        yield Path(made)


def open_log(directory: Path, **options: Any) -> LogWriter:
    """The log as evrun opens it."""
    return LogWriter.open(directory, clock_ns=time.time_ns, random_bytes=os.urandom, **options)


class NeverSynced(RealFileSystem):
    """For logs that are only made to be read: they are made in seconds instead of minutes."""

    def fdatasync(self, fd: int) -> None:
        """Nothing."""


def typical_events(count: int, text_bytes: int = 180) -> list[bytes]:
    """Encoded answers of about 300 bytes, all different, the same in each run."""
    draw = random.Random(7)
    return [_answer(draw, number, text_bytes) for number in range(count)]


def _answer(draw: random.Random, number: int, text_bytes: int) -> bytes:
    text = ""
    while len(text) < text_bytes:
        text += f"{draw.choice(_WORDS)} {draw.randrange(1000)} "
    body = b'{"choices":[{"message":{"role":"assistant","content":"%b"}}]}' % text.encode()
    return encode_event(ModelAnswered(f"{number:032x}:1:1", body, draw.randrange(2000), f"req-{number}"))


def in_turn(sides: Mapping[str, Callable[[], float]], rounds: int) -> dict[str, list[float]]:
    """Measure each side once a round, beginning with another one each time; what each said, by name."""
    said: dict[str, list[float]] = {name: [] for name in sides}
    names = list(sides)
    for number in range(rounds):
        start = number % len(names)
        for name in names[start:] + names[:start]:
            said[name].append(sides[name]())
    return said


def median_ratio(ours: list[float], theirs: list[float]) -> float:
    """The median of the ratios of what was measured in the same round."""
    return statistics.median(a / b for a, b in zip(ours, theirs, strict=True))


def fresh(directory: Path) -> Path:
    """The directory, not there any more."""
    shutil.rmtree(directory, ignore_errors=True)
    return directory


class PlainFile:
    """What the log is measured against: a preallocated file, pwrite, fdatasync, nothing else."""

    def __init__(self, path: Path, size_bytes: int) -> None:
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        os.posix_fallocate(self._fd, 0, size_bytes)
        os.fsync(self._fd)
        self._offset = 0

    def append(self, data: bytes) -> None:
        """Make the bytes durable."""
        os.pwrite(self._fd, data, self._offset)
        os.fdatasync(self._fd)
        self._offset += len(data)

    def close(self) -> None:
        """Close the descriptor."""
        os.close(self._fd)
