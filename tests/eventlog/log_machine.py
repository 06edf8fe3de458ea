"""A log on a forgetful disk with its model beside it: each method does one thing to both and looks."""

import asyncio
import itertools
import threading
from random import Random

import pytest

from eventlog.errors import EventLogError, LogClosed, LogLocked
from eventlog.storage import LogReader, LogWriter, Position, compact, verify
from eventlog.testing import LOG, events_in, new_disk

from .model import LogModel

SEGMENT_BYTES = 8 << 10
PATIENCE_S = 60


class LogMachine:
    """One machine with at most one writer, which other processes look at."""

    def __init__(self):
        self.disk = new_disk()
        self.model = LogModel()
        self.writer = None
        self.follower = None
        self.seen = []
        self.anchors = []
        self.faulty = False  # a fault is ordered, and may strike
        self.trouble = False  # a fault was ordered since the log was opened
        self.noted = False  # something was acknowledged since the log was opened
        self._lives = 0

    @property
    def is_open(self):
        """Whether there is a writer (it may be poisoned)."""
        return self.writer is not None

    def now(self):
        """The moment."""
        return self.disk.operations

    # Writing.

    def open(self, *, compress_sealed=False):
        """Open the log; only an ordered fault may be in the way, and not for long."""
        try:
            self.writer = self._open(self.disk, compress_sealed=compress_sealed)
        except EventLogError:
            assert self.faulty, "refused although nothing failed"
            self.clear_faults()
            self.writer = self._open(self.disk, compress_sealed=compress_sealed)
        self.clear_faults()
        self.trouble = self.noted = False
        assert self.writer.found.kind in ("clean", "torn")
        records = list(self.writer.reader().read())
        assert [record.sequence for record in records] == list(range(1, len(records) + 1))
        found = self.model.check([record.payload for record in records], self.now())
        self.model.settle_all(found, self.now())
        assert self.writer.durable.sequence == len(records)
        self._remember(self.writer.durable)

    def _open(self, disk, *, compress_sealed=False):
        self._lives += 1
        ticks = itertools.count(1_700_000_000_000_000_000, 1_000)
        return LogWriter.open(
            LOG,
            clock_ns=lambda: next(ticks),
            random_bytes=Random(self._lives).randbytes,
            filesystem=disk,
            first_segment_bytes=SEGMENT_BYTES,
            largest_segment_bytes=2 * SEGMENT_BYTES,
            compress_sealed=compress_sealed,
        )

    def append(self, commit):
        """One commit, waited for."""
        self.append_many([commit])

    def append_many(self, commits):
        """Several commits of one thread, handed over before the first is waited for."""
        final = self.model.poisoned
        pairs = [self._submit(sizes, "main", self.writer.submit) for sizes in commits]
        self._settle(pairs, final=final)

    def _submit(self, sizes, submitter, submit):
        commit = self.model.issue(sizes, submitter, self.now())
        try:
            return commit, submit(commit.payloads)
        except LogClosed as error:
            self.model.failed(commit, error, self.now())
            return commit, None

    def _settle(self, pairs, *, final):
        for commit, ticket in pairs:
            if ticket is not None:
                self.model.settle(commit, ticket, self.now, PATIENCE_S)
            assert not (final and commit.outcome != "absent"), f"{commit} after the handle had ended"
            if commit.outcome == "acked":
                self.noted = True
                assert self.writer.durable.sequence >= commit.first + len(commit.payloads) - 1
        self._remember(self.writer.durable)

    def append_concurrently(self, threads, tasks):
        """Threads and tasks of one event loop at once, each waiting for its own or not."""
        final = self.model.poisoned
        pairs, order = [], []
        running = [
            threading.Thread(target=self._work, args=(f"thread {number}", commits, pairs))
            for number, commits in enumerate(threads)
        ]
        for thread in running:
            thread.start()
        asyncio.run(self._loop(tasks, pairs, order))
        for thread in running:
            thread.join(PATIENCE_S)
            assert not thread.is_alive(), "an append never ended"
        assert order == sorted(set(order)), "on_durable was not called once each, in order"
        self._settle(pairs, final=final)

    def _work(self, name, commits, pairs):
        for sizes in commits:
            pair = self._submit(sizes, name, self.writer.submit)
            pairs.append(pair)
            if pair[1] is not None:
                self.model.settle(*pair, self.now, PATIENCE_S)

    async def _loop(self, tasks, pairs, order):
        def submit(payloads):
            return self.writer.submit_async(payloads, lambda ticket: order.append(ticket.first_sequence))

        waiting = []
        for sizes, fate in tasks:
            pair = self._submit(sizes, "loop", submit)
            pairs.append(pair)
            if pair[1] is not None and fate != "orphan":
                task = asyncio.ensure_future(_outcome(pair[1]))
                await asyncio.sleep(0)
                if fate == "cancel":
                    task.cancel()
                waiting.append(task)
        await asyncio.wait_for(asyncio.gather(*waiting, return_exceptions=True), PATIENCE_S)

    def close(self):
        """Close in good order; no ticket stays open, and nothing more is taken."""
        self.writer.close()
        commit, _ = self._submit([0], "main", self.writer.submit)
        assert commit.outcome == "absent"
        self.writer = None

    # Failing.

    def fail(self, call, **order):
        """Order a fault of the process that has the log."""
        self.faulty = self.trouble = True
        self.disk.faults.fail(call, **order)

    def shorten(self, call, *, at_most):
        """Order some short calls."""
        self.disk.faults.shorten(call, at_most=at_most, times=5)

    def clear_faults(self):
        """Withdraw what was ordered."""
        self.disk.faults.clear()
        self.faulty = False

    def crash(self, operations, *, torn):
        """The process died some operations ago; what was written is kept, un-synced as it was."""
        points = list(itertools.islice(self.disk.crash_points(max(0, self.now() - operations)), 2))
        point = points[-1] if torn and points[-1].torn else points[0]
        self._go_on_with(point.after_process_crash(), point)

    def lose_power(self, operations, seed):
        """The power failed some operations ago."""
        rng = Random(seed)
        point = next(self.disk.crash_points(max(0, self.now() - operations)))
        images = list(point.images_after_power_loss(rng.choice((2, 20, 60)), rng))
        self._go_on_with(rng.choice(images), point)

    def _go_on_with(self, disk, point):
        """Another machine takes over: hold what is on its disk against the model, without changing it."""
        self._end_this_machine()
        found = self.model.check(self._peek(disk), point.operations, torn=point.torn)
        self.model.restart(found, point.operations)
        self.disk = disk
        promised = self.model.promised(0)
        self.anchors = [anchor for anchor in self.anchors if anchor.sequence <= promised]

    def _end_this_machine(self):
        self.disk.faults.clear()
        if self.writer is not None:
            self.writer.close()  # what it still does to this disk concerns nobody
        self.writer = self.follower = None
        self.seen = []
        self.faulty = self.trouble = False

    @staticmethod
    def _peek(disk):
        copy = disk.after_process_crash()
        try:
            return events_in(copy)
        except EventLogError as error:
            _only_if_there_is_no_log(error)
            return []

    # Looking.

    def open_again_elsewhere(self):
        """A second writer in another process is refused while the first one has the log."""
        if not self.is_open or self.model.poisoned:
            return
        try:
            other = self._open(self.disk.new_process())
        except LogLocked:
            return
        assert self.trouble, "two writers at once"
        # Trouble with HEAD ends a handle without any commit in doubt; then the log is free.
        other.close()
        commit, ticket = self._submit([0], "main", self.writer.submit)
        assert ticket is None, f"two writers at once, and one took {commit}"

    def usurp(self):
        """Somebody unlinks LOCK and opens the log: the old writer is fenced, all promises hold."""
        if not self.is_open or self.model.poisoned:
            return
        old, self.disk = self.writer, self.disk.new_process()
        self.disk.unlink(f"{LOG}/LOCK")
        self.open()
        commit = self.model.issue([0], "the fenced", self.now())
        try:
            ticket = old.submit(commit.payloads)
        except LogClosed as error:
            self.model.failed(commit, error, self.now())
        else:
            self.model.settle(commit, ticket, self.now, PATIENCE_S)
        assert commit.outcome != "acked", "a fenced writer has acknowledged"
        old.close()
        self.model.poisoned = False  # that was the other handle

    def read_elsewhere(self, *, follow):
        """What another process is shown is what the model says, and has to stay."""
        try:
            if not follow:
                shown = events_in(self.disk.new_process())
            else:
                if self.follower is None:
                    self.follower = LogReader.open(LOG, filesystem=self.disk.new_process())
                    self.seen = []
                self.follower.refresh()
                more = list(self.follower.read(len(self.seen) + 1))
                start = len(self.seen) + 1
                assert [one.sequence for one in more] == list(range(start, start + len(more)))
                self.seen += [one.payload for one in more]
                shown = self.seen
        except EventLogError as error:
            _only_if_there_is_no_log(error)
            shown = []
        # Beside a writer a reader goes by what this one has noted in HEAD, if it could.
        told_all = not self.is_open or (self.noted and not self.trouble)
        self.model.check_shown(shown, self.now(), all_promised=told_all)
        self.model.expose(len(shown), self.now())

    def verify(self, which, *, wrong):
        """With an anchor of an earlier moment the log is whole; a forged anchor is reported."""
        anchor = self.anchors[which % len(self.anchors)] if self.anchors else Position(0, bytes(32))
        if wrong:
            anchor = Position(anchor.sequence, bytes([anchor.chain[0] ^ 1]) + anchor.chain[1:])
        try:
            verdict = verify(LOG, anchor=anchor, filesystem=self.disk.new_process())
        except EventLogError as error:
            _only_if_there_is_no_log(error)
            return
        assert verdict.kind in (("tampered",) if wrong else ("clean", "torn")), verdict

    def compact(self):
        """Compress every segment: refused while a writer has the log, and invisible otherwise."""
        if self.is_open:
            if not self.trouble:
                with pytest.raises(LogLocked):
                    self._compact(self.disk.new_process())
            return
        try:
            self._compact(self.disk)
        except EventLogError as error:
            if not self.faulty:
                _only_if_there_is_no_log(error)
        self.clear_faults()
        self.read_elsewhere(follow=False)

    def _compact(self, disk):
        self._lives += 1
        return compact(LOG, random_bytes=Random(self._lives).randbytes, filesystem=disk)

    def at_rest(self):
        """Numbers are dense, and what the writer calls durable is what the model was promised."""
        if self.is_open:
            promised = self.model.promised(self.now())
            # Once a handle is poisoned a reader syncs, and may be shown what nobody knew of.
            assert self.writer.durable.sequence == promised or self.model.poisoned

    def finish(self):
        """One last crash and opening; then nothing may be missing."""
        self.crash(0, torn=False)
        self.open()
        self.close()
        for _ in range(2):
            self.read_elsewhere(follow=False)

    def _remember(self, position):
        self.anchors = [*self.anchors[-20:], position]


async def _outcome(ticket):
    """Await a ticket, as a task that can be cancelled."""
    return await ticket


def _only_if_there_is_no_log(error):
    """A log that was never begun, or whose directory a crash took, is no error."""
    if "There is no log" not in str(error):
        raise error
