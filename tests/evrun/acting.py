"""The acting side on a real log: a journal, a caller, and a disk that can be told to fail."""

import json
import os
import threading
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import anyio

from eventlog.events import PlannedRow, PromptsPlanned, PromptStarted, RunStarted, SessionOpened, decode_event
from eventlog.storage import LogReader, LogWriter, RealFileSystem
from evrun.bounds import Bound
from evrun.budget import Budget
from evrun.effects.clock import now_ns, random_bytes
from evrun.effects.llm import Endpoint, LlmClient
from evrun.effects.secrets import Redactor
from evrun.journal import Journal
from evrun.ledger import Order
from evrun.loop import Caller
from projections import open_views, unit_name

CONTENT = b"0" * 16
UNIT = unit_name(CONTENT, 1, 1)
ORDER = Order(UNIT, 1, "rollout", "m", "h")
STARTED = PromptStarted(UNIT, 1, [], b"digest")
BODY = json.dumps({"model": "m", "messages": [{"role": "user", "content": "p"}]}).encode()
BOUND = Bound(10, 5, 700, "a test")


class FailingDisk(RealFileSystem):
    """Real files; `failing` maps a call to the errno with which the next such call on a segment fails."""

    def __init__(self):
        self.failing = {}
        self.struck = 0

    def _strike(self, call, fd):
        if call in self.failing and Path(f"/proc/self/fd/{fd}").readlink().suffix == ".evl":
            self.struck += 1
            number = self.failing.pop(call)
            raise OSError(number, os.strerror(number))

    def pwrite(self, fd, data, offset):
        """Write, or fail."""
        self._strike("pwrite", fd)
        return super().pwrite(fd, data, offset)

    def fdatasync(self, fd):
        """Sync, or fail."""
        self._strike("fdatasync", fd)
        super().fdatasync(fd)


class HeldDisk(RealFileSystem):
    """Real files; while `let_go` is cleared, the sync of a segment waits."""

    def __init__(self):
        self.let_go = threading.Event()
        self.let_go.set()

    def fdatasync(self, fd):
        """Sync, when allowed."""
        if Path(f"/proc/self/fd/{fd}").readlink().suffix == ".evl":
            assert self.let_go.wait(30)
        super().fdatasync(fd)


@contextmanager
def open_journal(directory, *, filesystem=None, see=None):
    """A journal on a new session of the log in this directory."""
    writer = LogWriter.open(
        directory / "log", clock_ns=now_ns, random_bytes=random_bytes, filesystem=filesystem
    )
    try:
        yield Journal(writer, open_views(directory, writer.reader()), see)
    finally:
        writer.close()


async def plan_one(journal):
    """A run of one prompt."""
    await journal.record(
        RunStarted("batch", "r", {"model": "m"}, {}, {}, []),
        SessionOpened(journal.session, os.getpid(), "h", "0"),
        PromptsPlanned([PlannedRow(CONTENT, 1, 0, 1, b'{"prompt": "p"}')], complete=True),
    )


@asynccontextmanager
async def open_caller(journal, base_url, *, price=None, **endpoint):
    """A caller of an endpoint."""
    async with LlmClient(Endpoint(base_url, **endpoint), connections=4, timeout_s=5) as client:
        secrets = {"KEY": endpoint["api_key"]} if "api_key" in endpoint else {}
        state = journal.state
        budget = Budget(state.ledger, lambda: 0, lambda _: None)
        journal.watch(budget.see)
        yield Caller(journal, client, price, Redactor(secrets), budget)


def events_in(directory):
    """All durable events, through a reader of its own that takes no lock."""
    with LogReader.open(directory / "log") as reader:
        return [decode_event(record.payload) for record in reader.read()]


def names_in(directory):
    """The types of all durable events."""
    return [type(event).__name__ for event in events_in(directory)]


def run(main):
    """Run a coroutine function to its end."""
    return anyio.run(main)


def nothing(*_):
    """Nothing follows from an answer."""
    return ()


def ask(caller, *, first=(STARTED,), conclude=nothing, timeout_s=5.0):
    """One call."""
    return caller.complete(ORDER, BODY, BOUND, timeout_s=timeout_s, first=first, conclude=conclude)
