"""Group commit: the order, the three outcomes, and what cancelling and closing mean."""

import asyncio
import threading

import pytest

from eventlog.errors import EventTooLarge, LogClosed
from eventlog.storage import LogReader, RealFileSystem
from eventlog.storage import writer as writer_module
from eventlog.storage.wakers import TICKETS_A_TURN

from .logs import open_log, payloads_in, segments_of


class SlowDisk(RealFileSystem):
    """Real files whose fdatasync waits until it is let go; tells when it has begun."""

    def __init__(self):
        self.begun = threading.Event()
        self.go = threading.Event()

    def fdatasync(self, fd):
        """Wait, then sync."""
        self.begun.set()
        assert self.go.wait(60)
        super().fdatasync(fd)


def test_an_append_returns_the_last_sequence_and_is_durable(tmp_path):
    """Sequences are dense from 1; the durable position moves with each commit."""
    with open_log(tmp_path / "a" / "b") as writer:
        assert writer.durable == (0, bytes(32))
        assert writer.append([b"one"]) == 1
        assert writer.append([b"two", b"", b"four"]) == 4
        assert writer.durable.sequence == 4
        ticket = writer.submit([b"five"])
        assert ticket.wait(60) == 5
        assert (ticket.first_sequence, ticket.payloads) == (5, (b"five",))
        assert [record.payload for record in writer.reader().read()] == [
            b"one",
            b"two",
            b"",
            b"four",
            b"five",
        ]
        assert [record.time_ns for record in writer.reader().read(5)] == [ticket.time_ns]


def test_files_are_private(tmp_path):
    """Prompts and answers are nobody else's business: 0700 and 0600."""
    with open_log(tmp_path / "run" / "log") as writer:
        writer.append([b"one"])
    log = tmp_path / "run" / "log"
    assert {path.stat().st_mode & 0o777 for path in (log, log.parent)} == {0o700}
    assert {path.stat().st_mode & 0o777 for path in log.iterdir()} == {0o600}


def test_what_waits_during_a_sync_becomes_one_frame(tmp_path):
    """While one sync runs the next group gathers; tickets keep their order and each stays whole."""
    disk = SlowDisk()
    with open_log(tmp_path, filesystem=disk) as writer:
        first = writer.submit([b"first"])
        assert disk.begun.wait(60)
        rest = [writer.submit([b"%d.%d" % (n, k) for k in range(n % 3 + 1)]) for n in range(20)]
        disk.go.set()
        assert first.wait(60) == 1
        assert [ticket.wait(60) for ticket in rest] == sorted(ticket.wait(60) for ticket in rest)
        assert len({ticket.time_ns for ticket in rest}) == 1
        assert [ticket.first_sequence for ticket in rest[:3]] == [2, 3, 5]
        for ticket in rest:
            last = ticket.first_sequence + len(ticket.payloads) - 1
            found = writer.reader().read(ticket.first_sequence, last)
            assert tuple(record.payload for record in found) == ticket.payloads


def test_many_threads_get_dense_numbers_and_a_follower_sees_each_event_once_in_order(tmp_path):
    """Eight threads append; another reader follows meanwhile."""
    seen, last = [], []
    with open_log(tmp_path, first_segment_bytes=64 << 10) as writer:

        def work(name):
            last.extend(writer.append([b"%d/%d" % (name, number)]) for number in range(40))

        threads = [threading.Thread(target=work, args=(name,)) for name in range(8)]
        for thread in threads:
            thread.start()
        writer.append([b"begin"])
        with LogReader.open(tmp_path) as follower:
            while len(seen) < 321:
                end = follower.refresh()
                assert end.sequence <= writer.durable.sequence
                seen += [(one.sequence, one.payload) for one in follower.read(len(seen) + 1)]
        for thread in threads:
            thread.join()
    assert [sequence for sequence, _ in seen] == list(range(1, 322))
    assert sorted(last) == [n for n, payload in seen if payload != b"begin"]
    for name in range(8):
        mine = [payload for _, payload in seen if payload.startswith(b"%d/" % name)]
        assert mine == [b"%d/%d" % (name, number) for number in range(40)]


def test_tickets_settle_on_their_loop_in_order_and_on_durable_comes_first(tmp_path):
    """on_durable is called in sequence order, each call just before its awaiter wakes."""
    said = []

    async def one(writer, number):
        ticket = writer.submit_async([b"%d" % number], lambda t: said.append(("durable", t.first_sequence)))
        said.append(("woken", await ticket))
        assert await ticket == ticket.wait(0)

    async def main(writer):
        await asyncio.gather(*(one(writer, number) for number in range(200)))

    with open_log(tmp_path, first_segment_bytes=256 << 10) as writer:
        asyncio.run(main(writer))
    for kind in ("durable", "woken"):
        assert [number for what, number in said if what == kind] == list(range(1, 201))
    assert all(said.index(("durable", n)) < said.index(("woken", n)) for n in range(1, 201))


