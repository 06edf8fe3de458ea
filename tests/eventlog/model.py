"""The model that a log is held against: a list of commits, and who was promised what when.

A moment is the number of operations of the simulated disk. What was noted at a moment belongs to the crash
points from there on. The order of commits of different threads is not known beforehand, so the model asks for
less than one list: each submitter's commits keep their order, and an acknowledged one stands where it said.
"""

import threading
from dataclasses import dataclass
from random import Random

from eventlog.errors import AppendError, LogClosed, NotWritten, OutcomeUnknown

FOUND = "found"  # the submitter of what was in the log when the machine was started

NEVER = 1 << 60


@dataclass(eq=False)
class Commit:
    """One issued commit and what is known of it."""

    payloads: list[bytes]
    submitter: str
    issued_at: int
    first: int = 0
    acked_at: int = NEVER
    absent_at: int = NEVER
    outcome: str = "pending"

    def __repr__(self):
        """Name the commit by its mark."""
        return f"<{self.payloads[0][:12]!r} of {self.submitter}: {self.outcome}, first {self.first}>"


class LogModel:
    """All commits that one machine's log may hold, and what must be there at which moment."""

    def __init__(self):
        self.commits = []
        self.exposed = [(0, 0)]
        self.poisoned = False
        self._mark = 0
        self._mutex = threading.Lock()

    def issue(self, sizes, submitter, moment):
        """A new commit; its first event says which it is, the others may be anything."""
        with self._mutex:
            self._mark += 1
            mark = b"%d|" % self._mark
            noise = Random(self._mark)
            payloads = [mark + noise.randbytes(sizes[0]), *(noise.randbytes(size) for size in sizes[1:])]
            commit = Commit(payloads, submitter, moment)
            self.commits.append(commit)
        return commit

    def acked(self, commit, last, moment):
        """Its append returned."""
        commit.first = last - len(commit.payloads) + 1
        commit.acked_at = moment
        commit.outcome = "acked"

    def failed(self, commit, error, moment):
        """Its append ended with this error."""
        match error:
            case LogClosed():
                commit.absent_at, commit.outcome = 0, "absent"
            case NotWritten():
                commit.absent_at, commit.outcome = moment, "absent"
            case OutcomeUnknown():
                commit.outcome, self.poisoned = "unknown", True
            case _:
                raise error

    def settle(self, commit, ticket, moment, patience_s=60):
        """Wait for the outcome of a ticket, which must come, and note it."""
        try:
            last = ticket.wait(patience_s)
        except TimeoutError:
            raise AssertionError(f"{commit} was never decided") from None
        except AppendError as error:
            self.failed(commit, error, moment())
        else:
            self.acked(commit, last, moment())

    def expose(self, count, moment):
        """Somebody was shown, or told, that the first `count` events are durable."""
        self.exposed.append((moment, count))

    def promised(self, moment):
        """How many events must be there."""
        told = [count for then, count in self.exposed if then <= moment]
        ends = [c.first + len(c.payloads) - 1 for c in self.commits if c.acked_at <= moment]
        return max(told + ends)

    def check(self, recovered, moment, *, torn=False):
        """Hold what a log gives against the model; return its commits.

        A <= R <= I: whole commits, byte-identical; what was acknowledged or shown is there, at its place;
        what was called absent is not; no submitter's commits are out of order or have a gap.
        """
        found = self._split(recovered)
        for commit in found:
            assert commit.issued_at < moment + torn, f"{commit} is there before it was issued"
            assert commit.absent_at > moment, f"{commit} is there"
        promised = self.promised(moment)
        assert len(recovered) >= promised, f"lost: {promised} events promised, {len(recovered)} recovered"
        present = {id(commit) for commit in found}
        for commit in self.commits:
            if commit.acked_at <= moment:
                assert id(commit) in present, f"lost: {commit}"
        self._check_order(found)
        return found

    def check_shown(self, shown, moment, *, all_promised):
        """Hold what a reader beside a writer was shown against the model."""
        found = self._split(shown)
        self._check_order(found)
        for commit in found:
            assert commit.absent_at > moment, f"{commit} is shown"
        if all_promised:
            assert len(shown) >= self.promised(moment), "a reader is shown less than was promised"

    def _split(self, recovered):
        by_mark = {commit.payloads[0]: commit for commit in self.commits}
        found, at = [], 0
        while at < len(recovered):
            commit = by_mark.pop(recovered[at], None)
            assert commit is not None, f"event {at + 1} begins no issued commit, or one that was there before"
            end = at + len(commit.payloads)
            assert recovered[at:end] == commit.payloads, f"{commit} is there in part"
            assert commit.first in (0, at + 1), f"{commit} is at {at + 1}"
            found.append(commit)
            at = end
        return found

    def _check_order(self, found):
        place = {id(commit): at for at, commit in enumerate(found)}
        for submitter in {commit.submitter for commit in found}:
            mine = [commit for commit in self.commits if commit.submitter == submitter]
            there = [place.get(id(commit)) for commit in mine if commit.outcome != "absent"]
            kept = [at for at in there if at is not None]
            assert kept == sorted(kept), f"the commits of {submitter} are out of order"
            assert there[: len(kept)] == kept, f"the commits of {submitter} have a gap"

    def settle_all(self, found, moment):
        """The log was opened with exactly these commits: they are durable now, the others gone for good."""
        first = 1
        for commit in found:
            commit.first = first
            commit.acked_at = min(commit.acked_at, moment)
            first += len(commit.payloads)
        there = {id(commit) for commit in found}
        for commit in self.commits:
            if id(commit) not in there:
                commit.absent_at, commit.outcome = min(commit.absent_at, moment), "absent"
        self.poisoned = False

    def restart(self, found, moment):
        """A crash left these commits on a machine whose moments begin at 0; what was promised stays so."""
        promised = self.promised(moment)
        self.commits = []
        first = 1
        for commit in found:
            self.commits.append(Commit(commit.payloads, FOUND, -1, first))
            first += len(commit.payloads)
        self.exposed = [(0, promised)]
        self.poisoned = False

    def events(self):
        """All events, in order, if everything that was issued is there; for a log at rest."""
        return [event for commit in sorted(self.commits, key=lambda c: c.first) for event in commit.payloads]
