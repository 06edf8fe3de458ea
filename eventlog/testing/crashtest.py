"""Crash-testing whatever writes through the seam: run it once, crash it everywhere, look at what is left.

::

    def scenario(disk, promise):
        keep(disk, "/run/total", 7)
        promise(7)                              # from here on a crash must not lose it

    def check(disk, promised):
        assert load(disk, "/run/total") in (7, *([] if promised else [None]))

    crash_test(scenario, check)
"""

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

from ..storage import FileSystem
from .episodes import new_disk
from .examination import rng_at
from .forgetful import CrashPoint, ForgetfulFileSystem

Promised = TypeVar("Promised")


@dataclass(frozen=True)
class CrashReport:
    """How many moments were crashed at, and how many disks were looked at."""

    points: int
    images: int


class CrashTestFailed(AssertionError):
    """What a crash may leave did not pass the check; `__cause__` is what the check raised.

    `operations` names the crash point: `crash_test(…, only=operations)` repeats it alone.
    """

    def __init__(self, message: str, operations: int, image: int) -> None:
        super().__init__(message)
        self.operations = operations
        self.image = image


def crash_test(
    scenario: Callable[[ForgetfulFileSystem, Callable[[Promised], None]], None],
    check: Callable[[ForgetfulFileSystem, list[Promised]], None],
    *,
    images_per_point: int = 50,
    seed: int = 1,
    start: ForgetfulFileSystem | None = None,
    only: int | None = None,
) -> CrashReport:
    """Run `scenario` once on a disk that forgets; then crash it at every operation, and `check` what is left.

    `scenario(disk, promise)` does its work on `disk` (hand it on as `filesystem=`) and calls `promise(x)`
    whenever it tells somebody that x is safe. `check(disk, promised)` is called for each disk that a crash
    may leave, of the process or of the power, with all that had been promised by then; whatever it raises is
    an objection. It may write to its disk, which is nobody else's. `start` is the disk to begin on (else one
    with an empty, durable directory /run); with `only` just the crash points after so many operations are
    looked at.

    Raises:
        CrashTestFailed: (an AssertionError) the first objection, and where: operation, image, seed.
        ValueError: the scenario did nothing to the disk, so that nothing could be tested.
    """
    disk = start or new_disk()
    begun = disk.operations
    promises: list[tuple[int, Promised]] = []
    scenario(disk, lambda promised: promises.append((disk.operations, promised)))
    if disk.operations == begun:
        raise ValueError(
            "The scenario did nothing to the disk it was given. Hand it on to what writes, for example "
            "LogWriter.open(…, filesystem=disk)."
        )
    points = images = 0
    for point in disk.crash_points(start=begun):
        if only is not None and point.operations != only:
            continue
        points += 1
        promised = [what for then, what in promises if then <= point.operations]
        for number, image in enumerate(point.images(images_per_point, rng_at(point, seed))):
            where = _Where(point, number, seed)
            _check(check, image, list(promised), where)
            images += 1
    return CrashReport(points, images)


class _Where(NamedTuple):
    point: CrashPoint
    image: int
    seed: int

    def __str__(self) -> str:
        what = f"the power failed, image {self.image}" if self.image else "the process died"
        return f"{self.point} ({what}, seed {self.seed})"


def _check(
    check: Callable[[ForgetfulFileSystem, list[Promised]], None],
    image: ForgetfulFileSystem,
    promised: list[Promised],
    where: _Where,
) -> None:
    try:
        check(image, promised)
    except Exception as error:
        operations = where.point.operations
        raise CrashTestFailed(
            f"At {where} the check objects, with {len(promised)} promises made: "
            f"{type(error).__name__}: {error}. Repeat it alone with only={operations}.",
            operations,
            where.image,
        ) from error


def read_file(disk: FileSystem, path: str) -> bytes | None:
    """Return what a file holds, None if there is none; a convenience for checks."""
    try:
        fd = disk.open(path, os.O_RDONLY)
    except FileNotFoundError:
        return None
    try:
        return disk.pread(fd, disk.size(fd), 0)
    finally:
        disk.close(fd)


def write_file(disk: FileSystem, path: str, content: bytes) -> None:
    """Write a file as most programs do: emptied, filled, and never synced."""
    fd = disk.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    try:
        disk.pwrite(fd, content, 0)
    finally:
        disk.close(fd)
