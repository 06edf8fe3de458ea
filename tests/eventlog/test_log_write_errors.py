"""What each failed call means: not written and usable, or unknown and finished for good."""

import asyncio
import errno
import subprocess
import sys
from pathlib import Path
from random import Random

import pytest

from eventlog.errors import AppendError, LogClosed, LogUnreadable, NotWritten, OutcomeUnknown
from eventlog.storage import verify
from eventlog.testing import ForgetfulFileSystem

from .logs import open_log, payloads_in

LOG = Path("/log")
SEGMENT = ".evl"


@pytest.fixture(name="disk")
def _disk():
    return ForgetfulFileSystem()


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EFBIG])
@pytest.mark.parametrize("written", [0, 50, 200])
@pytest.mark.parametrize("preallocated", [True, False])
def test_no_room_means_not_written_and_the_handle_goes_on(disk, number, written, preallocated):
    """What was put of the frame is zeroed; the next commit gets the same sequence."""
    if not preallocated:
        disk.faults.fail("allocate", error=errno.ENOSPC, times=None)
    with open_log(LOG, filesystem=disk) as writer:
        writer.append([b"one"])
        disk.faults.fail("pwrite", error=number, path=SEGMENT, written_bytes=written)
        with pytest.raises(NotWritten, match="Make room"):
            writer.append([b"lost" * 100])
        assert writer.durable.sequence == 1
        assert verify(LOG, filesystem=disk.after_process_crash()).kind == "clean"
        assert writer.append([b"two"]) == 2
    assert payloads_in(LOG, filesystem=disk) == [b"one", b"two"]


@pytest.mark.parametrize(
    ("call", "path"),
    [("open", ".new"), ("pwrite", ".new"), ("rename", ".new"), ("open", "HEAD")],
)
def test_no_room_for_a_new_segment_means_not_written(disk, call, path):
    """The segment never gets its name; the next commit tries again."""
    with open_log(LOG, filesystem=disk) as writer:
        disk.faults.fail(call, error=errno.ENOSPC, path=path)
        with pytest.raises(NotWritten):
            writer.append([b"lost"])
        assert [name for name in disk.names(str(LOG)) if "evl" in name] == []
        assert writer.append([b"one"]) == 1
    assert payloads_in(LOG, filesystem=disk) == [b"one"]


def test_no_room_for_the_seal_means_not_written(disk):
    """The full segment stays as it is until there is room for its seal."""
    with open_log(LOG, filesystem=disk) as writer:
        writer.append([b"x" * 3000])
        disk.faults.fail("pwrite", error=errno.ENOSPC, path=SEGMENT)
        with pytest.raises(NotWritten):
            writer.append([b"y" * 3000])
        assert writer.append([b"z" * 3000]) == 2
    assert [payload[:1] for payload in payloads_in(LOG, filesystem=disk)] == [b"x", b"z"]


POISONS = [
    ("pwrite", SEGMENT, errno.EIO),
    ("fdatasync", SEGMENT, errno.EIO),
    ("fdatasync", SEGMENT, errno.ENOSPC),
    ("fdatasync", SEGMENT, errno.EDQUOT),
]


@pytest.mark.parametrize(("call", "path", "number"), POISONS)
def test_a_failed_write_or_sync_is_final_for_the_handle(disk, call, path, number):
    """Unknown for the commit in hand, closed for later ones; no further sync is called; reading goes on."""
    writer = open_log(LOG, filesystem=disk)
    writer.append([b"one"])
    disk.faults.fail(call, error=number, path=path)
    before = disk.operations
    with pytest.raises(OutcomeUnknown):
        writer.append([b"two"])
    with pytest.raises(LogClosed, match="Open it again"):
        writer.append([b"three"])
    assert [record.payload for record in writer.reader().read()] == [b"one"]
    writer.close()
    syncs = [one for one in disk.history[before:] if type(one).__name__ == "SyncFile" and not one.failed]
    assert syncs == []
    with open_log(LOG, filesystem=disk) as again:
        assert again.durable.sequence in (1, 2)
        assert again.append([b"after"]) == again.durable.sequence