def test_a_large_group_is_told_in_several_turns_of_its_loop_and_in_order(tmp_path):
    """A thousand that wake leave room for the loop's timers between them; the next group comes after them."""
    disk = SlowDisk()
    turn, told = [0], []

    async def main(writer):
        loop = asyncio.get_running_loop()

        def count():
            turn[0] += 1
            loop.call_soon(count)

        loop.call_soon(count)
        first = writer.submit_async([b"first"])
        await asyncio.to_thread(disk.begun.wait, 60)
        many = [
            writer.submit_async([b"x"], lambda ticket: told.append((turn[0], ticket.first_sequence)))
            for _ in range(1000)
        ]
        disk.go.set()
        await first
        await many[0]
        late = writer.submit_async([b"y"], lambda ticket: told.append((turn[0], ticket.first_sequence)))
        await late

    with open_log(tmp_path, filesystem=disk) as writer:
        asyncio.run(main(writer))
    assert [sequence for _, sequence in told] == list(range(2, 1003))
    turns = [turn for turn, _ in told[:1000]]
    assert max(turns.count(turn) for turn in turns) <= 2 * TICKETS_A_TURN


def test_cancelling_the_waiter_never_cancels_the_commit(tmp_path):
    """The task is cancelled while the sync runs; the event is there and another waiter learns it."""
    disk = SlowDisk()

    async def main(writer):
        ticket = writer.submit_async([b"cancelled waiter"])
        await asyncio.to_thread(disk.begun.wait, 60)
        queued = writer.submit_async([b"never framed when cancelled"])
        tasks = [asyncio.ensure_future(wait(one)) for one in (ticket, queued, ticket)]
        await asyncio.sleep(0)
        for task in tasks[:2]:
            task.cancel()
        disk.go.set()
        with pytest.raises(asyncio.CancelledError):
            await tasks[0]
        with pytest.raises(asyncio.CancelledError):
            await tasks[1]
        assert await tasks[2] == 1
        assert await queued == 2
        assert await writer.submit_async([b"after"]) == 3

    async def wait(ticket):
        return await ticket

    with open_log(tmp_path, filesystem=disk) as writer:
        asyncio.run(main(writer))
    assert payloads_in(tmp_path) == [b"cancelled waiter", b"never framed when cancelled", b"after"]


def test_a_ticket_is_awaited_on_its_own_loop_or_not_at_all(tmp_path):
    """Another loop's task, and whoever awaits a ticket for threads, is told so; the commits go on."""
    disk = SlowDisk()

    async def wait(ticket):
        return await ticket

    async def main(writer):
        ticket = writer.submit_async([b"mine"])
        for other in (ticket, writer.submit([b"a thread's"])):
            with pytest.raises(RuntimeError):
                await asyncio.to_thread(asyncio.run, wait(other))
        disk.go.set()
        return await ticket

    with open_log(tmp_path, filesystem=disk) as writer:
        assert asyncio.run(main(writer)) == 1
    assert payloads_in(tmp_path) == [b"mine", b"a thread's"]


def test_a_closed_loop_does_not_stop_the_writer(tmp_path):
    """The loop ends while its commit is being synced: the commit is durable, and other threads go on."""
    disk = SlowDisk()
    kept = []

    async def main(writer):
        kept.append(writer.submit_async([b"orphan"]))
        await asyncio.to_thread(disk.begun.wait, 60)

    with open_log(tmp_path, filesystem=disk) as writer:
        asyncio.run(main(writer))
        disk.go.set()
        assert kept[0].wait(60) == 1
        assert writer.append([b"next"]) == 2
    assert payloads_in(tmp_path) == [b"orphan", b"next"]


def test_a_callback_that_raises_takes_nothing_from_the_others(tmp_path):
    """The error goes to the loop's handler; every awaiter still wakes."""
    errors = []

    def fail(_):
        raise ValueError("mine")

    async def main(writer):
        asyncio.get_running_loop().set_exception_handler(
            lambda _, context: errors.append(context["exception"])
        )
        tickets = [writer.submit_async([b"x"], fail), writer.submit_async([b"y"])]
        assert [await ticket for ticket in tickets] == [1, 2]

    with open_log(tmp_path) as writer:
        asyncio.run(main(writer))
    assert [str(error) for error in errors] == ["mine"]


