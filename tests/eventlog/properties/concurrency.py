"""What must be true when many want something at once: properties 13, 14 and 15. Functions that raise."""

import asyncio
import contextlib
import threading
from random import Random

from eventlog.errors import AppendError, LogClosed, LogLocked, OutcomeUnknown
from eventlog.storage import LogReader
from eventlog.testing import LOG, Episode, ForgetfulFileSystem, events_in, examine, new_disk, open_log

from .crashes import Watched

CALLS = (
    "open",
    "names",
    "pread",
    "pwrite",
    "fdatasync",
    "fsync",
    "allocate",
    "rename",
    "unlink",
    "sync_directory",
    "identity",
)


class Interrupted(ForgetfulFileSystem):
    """A process that is stopped just before one of its calls, as SIGSTOP would, while others work."""

    left = 0
    meanwhile = None

    def __getattribute__(self, name):
        """Wrap the calls."""
        call = super().__getattribute__(name)
        return self.counted(call) if name in CALLS else call

    def counted(self, call):
        """Let the others work before the call whose turn it is."""

        def interrupted(*args):
            self.left -= 1
            if self.left == 0:
                self.meanwhile()
            return call(*args)

        return interrupted


def check_single_writer(every):
    """13. Two handles at once are refused; a usurper fences the paused holder; what either acked stays.

    The holder is stopped at each of its calls in turn; LOCK is unlinked and another process writes meanwhile.
    """
    disk = new_disk()
    with open_log(disk), contextlib.suppress(LogLocked):
        open_log(disk.new_process(), seed=1)
        raise AssertionError("two writers at once")
    for nth in range(1, 200, every):
        if not usurped_at(nth):
            return
    raise AssertionError("a commit of more than 200 calls")


def usurped_at(nth):
    """Stop the holder at its nth call; return whether it came to that."""
    disk = new_disk(Interrupted())
    old = open_log(disk)
    acked = {old.append([b"a" * 3000]): b"a"}
    new = []

    def usurp():
        other = disk.new_process()
        other.unlink(f"{LOG}/LOCK")
        new.append(open_log(other, seed=2))
        note(acked, new[0], b"c")

    disk.meanwhile, disk.left = usurp, nth
    try:
        note(acked, old, b"b")
        if not new:
            return False
        disk.left = 0
        for payload in (b"d", b"e"):
            note(acked, new[0], payload)
        fenced = [refused(old, payload) for payload in (b"f", b"g")]
        assert fenced[-1] is LogClosed, "a fenced writer goes on"
    finally:
        disk.left = 0
        for writer in (old, *new):
            writer.close()
    found = [event[:1] for event in events_in(disk.after_process_crash())]
    for sequence, payload in acked.items():
        assert found[sequence - 1 : sequence] == [payload], (
            f"acknowledged as {sequence}: {payload}, in {found}"
        )
    assert len(found) == len(set(found)), f"twice: {found}"
    return True


def note(acked, writer, payload):
    """Append one event, and note which sequence was acknowledged; no two writers may be told the same."""
    with contextlib.suppress(AppendError):
        sequence = writer.submit([payload * 3000]).wait(60)
        assert sequence not in acked, f"event {sequence} was acknowledged twice"
        acked[sequence] = payload


def refused(writer, payload):
    """Append one event with a handle that was fenced; return how it was refused."""
    try:
        writer.submit([payload]).wait(60)
    except AppendError as error:
        return type(error)
    raise AssertionError("a fenced writer acknowledged")


