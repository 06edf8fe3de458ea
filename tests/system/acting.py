"""A process that works on a log and says what it does, one line a fact, each with one system call.

    acting.py ORDER     does what one order (JSON) says
    acting.py serve     takes orders from stdin, each a line of JSON, and forks a process for each

What it says: "S" before opening, "O" once open, "I n" before commit n is handed over, "A n" once its append
returned, "N n", "U n", "C n" when it was NotWritten, OutcomeUnknown or LogClosed, "E name" for another error,
"D" in the end. Nothing said is lost by a kill, because it is written at once.

An order names an `act` (a function below), the `log`, and what else the act wants to know. With `strike` the
process sends itself a signal at its n-th call through the filesystem seam; with `said` it says everything
into that file instead of stdout; with `gate` it waits at a named pipe, until somebody traces it, at the
"start" or when it has "opened" the log.
"""

import asyncio
import ctypes
import itertools
import json
import os
import resource
import signal
import sys
import time
from pathlib import Path

from eventlog import storage
from eventlog.errors import AppendError, EventLogError, LogClosed, LogLocked, NotWritten
from eventlog.storage import FileSystem, LogWriter, RealFileSystem
from tests.eventlog.appending_child import payloads, say

SEAM = frozenset(name for name in vars(FileSystem) if not name.startswith("_"))
PR_SET_PTRACER = 0x59616D61

opened_here = []


