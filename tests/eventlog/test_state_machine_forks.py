"""Hypothesis forks a process that has a log open, for real; a list of events says what must be in it.

A longer game: `EVRUN_STEPS=20 scripts/test tests/eventlog/test_state_machine_forks.py`.
"""

import json
import os
import select
import shutil
import signal
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings, strategies
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from eventlog.errors import EventLogError
from eventlog.storage import LogReader, lock_holder, verify

from .logs import Unsynced, open_log, payloads_in

SCALE = int(os.environ.get("EVRUN_STEPS", "1"))
PATIENCE_S = 60
payloads = strategies.lists(strategies.binary(max_size=900), min_size=1, max_size=3)


class Child:
    """A fork of this process that does one thing, says what came of it, and lives on until told to go."""

    def __init__(self, work):
        heard, says = os.pipe()
        stays, self.goes = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            os.close(self.goes)
            try:
                said = work()
            except EventLogError as error:
                said = type(error).__name__
            os.write(says, json.dumps(said).encode())
            os.close(says)
            os.read(stays, 1)
            os._exit(0)
        os.close(says)
        os.close(stays)
        self.said = self._listen(heard)

    def _listen(self, heard):
        parts = []
        while select.select([heard], [], [], PATIENCE_S)[0]:
            parts.append(os.read(heard, 1 << 16))
            if not parts[-1]:
                os.close(heard)
                return json.loads(b"".join(parts))
        self.end()
        raise AssertionError("the child of a fork hangs")

    def end(self):
        """Let it go."""
        os.close(self.goes)
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)


class Forks(RuleBasedStateMachine):
    """One log on real files; its writer is forked, and the children live on as long as they like."""

    def __init__(self):
        super().__init__()
        self.home = Path(tempfile.mkdtemp())
        self.events = []
        self.writer = None
        self.children = []
        self.open()

    def opened(self):
        """A writer of the log, in whatever process this is."""
        return open_log(self.home, filesystem=Unsynced())

    @precondition(lambda self: self.writer is None)
    @rule()
    def open(self):
        """However many children are left, the log is free once its writer was closed."""
        self.writer = self.opened()
        assert self.writer.durable.sequence == len(self.events)

    @precondition(lambda self: self.writer is not None)
    @rule(commit=payloads)
    def append(self, commit):
        """The parent goes on as if nothing had been forked."""
        self.events += commit
        assert self.writer.append(commit) == len(self.events)

    @precondition(lambda self: self.writer is not None)
    @rule(commit=payloads)
    def append_in_a_child(self, commit):
        """The child's copy of the handle is dead, at once and without waiting."""
        assert self.child(lambda: self.writer.append(commit)) == "LogClosed"

    @precondition(lambda self: self.writer is not None)
    @rule(commit=payloads)
    def fork_while_a_commit_is_underway(self, commit):
        """The parent's commit is the parent's; the child is told that it knows nothing of it."""
        ticket = self.writer.submit(commit)
        assert self.child(lambda: ticket.wait(PATIENCE_S)) in (
            "OutcomeUnknown",
            len(self.events) + len(commit),
        )
        self.events += commit
        assert ticket.wait(PATIENCE_S) == len(self.events)

    @precondition(lambda self: self.writer is not None)
    @rule()
    def close_in_a_child(self):
        """It closes nothing of its parent's."""
        assert self.child(self.writer.close) is None
        assert lock_holder(self.home)["pid"] == str(os.getpid())

    @rule(commit=payloads)
    def write_in_a_child(self, commit):
        """A child may open the log for itself, once its parent has closed it."""

        def work():
            with self.opened() as mine:
                return mine.append(commit)

        said = self.child(work)
        if self.writer is not None:
            assert said == "LogLocked"
        else:
            self.events += commit
            assert said == len(self.events)

    @rule()
    def read_in_a_child(self):
        """It is shown all that is durable."""

        def work():
            with LogReader.open(self.home) as reader:
                return [record.payload.hex() for record in reader.read()]

        assert self.child(work) == [event.hex() for event in self.events]

    @precondition(lambda self: self.writer is not None)
    @rule()
    def close(self):
        """The parent closes the log."""
        self.writer.close()
        self.writer = None

    @precondition(lambda self: self.children)
    @rule()
    def end_a_child(self):
        """A child goes, and takes no lock along."""
        self.children.pop(0).end()

    @invariant()
    def the_log_is_what_the_list_says(self):
        """Every event, in order, and nobody holds it but its writer."""
        if self.events:
            assert payloads_in(self.home) == self.events
        assert (lock_holder(self.home) is not None) is (self.writer is not None)

    def child(self, work):
        """What a fork says that came of this; it lives on."""
        self.children.append(Child(work))
        return self.children[-1].said

    def teardown(self):
        """All children go; the log is whole."""
        for child in self.children:
            child.end()
        if self.writer is not None:
            self.writer.close()
        assert verify(self.home).kind == "clean"
        shutil.rmtree(self.home)


TestForks = Forks.TestCase
TestForks.settings = settings(
    max_examples=15 * SCALE,
    stateful_step_count=25,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
TestForks.pytestmark = [
    pytest.mark.timeout(600 * SCALE),
    # To fork beside threads is the point here.
    pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning"),
]