@pytest.mark.parametrize(
    ("call", "path"), [("fsync", ".new"), ("sync_directory", "/log"), ("rename", ".new"), ("pwrite", ".new")]
)
def test_a_failed_roll_is_final_for_the_handle(disk, call, path):
    """A new segment that could not be made durable holds nothing; what was acknowledged stays."""
    writer = open_log(LOG, filesystem=disk)
    writer.append([b"x" * 3000])
    disk.faults.fail(call, error=errno.EIO, path=path)
    with pytest.raises(OutcomeUnknown):
        writer.append([b"y" * 3000])
    with pytest.raises(LogClosed):
        writer.append([b"z"])
    writer.close()
    assert [payload[:1] for payload in payloads_in(LOG, filesystem=disk)] == [b"x"]


def test_a_failed_zeroing_is_unknown(disk):
    """No room for the frame, and the disk fails while it is taken back."""
    writer = open_log(LOG, filesystem=disk)
    writer.append([b"one"])
    disk.faults.fail("pwrite", error=errno.ENOSPC, path=SEGMENT, written_bytes=60)
    disk.faults.fail("pwrite", error=errno.EIO, path=SEGMENT, nth=2)
    with pytest.raises(OutcomeUnknown):
        writer.append([b"two"])
    writer.close()
    assert payloads_in(LOG, filesystem=disk)[:1] == [b"one"]


def test_every_waiter_of_a_poisoned_log_is_told(disk):
    """None is left waiting: one group is unknown, what was queued is closed."""

    async def main(writer):
        tickets = [writer.submit_async([b"%d" % number]) for number in range(50)]
        return await asyncio.gather(*map(outcome, tickets))

    async def outcome(ticket):
        try:
            await ticket
        except AppendError as error:
            return type(error)
        return None

    writer = open_log(LOG, filesystem=disk)
    writer.append([b"one"])
    disk.faults.fail("fdatasync", path=SEGMENT, times=None)
    outcomes = asyncio.run(main(writer))
    writer.close()
    assert set(outcomes) <= {OutcomeUnknown, LogClosed}
    assert outcomes[0] is OutcomeUnknown


def test_trouble_with_head_takes_no_acknowledgement_back(disk):
    """The commit is durable although HEAD could not be written; EIO ends the handle afterwards."""
    writer = open_log(LOG, filesystem=disk)
    writer.append([b"one"])
    disk.faults.fail("pwrite", error=errno.EIO, path="HEAD")
    assert writer.append([b"two"]) == 2
    with pytest.raises(LogClosed):
        writer.append([b"three"])
    writer.close()
    assert payloads_in(LOG, filesystem=disk) == [b"one", b"two"]


@pytest.mark.parametrize("at_most", [1, 7, 512])
def test_short_writes_and_short_reads_change_nothing(disk, at_most):
    """Each call moves only some bytes; the log is the same."""
    disk.faults.shorten("pwrite", at_most=at_most, times=None)
    disk.faults.shorten("pread", at_most=at_most, times=None)
    with open_log(LOG, filesystem=disk) as writer:
        writer.append([b"one" * 50])
        writer.append([b"two", b"three"])
    assert payloads_in(LOG, filesystem=disk) == [b"one" * 50, b"two", b"three"]


@pytest.mark.parametrize("nth", range(1, 6))
def test_a_read_error_refuses_and_is_never_the_end_of_the_log(disk, nth):
    """Whichever read fails, the log is unreadable, and the next try finds it whole."""
    with open_log(LOG, filesystem=disk) as writer:
        writer.append([b"one"])
    with open_log(LOG, filesystem=disk) as writer:
        writer.append([b"two"])
    disk.faults.fail("pread", nth=nth)
    with pytest.raises(LogUnreadable, match="errno 5"):
        open_log(LOG, filesystem=disk)
    assert payloads_in(LOG, filesystem=disk) == [b"one", b"two"]


def test_a_failed_sync_at_opening_refuses(disk):
    """What the page cache shows may not be on the disk: nothing is classified, nothing written."""
    with open_log(LOG, filesystem=disk) as writer:
        writer.append([b"one"])
    disk.faults.fail("fdatasync")
    with pytest.raises(LogUnreadable, match="Syncing"):
        open_log(LOG, filesystem=disk)
    assert payloads_in(LOG, filesystem=disk) == [b"one"]