class Struck(RealFileSystem):
    """The real filesystem; the process is struck by a signal at the n-th call through the seam.

    `when` is "before" or "after" the call, or "within" the n-th pwrite, when half of it is written.
    Without a number it only tells the calls: "K pwrite".
    """

    def __init__(self, nth=0, when="before", number=signal.SIGKILL):
        self.left = nth
        self.when = when
        self.number = number
        self.telling = not nth

    def __getattribute__(self, name):
        call = super().__getattribute__(name)
        return self.watched(name, call) if name in SEAM else call

    def watched(self, name, call):
        """Wrap one call."""

        def counted(*args):
            if self.telling:
                say("K", name)
            counts = self.when != "within" or name == "pwrite"
            self.left -= counts
            struck = counts and self.left == 0  # kept here, because one call may make another
            if struck and self.when == "before":
                self.strike(name)
            if struck and self.when == "within":
                call(args[0], bytes(args[1])[: len(args[1]) // 2], args[2])
                self.strike(name)
            try:
                return call(*args)
            finally:
                if struck and self.when == "after":
                    self.strike(name)

        return counted

    def strike(self, name):
        """Say where, then send the signal; or fork, if it is this that strikes."""
        say("X", name)
        if self.number != "fork":
            os.kill(os.getpid(), self.number)
        elif os.fork() == 0:
            look_at_the_copy(opened_here[-1])
            os._exit(0)
        else:
            os.wait()


def open_log(order, **options):
    """Open the log with small segments, so that rolls are frequent."""
    strike = order.get("strike")
    if order.get("compress_sealed"):
        options["compress_sealed"] = True
    writer = LogWriter.open(
        Path(order["log"]),
        clock_ns=time.time_ns,
        random_bytes=os.urandom,
        filesystem=None if strike is None else Struck(*strike),
        first_segment_bytes=order.get("segment_bytes", 16 << 10),
        largest_segment_bytes=64 << 10,
        **options,
    )
    opened_here.append(writer)
    return writer


def commits_of(order):
    """The numbers of the commits that this process may issue."""
    return range(order.get("first", 0), order.get("first", 0) + order.get("count", 5))


def opened(order):
    """Say that the log is open; before, wait until somebody traces this process if that is the order."""
    if order.get("gate_at") == "opened":
        wait_at(order["gate"])
    say("O")
    if "kill_in_s" in order:
        signal.setitimer(signal.ITIMER_REAL, order["kill_in_s"])  # SIGALRM ends a process that has no handler


def outcome(error):
    """The letter for an append that did not succeed."""
    return "N" if isinstance(error, NotWritten) else "C" if isinstance(error, LogClosed) else "U"


def append_one(writer, commit):
    """Issue one commit, wait, and say what became of it."""
    say("I", commit)
    try:
        writer.append(payloads(commit))
    except AppendError as error:
        say(outcome(error), commit, error)
    else:
        say("A", commit)


def write(order):
    """Open, append, close; whatever becomes of a commit, the next is tried."""
    writer = open_log(order)
    opened(order)
    for commit in commits_of(order):
        append_one(writer, commit)
        time.sleep(order.get("pause_s", 0))
    writer.close()


def tasks(order):
    """Open, append from eight asyncio tasks at once, close."""
    writer = open_log(order)
    say("O")
    asyncio.run(append_from_eight_tasks(writer, order))
    writer.close()


async def append_from_eight_tasks(writer, order):
    """Append all commits, eight at a time."""
    commits = iter(commits_of(order))

    async def work():
        for commit in commits:
            say("I", commit)
            await writer.submit_async(payloads(commit))
            say("A", commit)

    async with asyncio.TaskGroup() as group:
        for _ in range(8):
            group.create_task(work())


def turns(order):
    """Open, append three commits, close, again and again; another one's turn is waited for."""
    commits = iter(commits_of(order))
    for commit in commits:
        try:
            writer = open_log(order)
        except LogLocked:
            time.sleep(0.002)
            continue
        append_one(writer, commit)
        for _ in range(2):
            append_one(writer, next(commits))
        writer.close()


def compact(order):
    """Compress every segment."""
    strike = order.get("strike")
    disk = None if strike is None else Struck(*strike)
    done = storage.compact(Path(order["log"]), random_bytes=os.urandom, filesystem=disk)
    say("Z", len(done))


def ticking(order):
    """Append from an event loop that ticks meanwhile; say how often it did while each commit waited."""
    writer = open_log(order)
    opened(order)
    ticks = []

    async def tick():
        while True:
            ticks.append(time.monotonic())
            await asyncio.sleep(0.001)

    async def work():
        ticker = asyncio.create_task(tick())
        for commit in commits_of(order):
            await asyncio.sleep(0.01)
            say("I", commit)
            ticks[:] = [time.monotonic()]
            await writer.submit_async(payloads(commit))
            ended = [*ticks, time.monotonic()]
            longest = max(after - before for before, after in itertools.pairwise(ended))
            say("A", commit)
            say("T", commit, len(ended), int(longest * 1_000_000), int((ended[-1] - ended[0]) * 1_000_000))
        ticker.cancel()

    asyncio.run(work())
    writer.close()


def limited(order):
    """Append under a limit of the size of files, then without; say when a write was really short."""
    hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
    if order.get("deadly"):
        signal.signal(signal.SIGXFSZ, signal.SIG_DFL)

    class Told(RealFileSystem):
        def pwrite(self, fd, data, offset):
            done = super().pwrite(fd, data, offset)
            if done < len(data):
                say("SHORT", done, len(data))
            return done

        def allocate(self, fd, size_bytes):
            return order.get("allocate", True) and super().allocate(fd, size_bytes)

    writer = LogWriter.open(
        Path(order["log"]),
        clock_ns=time.time_ns,
        random_bytes=os.urandom,
        filesystem=Told(),
        first_segment_bytes=order["segment_bytes"],
        largest_segment_bytes=order["segment_bytes"],
    )
    say("O")
    commits = commits_of(order)
    resource.setrlimit(resource.RLIMIT_FSIZE, (order["limit"], hard))
    for commit in commits[: len(commits) // 2]:
        append_one(writer, commit)
    if order.get("lifted", True):
        resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
    for commit in commits[len(commits) // 2 :]:
        append_one(writer, commit)
    writer.close()


def forking(order):
    """Fork again and again while eight tasks append; each child says what it found of its copy."""
    writer = open_log(order)
    say("O")

    async def work_and_fork():
        async with asyncio.TaskGroup() as group:
            group.create_task(append_from_eight_tasks(writer, order))
            for _ in range(order["forks"]):
                await asyncio.sleep(0.003)
                if os.fork() == 0:
                    look_at_the_copy(writer)
                    os._exit(0)

    asyncio.run(work_and_fork())
    for _ in range(order["forks"]):
        os.wait()
    writer.close()


def look_at_the_copy(writer):
    """In the child of a fork: the handle is dead, its descriptors are closed."""
    links = [str(os.path.realpath(link)) for link in Path("/proc/self/fd").iterdir()]
    left = [Path(link).name for link in links if Path(link).name in ("LOCK", "HEAD") or ".ev" in link]
    try:
        writer.append([b"from the child"])
    except LogClosed:
        writer.close()
        say("F", "dead" if not left else f"open:{','.join(left)}")
    else:
        say("F", "alive")


def wait_at(gate):
    """Let any process trace this one, say "G", and wait for a byte from the named pipe."""
    ctypes.CDLL(None).prctl(PR_SET_PTRACER, ctypes.c_ulong(-1), 0, 0, 0)
    pipe = os.open(gate, os.O_RDWR)
    say("G")
    os.read(pipe, 1)


ACTS = {act.__name__: act for act in (write, tasks, turns, compact, ticking, limited, forking)}


def obey(order):
    """Do what the order says, and say how it ended."""
    if "uid" in order:
        os.setgroups([])
        os.setgid(order["uid"])
        os.setuid(order["uid"])
    if order.get("gate_at") == "start":
        wait_at(order["gate"])
    say("S")
    try:
        ACTS[order["act"]](order)
    except (EventLogError, OSError) as error:
        say("E", type(error).__name__)
    except BaseExceptionGroup as errors:
        say("E", type(errors.exceptions[0]).__name__)
    else:
        say("D")


def serve():
    """Fork a process for each order; `wait` and `wait_stopped` answer with its status. Ends with stdin."""
    alive = set()
    for line in sys.stdin:
        order = json.loads(line)
        if "act" in order:
            pid = os.fork()
            if pid == 0:
                os.dup2(os.open(order["said"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666), 1)
                obey(order)
                os._exit(0)
            alive.add(pid)
            answer = pid
        else:
            pid, answer = os.waitpid(order["wait"], os.WUNTRACED if order["or_stop"] else 0)
            if not os.WIFSTOPPED(answer):
                alive.discard(pid)
        say(answer)
    for pid in alive:
        os.kill(pid, signal.SIGKILL)


if __name__ == "__main__":
    if sys.argv[1] == "serve":
        serve()
    else:
        obey(json.loads(sys.argv[1]))