def check_dense_order(commits):
    """14. Dense from 1 under threads, tasks and cancellation; a follower sees each event once, in order."""
    disk = new_disk()
    writer = open_log(disk, segment_bytes=64 << 10)
    seen, done = [], threading.Event()
    follower = threading.Thread(target=follow, args=(disk.new_process(), seen, done))
    writer.append([b"first"])
    follower.start()
    tickets = [[] for _ in range(4)]
    threads = [
        threading.Thread(target=submit_many, args=(writer, mine, name, commits))
        for name, mine in enumerate(tickets)
    ]
    for thread in threads:
        thread.start()
    asyncio.run(submit_and_cancel(writer, tickets, commits))
    for thread in threads:
        thread.join()
    for mine in tickets:
        for ticket in mine:
            ticket.wait(60)
    done.set()
    follower.join()
    writer.close()
    found = events_in(disk.after_process_crash())
    assert seen == list(enumerate(found, 1)), "a follower saw something else"
    for mine in tickets:
        firsts = [ticket.first_sequence for ticket in mine]
        assert firsts == sorted(firsts), "numbered in another order than handed over"
        for ticket in mine:
            assert found[ticket.first_sequence - 1 : ticket.last_sequence] == list(ticket.payloads)
    assert len(found) == 1 + sum(len(ticket.payloads) for mine in tickets for ticket in mine)


def submit_many(writer, mine, name, commits):
    """Hand over commits of one to three events without waiting for each."""
    for number in range(commits):
        mine.append(writer.submit([b"%d.%d.%d" % (name, number, part) for part in range(number % 3 + 1)]))
        if number % 5 == 4:
            mine[-1].wait(60)


async def submit_and_cancel(writer, tickets, commits):
    """The same from a loop, where every second await is cancelled."""
    tickets.append([])
    waiting = []
    for number in range(commits):
        tickets[-1].append(writer.submit_async([b"loop %d" % number]))
        waiting.append(asyncio.ensure_future(outcome(tickets[-1][-1])))
        await asyncio.sleep(0)
        if number % 2:
            waiting[-1].cancel()
    await asyncio.gather(*waiting, return_exceptions=True)


async def outcome(ticket):
    """Await a ticket."""
    return await ticket


def follow(process, seen, done):
    """Follow the log from another process until told that it is over, and once more."""
    with LogReader.open(LOG, filesystem=process) as reader:
        last = False
        while not last:
            last = done.is_set()
            reader.refresh()
            seen += [(record.sequence, record.payload) for record in reader.read(len(seen) + 1)]


def check_no_one_waits_for_ever(patience_s):
    """15. Cancelled, orphaned, refused: each commit is wholly there or wholly absent, each waiter is told."""
    for fate in ("cancelled", "orphaned", "poisoned", "closed"):
        episode = Episode(new_disk(Watched()))
        writer = open_log(episode.disk)
        episode.append(writer, 10)
        if fate == "poisoned":
            episode.disk.faults.fail("fdatasync", path=".evl")
        tickets = asyncio.run(abandon(episode, writer, fate))
        if fate == "closed":
            threading.Thread(target=writer.close).start()
        for ticket in tickets:
            try:
                ticket.wait(patience_s)
            except TimeoutError:
                raise AssertionError(
                    f"{fate}: nobody was told what became of {ticket.payloads[0][:8]}"
                ) from None
            except LogClosed:
                episode.withdraw(ticket.payloads)
            except OutcomeUnknown:
                continue
            else:
                episode.promise(ticket.last_sequence)
        writer.close()
        for image in episode.disk.now().images(20, Random(1)):
            examine(image, episode, episode.disk.now())


async def abandon(episode, writer, fate):
    """Hand over commits while the first of them is being synced, and leave them in one way or another."""
    tickets = []

    def hand_over_more():
        episode.disk.look = None
        tickets.extend(episode.submit(writer, 30 * size, 5) for size in range(8))

    episode.disk.look = hand_over_more
    payloads = episode.payloads(700, 1)
    episode.issued.append((episode.disk.operations, payloads))
    first = writer.submit_async(payloads)
    tickets.append(first)
    task = asyncio.ensure_future(outcome(first))
    await asyncio.sleep(0)
    if fate == "cancelled":
        task.cancel()
    elif fate == "orphaned":
        return tickets
    await asyncio.gather(task, return_exceptions=True)
    return tickets
