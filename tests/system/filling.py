"""Fill a disk, and let a writer meet that."""

import os

from tests.system.processes import numbers


def fill(directory, leave=0):
    """Take all the space of a disk but so many bytes; return the file that holds it."""
    filler = directory / "filler"
    size, step = 0, 1 << 30
    with filler.open("wb") as file:
        while step >= 4096:
            try:
                os.posix_fallocate(file.fileno(), size, step)
                size += step
            except OSError:
                step //= 2
        os.ftruncate(file.fileno(), max(0, size - leave))
        os.fsync(file.fileno())
    return filler


def results(said):
    """The letters of what became of each commit, in their order."""
    return "".join(words[0] for words in said if words[0] in "ANUC")


def write_until_full_then_make_room(server, disk, leave, **order):
    """Append until nothing fits; remove the filler; append on. Returns what it said in all."""
    filler = fill(disk, leave)
    writer = server.start("write", disk / "log", count=1_000_000, pause_s=0.002, **order)
    writer.wait_for("N", times=5)
    filler.unlink()
    heard = len(numbers(writer.said, "A"))
    writer.wait_for("A", times=heard + 3)
    return writer.kill()
