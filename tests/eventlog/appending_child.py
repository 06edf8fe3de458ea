"""A process that appends to a log and says what it issued and what was acknowledged, until it is killed.

One line a fact, each written with one system call: "S" before opening, "O" when open, "I n" before commit n
is handed over, "A n" once its append returned, "E name" for the error that ended it, "D" when it closed in
good order.

    appending_child.py DIRECTORY MODE FIRST COUNT DIE_AT

MODE is `append` (one thread waits for each commit), `tasks` (eight asyncio tasks), or `turns` (opens, appends
three commits, closes, and begins again, while others do the same). DIE_AT n kills the process after its n-th
call that changes the disk, -n before it; 0: never.
"""

import asyncio
import os
import signal
import sys
import time
from pathlib import Path
from random import Random

from eventlog.errors import EventLogError, LogLocked
from eventlog.storage import LogWriter
from eventlog.storage.filesystem import RealFileSystem

CHANGES = (
    "open",
    "pwrite",
    "fdatasync",
    "fsync",
    "allocate",
    "truncate",
    "rename",
    "make_directory",
    "sync_directory",
)


def payloads(commit):
    """Make the events of a commit from its number alone: one to three, of 10 bytes to about 6 KiB each."""
    rng = Random(commit)
    sizes = [rng.choice((0, 3, 200, 900, 6000)) for _ in range(rng.randrange(1, 4))]
    return [b"%d/%d/%d:" % (commit, part, size) + rng.randbytes(size) for part, size in enumerate(sizes)]


def say(*words):
    """Write one line at once, so that what was said before a kill is never lost."""
    os.write(1, (" ".join(map(str, words)) + "\n").encode())


class Suicidal(RealFileSystem):
    """The real filesystem, in a process that is killed after its n-th change, or with -n before it."""

    def __init__(self, die_at):
        self.left = abs(die_at)
        self.before = die_at < 0

    def __getattribute__(self, name):
        call = super().__getattribute__(name)
        return self.deadly(call) if name in CHANGES else call

    def deadly(self, call):
        """Wrap one call."""

        def counted(*args):
            self.left -= 1
            last = self.left == 0  # kept here, because one call may make another
            if last and self.before:
                os.kill(os.getpid(), signal.SIGKILL)
            try:
                return call(*args)
            finally:
                if last:
                    os.kill(os.getpid(), signal.SIGKILL)

        return counted


def open_log(directory, die_at):
    """Open the log with small segments, so that rolls are frequent."""
    return LogWriter.open(
        Path(directory),
        clock_ns=time.time_ns,
        random_bytes=os.urandom,
        filesystem=Suicidal(die_at) if die_at else None,
        first_segment_bytes=16 << 10,
        largest_segment_bytes=64 << 10,
    )


def append_one(writer, commit):
    """Issue one commit and wait for it."""
    say("I", commit)
    writer.append(payloads(commit))
    say("A", commit)


async def append_from_tasks(writer, commits):
    """Let eight tasks share the commits; each waits for its own."""

    async def work():
        for commit in commits:
            say("I", commit)
            await writer.submit_async(payloads(commit))
            say("A", commit)

    async with asyncio.TaskGroup() as tasks:
        for _ in range(8):
            tasks.create_task(work())


def take_turns(directory, commits):
    """Open, append three commits, close, again and again; somebody else's turn is waited for."""
    for commit in commits:
        try:
            writer = open_log(directory, 0)
        except LogLocked:
            time.sleep(0.002)
            continue
        append_one(writer, commit)
        for _ in range(2):
            append_one(writer, next(commits))
        writer.close()


def main(directory, mode, first, count, die_at):
    """Do what the arguments say."""
    commits = iter(range(int(first), int(first) + int(count)))
    say("S")
    if mode == "turns":
        take_turns(directory, commits)
        return
    writer = open_log(directory, int(die_at))
    say("O")
    if mode == "tasks":
        asyncio.run(append_from_tasks(writer, commits))
    for commit in commits:
        append_one(writer, commit)
    writer.close()


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except EventLogError as error:
        say("E", type(error).__name__)
    except BaseExceptionGroup as errors:
        say("E", type(errors.exceptions[0]).__name__)
    else:
        say("D")
