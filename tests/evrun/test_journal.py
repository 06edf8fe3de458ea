"""The journal: what is folded is durable, in the order of the log, and no error is lost."""

import asyncio
import errno

import pytest

from eventlog.errors import LogClosed, NotWritten, OutcomeUnknown
from eventlog.events import RowsSkipped, encode_event
from evrun.errors import RunFailed
from tests.evrun.acting import FailingDisk, events_in, names_in, open_journal, plan_one, run


def fact(number):
    """Some event that tells which one it is."""
    return RowsSkipped([(number, "x")])


def numbers(records):
    """Which facts were seen."""
    return [record.event.lines[0][0] for record in records if isinstance(record.event, RowsSkipped)]


def test_events_are_folded_when_they_are_durable_and_not_before(tmp_path):
    """Queued is not folded; awaited is folded, shown, and in the log."""
    seen = []

    async def main():
        with open_journal(tmp_path, see=seen.append) as journal:
            ticket = journal.record(fact(1), fact(2))
            assert journal.state.sequence == 0
            assert seen == []
            await ticket
            assert journal.state.sequence == 2
            assert names_in(tmp_path) == ["RowsSkipped"] * 2

    run(main)
    assert [(record.sequence, record.session) for record in seen] == [(1, 1), (2, 1)]
    assert seen[0].time_ns == seen[1].time_ns


def test_events_that_come_as_bytes_are_folded_as_those_that_come_as_objects(tmp_path):
    """One commit, the same records, nothing before it is durable."""
    seen = []

    async def main():
        with open_journal(tmp_path, see=seen.append) as journal:
            await journal.record(fact(1))
            ticket = journal.record_encoded([encode_event(fact(2)), encode_event(fact(3))])
            assert journal.state.sequence == 1
            await ticket
            assert journal.state.sequence == 3

    run(main)
    assert [record.event for record in seen] == events_in(tmp_path) == [fact(1), fact(2), fact(3)]
    assert seen[0].time_ns < seen[1].time_ns == seen[2].time_ns


def test_facts_are_folded_in_the_order_of_the_log_whoever_awaits_first(tmp_path):
    """Fifty commits awaited backwards, from tasks of their own."""
    seen = []

    async def main():
        with open_journal(tmp_path, see=seen.append) as journal:
            tickets = [journal.record(fact(number)) for number in range(50)]
            await asyncio.gather(*[_settle(ticket) for ticket in reversed(tickets)])
        assert [event.lines[0][0] for event in events_in(tmp_path)] == list(range(50))

    async def _settle(ticket):
        await ticket

    run(main)
    assert numbers(seen) == list(range(50))
    assert [record.sequence for record in seen] == list(range(1, 51))


def test_a_cancelled_wait_takes_no_event_back(tmp_path):
    """The commit becomes durable and is folded all the same."""
    seen = []

    async def main():
        with open_journal(tmp_path, see=seen.append) as journal:

            async def wait():
                await journal.record(fact(1))

            task = asyncio.ensure_future(wait())
            await asyncio.sleep(0)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            await journal.record(fact(2))

    run(main)
    assert numbers(seen) == [1, 2]


def test_a_session_is_numbered_after_the_last(tmp_path):
    """And begins with the state that the log says."""

    async def main():
        with open_journal(tmp_path) as journal:
            await plan_one(journal)
        with open_journal(tmp_path) as journal:
            assert journal.session == 2
            assert journal.state.batch.counts["pending"] == 1

    run(main)


def test_a_full_disk_is_told_nothing_is_folded_and_the_journal_goes_on(tmp_path):
    """Certainly absent: the next commit takes its place."""
    disk, seen = FailingDisk(), []

    async def main():
        with open_journal(tmp_path, filesystem=disk, see=seen.append) as journal:
            await journal.record(fact(1))
            disk.failing["pwrite"] = errno.ENOSPC
            with pytest.raises(NotWritten):
                await journal.record(fact(2))
            assert journal.state.sequence == 1
            assert disk.struck == 1
            await journal.record(fact(3))

    run(main)
    assert numbers(seen) == [1, 3]
    assert [event.lines[0][0] for event in events_in(tmp_path)] == [1, 3]


@pytest.mark.parametrize("call", ["pwrite", "fdatasync"])
def test_a_failing_disk_is_told_as_unknown_and_nothing_can_be_written_any_more(tmp_path, call):
    """What was folded before stays; a new session finds the log whole."""
    disk, seen = FailingDisk(), []

    async def main():
        with open_journal(tmp_path, filesystem=disk, see=seen.append) as journal:
            await journal.record(fact(1))
            disk.failing[call] = errno.EIO
            with pytest.raises(OutcomeUnknown):
                await journal.record(fact(2))
            assert disk.struck == 1
            with pytest.raises(LogClosed):
                await journal.record(fact(3))
            assert numbers(seen) == [1]
        with open_journal(tmp_path) as journal:
            await journal.record(fact(4))

    run(main)
    written = [event.lines[0][0] for event in events_in(tmp_path)]
    assert written in ([1, 4], [1, 2, 4])


def test_a_view_that_breaks_is_told_to_whoever_writes_next_and_the_log_is_whole(tmp_path):
    """The event that broke it is durable; nothing is acted on afterwards."""

    def see(record):
        if record.sequence == 2:
            raise KeyError("a bug")

    async def main():
        with open_journal(tmp_path, see=see) as journal:
            await journal.record(fact(1))
            await journal.record(fact(2))
            with pytest.raises(RunFailed, match="a view or fold failed: KeyError") as caught:
                journal.record(fact(3))
            assert isinstance(caught.value.__cause__, KeyError)

    run(main)
    assert [event.lines[0][0] for event in events_in(tmp_path)] == [1, 2]


def test_text_that_the_log_cannot_hold_is_refused_before_anything_is_queued(tmp_path):
    """A lone surrogate in a text field; the journal goes on."""

    async def main():
        with open_journal(tmp_path) as journal:
            with pytest.raises(UnicodeEncodeError):
                journal.record(fact(1), RowsSkipped([(2, "\ud800")]))
            await journal.record(fact(3))

    run(main)
    assert [event.lines[0][0] for event in events_in(tmp_path)] == [3]
