"""Lives of a log on a simulated disk, one for each thing that a log does; crash suites crash them everywhere.

Each begins on a disk of which everything is durable, so that what is un-synced at a crash point is its own.
"""

from random import Random

from eventlog.storage import compact
from eventlog.storage.head import parse_head
from eventlog.testing import LOG, Episode, events_in, open_log, read_file
from eventlog.testing.operations import Write

FULL = 8  # the EVRUN_IMAGES at which nothing is left to chance that can be tried in full
RANDOM = Random(5).randbytes


def opening(disk):
    """A new log opened, closed, opened again, with nothing appended."""
    episode = Episode(disk)
    for seed in (1, 2):
        open_log(disk, seed=seed).close()
    return episode


def appending(disk):
    """A new log: opened, three commits of one to three events, closed."""
    episode = Episode(disk)
    with open_log(disk) as writer:
        for sizes in ([20], [0, 300, 5], [700]):
            episode.append(writer, *sizes)
    return episode


def grouping(disk):
    """Several commits handed over at once, so that some share a frame or follow each other unacknowledged."""
    episode = Episode(disk)
    with open_log(disk) as writer:
        episode.append(writer, 1)
        tickets = [episode.submit(writer, 100 * size) for size in range(5)]
        for ticket in tickets:
            episode.promise(ticket.wait(30))
    return episode


def rolling(disk):
    """Commits that fill segments, one of them larger than a whole segment: seals, and new segments."""
    episode = Episode(disk)
    with open_log(disk) as writer:
        for sizes in ([1500], [1500], [1500], [9000], [10], [2500]):
            episode.append(writer, *sizes)
    return episode


def closing(disk):
    """A second session: opened on a clean log, one commit, closed."""
    episode = _again(disk, appending(disk))
    with open_log(disk, seed=3) as writer:
        episode.append(writer, 40)
    return episode


def reopening(disk):
    """A session after a crash that tore a commit: its bytes stay, a new segment is begun behind them."""
    torn = torn_log(disk)
    episode = Episode(torn, events_in(torn.after_process_crash()), first_mark=100)
    with open_log(torn, seed=4) as writer:
        episode.append(writer, 40)
        episode.append(writer, 600)
    return episode


def compacting(disk):
    """A log of four segments, one with torn bytes behind its end, compressed; then written on, and again."""
    torn = torn_log(disk)
    before = Episode(torn, events_in(torn.after_process_crash()), first_mark=100)
    with open_log(torn, seed=4) as writer:
        for _ in range(3):
            before.append(writer, 1500, 700)
    episode = _again(torn, before)
    compact(LOG, random_bytes=RANDOM, filesystem=torn)
    with open_log(torn, seed=6) as writer:
        episode.append(writer, 30)
    compact(LOG, random_bytes=RANDOM, filesystem=torn)
    return episode


def compressing_beside(disk):
    """A writer whose full segments are compressed meanwhile by a thread of its own."""
    episode = Episode(disk)
    with open_log(disk, compress_sealed=True) as writer:
        for _ in range(8):
            episode.append(writer, 1500)
    return episode


LIVES = (
    opening,
    appending,
    grouping,
    rolling,
    closing,
    reopening,
    compacting,
    compressing_beside,
)


def torn_log(disk):
    """What is left, all durable, when the power failed in the third commit; HEAD knows of the second."""
    episode = Episode(disk)
    with open_log(disk) as writer:
        for size in (20, 300, 1800):
            episode.append(writer, size)
    (point,) = [point for point in episode.crash_points() if is_frame(point, 1800)]
    for image in point.images_after_power_loss(400, Random(1)):
        head = parse_head(read_file(image, f"{LOG}/HEAD") or b"")
        if len(events_in(image.after_process_crash())) == 2 == max((h.sequence for _, h in head), default=0):
            image.settle()
            return image
    raise AssertionError("no image tore the third commit")


def is_frame(point, size):
    """Whether the last operation before this moment wrote a whole frame of at least so many bytes."""
    last = point.last
    if not isinstance(last, Write) or point.torn or last.offset == 0:
        return False
    return len(last.data) % 512 == 0 and len(last.data) > size


def _again(disk, before):
    """A second episode on a log of which everything is durable."""
    disk.settle()
    return Episode(disk, before.at(disk.now()).events, first_mark=200)