def test_a_loss_after_a_failed_sync_is_found_because_the_cache_is_dropped(disk):
    """The kernel marks the pages clean after a failed sync: only the disk itself tells what is there."""
    writer = open_log(LOG, filesystem=disk)
    writer.append([b"one"])
    disk.faults.fail("fdatasync", path=SEGMENT, sync="abandoned")
    with pytest.raises(OutcomeUnknown):
        writer.append([b"two"])
    writer.close()
    with open_log(LOG, filesystem=disk) as again:
        found = again.durable.sequence
        assert again.append([b"after"]) == found + 1
    for image in disk.images_after_power_loss(20, Random(1)):
        assert payloads_in(LOG, filesystem=image)[0] == b"one"
        assert payloads_in(LOG, filesystem=image)[-1] == b"after"


LIMITED = """
import resource, sys
from pathlib import Path
sys.path.insert(0, sys.argv[2])
from eventlog.errors import NotWritten
from tests.eventlog.logs import open_log
resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, resource.RLIM_INFINITY))
writer = open_log(Path(sys.argv[1]), first_segment_bytes=1 << 20, largest_segment_bytes=1 << 20)
done = 0
try:
    while True:
        done = writer.append([b"x" * 3000])
except NotWritten as error:
    print(done, "File too large" in str(error))
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
print(writer.append([b"after"]))
writer.close()
"""


def test_a_true_limit_of_the_system_is_not_written(tmp_path):
    """RLIMIT_FSIZE makes true short writes and EFBIG: the log says so and goes on once the limit is gone."""
    root = Path(__file__).parents[2]
    command = [sys.executable, "-c", LIMITED, str(tmp_path / "log"), str(root)]
    said = subprocess.run(command, capture_output=True, text=True, timeout=100, check=True).stdout.split()
    assert said == ["4", "True", "5"]
    assert len(payloads_in(tmp_path / "log")) == 5


def head_syncs(disk):
    """How often HEAD was synced: the only file under its name that is fsync'ed after the roll."""
    inode = disk.identity(f"{LOG}/HEAD")[1]
    return sum(type(one).__name__ == "SyncFile" and one.inode == inode for one in disk.history)


def test_head_is_synced_about_once_a_second_and_at_closing(disk):
    """Off the hot path: not with every commit, but when the clock says that a second has passed."""
    now = [10**18]
    writer = open_log(LOG, filesystem=disk, clock_ns=lambda: now[0])
    for number in range(1, 7):
        for _ in range(5):
            writer.append([b"x"])
        writer.append([b"after"])  # the sync may follow the acknowledgement, so wait for one commit more
        assert head_syncs(disk) <= number
        now[0] += 600_000_000
    assert head_syncs(disk) in (2, 3)
    before = head_syncs(disk)
    writer.close()
    assert head_syncs(disk) == before + 2


def test_a_failed_sync_of_head_ends_the_handle_and_takes_nothing_back(disk):
    """What was acknowledged stays; later commits are refused."""
    now = [10**18]
    writer = open_log(LOG, filesystem=disk, clock_ns=lambda: now[0])
    writer.append([b"one"])
    disk.faults.fail("fsync", path="HEAD")
    now[0] += 2_000_000_000
    assert writer.append([b"two"]) == 2
    with pytest.raises(LogClosed, match="syncing HEAD failed"):
        list(
            iter(lambda: writer.append([b"more"]), None)
        )  # the sync follows the acknowledgement, sooner or later
    writer.close()
    assert payloads_in(LOG, filesystem=disk)[:2] == [b"one", b"two"]


def test_whatever_fails_in_the_writers_thread_nobody_waits_for_ever(disk):
    """A clock that raises is a fault of the caller; every waiter is told all the same."""
    now = [10**18]

    def clock():
        if now[0] is None:
            raise RuntimeError("the clock is broken")
        return now[0]

    writer = open_log(LOG, filesystem=disk, clock_ns=clock)
    writer.append([b"one"])
    now[0] = None
    for _ in range(3):
        with pytest.raises(AppendError, match="clock is broken"):
            writer.submit([b"two"]).wait(60)
    writer.close()
    assert payloads_in(LOG, filesystem=disk) == [b"one"]


def test_a_warning_that_cannot_be_given_stops_nothing(disk):
    """The callback raises; the log goes on."""

    def warn(_):
        raise ValueError("no terminal")

    ticks = iter(range(10**18, 2 * 10**18, 2_000_000_000))
    with open_log(LOG, filesystem=disk, clock_ns=lambda: next(ticks), warn=warn) as writer:
        assert writer.append([b"one"]) == 1
        assert writer.append([b"two"]) == 2