def test_submit_waits_for_room_and_submit_async_does_not(tmp_path, monkeypatch):
    """The queue is bounded for threads; a loop is never held up."""
    monkeypatch.setattr(writer_module, "QUEUE_BYTES", 1000)
    disk = SlowDisk()

    async def main(writer):
        tickets = [writer.submit_async([b"z" * 600]) for _ in range(5)]
        disk.go.set()
        return [await ticket for ticket in tickets]

    with open_log(tmp_path, filesystem=disk) as writer:
        writer.submit([b"in flight"])
        assert disk.begun.wait(60)
        writer.submit([b"x" * 600])
        done = threading.Event()
        waiting = threading.Thread(target=lambda: (writer.submit([b"y" * 600]), done.set()))
        waiting.start()
        assert not done.wait(0.1)
        assert max(asyncio.run(main(writer))) >= 7
        waiting.join()
        assert done.is_set()
    assert len(payloads_in(tmp_path)) == 8


def test_a_commit_over_the_limit_is_refused_before_anything_is_written(tmp_path, monkeypatch):
    """256 MiB a commit, events and their table together; the handle stays usable."""
    monkeypatch.setattr(writer_module, "MAX_COMMIT_BYTES", 1000)
    with open_log(tmp_path) as writer:
        with pytest.raises(EventTooLarge, match="1001 bytes"):
            writer.submit([b"x" * 1001])
        with pytest.raises(EventTooLarge):
            writer.submit([b"x" * 496, b"x" * 497])
        assert segments_of(tmp_path) == []
        assert writer.append([b"x" * 1000]) == 1
        assert writer.append([b"x" * 496, b"x" * 496]) == 3


def test_only_bytes_are_events(tmp_path):
    """A wrong argument is refused where it was passed, and harms nothing."""
    with open_log(tmp_path) as writer:
        for wrong in (["text"], [b"fine", bytearray(b"not")], [None]):
            with pytest.raises(TypeError):
                writer.submit(wrong)
        with pytest.raises(ValueError, match="at least one"):
            writer.submit([])
        assert writer.append([b"fine"]) == 1


def test_closing_writes_what_is_queued_and_refuses_the_rest(tmp_path):
    """Closing drains; afterwards every append is LogClosed; closing again does nothing."""
    disk = SlowDisk()
    writer = open_log(tmp_path, filesystem=disk)
    tickets = [writer.submit([b"%d" % number]) for number in range(5)]
    disk.go.set()
    writer.close()
    assert [ticket.wait(0) for ticket in tickets] == [1, 2, 3, 4, 5]
    writer.close()
    with pytest.raises(LogClosed):
        writer.append([b"late"])
    assert [record.payload for record in writer.reader().read(5)] == [b"4"]
    assert len(payloads_in(tmp_path)) == 5


def test_segments_double_and_a_large_commit_gets_a_larger_one(tmp_path):
    """8, 16, 32, 32 KiB here; a full segment is sealed and its successor names its end."""
    with open_log(tmp_path) as writer:
        for size in [3000] * 30 + [100_000] + [3000] * 3:
            writer.append([b"x" * size])
    sizes = [path.stat().st_size for path in segments_of(tmp_path)]
    assert sizes[:4] == [8192, 16384, 32768, 32768]
    assert max(sizes) >= 100_000
    assert len(payloads_in(tmp_path)) == 34
    for path in segments_of(tmp_path)[:-1]:
        assert path.read_bytes().rfind(b"\xe5EVF\x01\x02") > 0


def test_commit_times_never_decrease(tmp_path):
    """The clock may jump back, also between sessions; the log's time stands still meanwhile."""
    for times in ([50, 40, 60], [10, 20]):
        ticks = iter([value for time in times for value in (time,) * 50])
        with open_log(tmp_path, clock_ns=lambda ticks=ticks: next(ticks)) as writer:
            for _ in range(12):
                writer.append([b"x"])
    with LogReader.open(tmp_path) as reader:
        found = [record.time_ns for record in reader.read()]
    assert found == sorted(found)


def test_a_slow_sync_is_said_in_one_sentence(tmp_path):
    """A sync that takes a second or more by the given clock warns with how long it took."""
    now = [10**18]
    warnings = []

    class Slow(RealFileSystem):
        def fdatasync(self, fd):
            now[0] += 1_500_000_000
            super().fdatasync(fd)

    with open_log(tmp_path, filesystem=Slow(), clock_ns=lambda: now[0], warn=warnings.append) as writer:
        writer.append([b"x"])
    assert "took 1.5 s" in warnings[0]
