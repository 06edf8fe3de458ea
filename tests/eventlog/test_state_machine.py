"""Hypothesis plays with a log on a forgetful disk, and a list of commits says what must be in it.

A longer game: `EVRUN_STEPS=40 scripts/test tests/eventlog/test_state_machine.py` plays forty times as many.
"""

import errno
import os

import pytest
from hypothesis import HealthCheck, Phase, settings, strategies
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from .log_machine import LogMachine

SCALE = int(os.environ.get("EVRUN_STEPS", "1"))

sizes = strategies.lists(strategies.sampled_from((0, 20, 400, 1100, 3000)), min_size=1, max_size=3)
batches = strategies.lists(sizes, min_size=1, max_size=4)
STEPS_BEFORE_A_CRASH = 2  # else crashes would follow crashes most of the time
LOOKS = ("second writer", "usurper", "reader", "follower", "anchor", "forged anchor")
HOWS = ("power loss", "power loss", "power loss", "killed", "killed inside a write")
FAULTS = (
    ("fdatasync", ".evl"),
    ("fdatasync", ".evl"),
    ("fsync", ".new"),
    ("fsync", "HEAD"),
    ("sync_directory", ""),
    ("pwrite", ".evl"),
    ("pwrite", ".new"),
    ("pwrite", "HEAD"),
    ("pread", ""),
    ("pread", ".evz"),
    ("open", ""),
    ("open", ".new"),
    ("allocate", ""),
    ("rename", ""),
    ("unlink", ""),
    ("fsync", ".evz"),
    ("pwrite", ".evz"),
)
seeds = strategies.integers(0, 2**32 - 1)
back = strategies.integers(0, 24)


class Game(RuleBasedStateMachine):
    """The rules of the game; each is one call of `LogMachine`, which does it and looks."""

    def __init__(self):
        super().__init__()
        self.log = LogMachine()
        self.steps = 0  # with the log open, since the last crash

    @initialize(commits=batches)
    def begin(self, commits):
        """Every game begins with some commits."""
        self.log.open()
        self.log.append_many(commits)

    @precondition(lambda self: not self.log.is_open)
    @rule(compress=strategies.booleans())
    def open(self, compress):
        """Somebody opens the log for writing."""
        self.log.open(compress_sealed=compress)

    @precondition(lambda self: self.log.is_open)
    @rule(commit=sizes)
    def append(self, commit):
        """One commit, waited for."""
        self.log.append(commit)

    @precondition(lambda self: self.log.is_open)
    @rule(commits=batches)
    def append_many(self, commits):
        """Several commits handed over before the first is waited for."""
        self.log.append_many(commits)

    @precondition(lambda self: self.log.is_open)
    @rule(
        threads=strategies.lists(batches, max_size=3),
        tasks=strategies.lists(
            strategies.tuples(sizes, strategies.sampled_from(("await", "cancel", "orphan"))), max_size=6
        ),
    )
    def append_concurrently(self, threads, tasks):
        """Threads and tasks of an event loop at once; some tasks are cancelled, some outlive their loop."""
        self.log.append_concurrently(threads, tasks)

    @precondition(lambda self: self.log.is_open)
    @rule()
    def roll(self):
        """A commit so large that the segment is sealed and a new one made."""
        self.log.append([12_000])

    @precondition(lambda self: self.log.is_open)
    @rule()
    def close(self):
        """The writer is closed in good order."""
        self.log.close()

    @rule()
    def compact(self):
        """All segments are compressed; refused while a writer has the log."""
        self.log.compact()

    @rule(
        where=strategies.sampled_from(FAULTS),
        error=strategies.sampled_from((errno.EIO, errno.EIO, errno.ENOSPC, errno.EDQUOT)),
        nth=strategies.integers(1, 4),
        sync=strategies.sampled_from(("dirty", "kept", "reverted")),
        written=strategies.sampled_from((0, 5, 600, 5000)),
        then=strategies.none() | sizes,
    )
    def fault(self, *, where, error, nth, sync, written, then):
        """A call of the process that owns the log, or will, is going to fail; perhaps at once."""
        call, path = where
        if call == "sync_directory":
            # A directory sync that succeeds makes every name durable: FORMAT.md counts on it.
            sync = "dirty"
        self.log.fail(call, error=error, nth=1 if then else nth, path=path, sync=sync, written_bytes=written)
        if then and self.log.is_open:
            self.log.append(then)

    @rule(call=strategies.sampled_from(("pread", "pwrite")), most=strategies.sampled_from((1, 300, 700)))
    def short_calls(self, call, most):
        """A few calls are going to move less than was asked for."""
        self.log.shorten(call, at_most=most)

    @precondition(lambda self: self.steps >= STEPS_BEFORE_A_CRASH)
    @rule(
        operations=back,
        how=strategies.sampled_from(HOWS),
        seed=seeds,
    )
    def crash(self, operations, how, seed):
        """The process died or the power failed, now or some operations ago."""
        self.steps = 0
        if how == "power loss":
            self.log.lose_power(operations, seed)
        else:
            self.log.crash(operations, torn=how == "killed inside a write")

    @rule(
        what=strategies.sampled_from(LOOKS),
        which=strategies.integers(0, 1 << 16),
    )
    def look_from_another_process(self, what, which):
        """Somebody else opens the log beside whoever has it: to write, to read, to follow, to verify."""
        match what:
            case "second writer":
                self.log.open_again_elsewhere()
            case "usurper":
                self.log.usurp()
            case "reader" | "follower":
                self.log.read_elsewhere(follow=what == "follower")
            case _:
                self.log.verify(which, wrong=what == "forged anchor")

    @invariant()
    def what_is_durable_is_what_the_model_says(self):
        """Between the rules nothing is underway: numbers are dense and every ticket is decided."""
        self.log.at_rest()
        self.steps += self.log.is_open

    def teardown(self):
        """At the end the log opens once more and is examined."""
        self.log.finish()


TestGame = Game.TestCase
TestGame.settings = settings(
    max_examples=200 * SCALE,
    stateful_step_count=80,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    print_blob=True,
    phases=set(Phase) - {Phase.explain},
)
TestGame.pytestmark = [pytest.mark.timeout(600 * SCALE)]
