"""What must be true of every disk that a crash may leave: properties 1, 2, 3, 5, 7, 8 and 12.

Each check is a plain function that raises, so that a negative control can run the same one on broken code.
`limit` is how many images of one crash point are looked at.
"""

import itertools
import os
from random import Random

from eventlog.storage import verify
from eventlog.storage.format import COMMIT, FRAME_HEADER_BYTES, FRAME_MAGIC, FRAME_VERSION, SECTOR_BYTES
from eventlog.storage.framing import FrameHeader, pack_header
from eventlog.testing import (
    LOG,
    Episode,
    ForgetfulFileSystem,
    compare,
    events_in,
    examine,
    examine_all,
    new_disk,
    open_log,
)

from ..lives import appending, compacting, grouping, reopening, rolling


def images(episode, limit, seed=1):
    """Every crash point of an episode with each disk that may be left there."""
    for point in episode.crash_points():
        for image in point.images(limit, Random(seed)):
            yield point, image


def has_log(disk):
    """Whether the log has a segment."""
    return disk.identity(str(LOG)) is not None and any(
        name.endswith((".evl", ".evz")) for name in disk.names(str(LOG))
    )


def shown_in(disk):
    """What a reader is shown; nothing where there is no log yet."""
    return events_in(disk) if has_log(disk) else []


def check_prefix(limit):
    """1. A <= R <= I, byte-identical and in order, whatever the log was doing."""
    for life in (appending, grouping, rolling, reopening):
        episode = life(new_disk())
        assert len(episode.at(episode.disk.now()).events) in examine_all(episode, limit=limit).recovered


def check_atomic_commits(limit):
    """2. No image shows part of a commit: many events of many sizes in one, over sector borders."""
    episode = Episode(new_disk())
    with open_log(episode.disk) as writer:
        for sizes in ([30] * 3, [0, 600, 1, 600], [5] * 40):
            episode.append(writer, *sizes)
    partial = 0
    for point, image in images(episode, limit):
        shown = shown_in(image)
        compare(shown, episode.at(point))
        partial += 0 < len(shown) < 47
    assert partial, "no image fell between two commits"


def check_no_false_refusal(limit):
    """3. Every legal image opens for writing, also one full of what looks like frames."""
    for life in (appending, rolling, reopening, hostile):
        for point, image in images(life(new_disk()), limit):
            open_log(image, seed=1).close()
            assert point.torn or verify(LOG, filesystem=image).opens


def hostile(disk):
    """Events made of frame headers that promise the moon, each right for the very sector that it lies in.

    What cannot be known when such an event is made is the salt of the segment.
    """
    episode = Episode(disk)
    with open_log(disk) as writer:
        episode.append(writer, 10)
        at = 2 * SECTOR_BYTES + 4096 - SECTOR_BYTES  # of the next frame, behind the header and one commit
        event = b"".join(
            pack_header(lying_header(at + SECTOR_BYTES * number), 0).ljust(SECTOR_BYTES, b".")
            for number in range(1, 4)
        )
        # The body begins behind the frame's header, so the first sector is filled up first.
        episode.promise(
            episode.submit_payloads(writer, [b"." * (SECTOR_BYTES - FRAME_HEADER_BYTES) + event]).wait(30)
        )
    return episode


def lying_header(offset):
    """The header of a frame at this offset which says that a million events are durable."""
    return FrameHeader(
        FRAME_MAGIC, FRAME_VERSION, COMMIT, 0, 4, 4, 1, 1, 10**6 + 1, 10**6, offset, 2**61, bytes(32), 0
    )  # fmt: skip


def check_recovery_is_idempotent(limit):
    """5. Opening again finds the same; a crash anywhere inside an opening changes nothing."""
    first = appending(new_disk())
    for point, image in images(first, 2):
        if point.operations % 3 or not has_log(image):
            continue
        before = shown_in(image.after_process_crash())
        second = Episode(image, before)
        with open_log(image, seed=9) as writer:
            assert writer.durable.sequence == len(before), "opened with another log than was read"
            second.append(writer, 40)
        # A crash before the opening has synced what it found may still take what was never promised.
        second.before, acked = before, first.at(point).acked
        for again, left in images(second, limit):
            opened = second.promised[0][0] <= again.operations
            events = shown_in(left)
            floor = len(before) + 1 if opened else acked
            assert len(events) >= floor, f"lost: {floor} promised, {len(events)} recovered"
            known = second.at(again).events
            assert events == known[: len(events)], "recovered something else"


def check_continues_after_crashes(limit, lives=12):
    """7. Crash, reopen, append, crash: what was acknowledged in any session is there at the end."""
    for seed in range(limit):
        rng, disk, held = Random(seed), new_disk(), []
        for life in range(lives):
            episode = Episode(disk, held, first_mark=life * 100)
            writer = open_log(disk, seed=life)
            assert [record.payload for record in writer.reader().read()] == held, (
                "a session's events are gone"
            )
            for _ in range(rng.randrange(1, 4)):
                episode.append(writer, *(rng.choice((0, 30, 600, 3000)) for _ in range(rng.randrange(1, 3))))
            writer.close()
            point = rng.choice(list(episode.crash_points())[-20:])
            disk = rng.choice(list(point.images(12, rng)))
            examine(disk.after_process_crash(), episode, point)
            held = shown_in(disk.after_process_crash())


class Watched(ForgetfulFileSystem):
    """A disk that lets somebody look just before each sync of a file takes effect."""

    look = None

    def fdatasync(self, fd):
        """Look, then sync."""
        if self.look is not None:
            self.look()
        super().fdatasync(fd)


def check_exposed_is_durable(limit):
    """8. What any reader was shown is there after a power cut that follows.

    Readers look from another process while each sync is still to come, and after a crash of the writer.
    """
    disk = new_disk(Watched())
    episode = Episode(disk)
    writer = open_log(disk)
    episode.append(writer, 10)
    disk.look = lambda: episode.promise(len(events_in(disk.new_process())))
    for size in (10, 700, 1500, 3000, 20):
        episode.submit(writer, size).wait(30)
        episode.promise(writer.reader().end.sequence)
    disk.look = None
    writer.close()
    assert len({count for _, count in episode.promised}) > 3
    examine_all(episode, limit=limit)
    check_readers_of_the_dead(episode, limit)


def check_readers_of_the_dead(episode, limit):
    """A reader of a log whose writer died makes durable what it shows, or does not show it."""
    for point in episode.crash_points():
        machine = point.after_process_crash()
        shown = shown_in(machine.new_process())
        for image in machine.images_after_power_loss(limit, Random(5)):
            found = verify(LOG, filesystem=image).position.sequence if shown else 0
            assert found >= len(shown), f"{len(shown)} events were shown, {found} are left"


def check_names(limit):
    """12. Each subset of the un-synced names, at every step of roll, seal and compression, is safe."""
    several = 0
    for life in (appending, rolling, compacting):
        episode = life(new_disk())
        for point in episode.crash_points():
            if not point.disk.unsynced_names or point.torn:
                continue
            several += len(point.disk.unsynced_names) > 1
            for image in subsets_of_names(point, limit):
                examine(image, episode, point)
    assert several, "never were two names un-synced at once"


def subsets_of_names(point, limit):
    """The disks on which all content survived and every combination of names did, at most `limit`."""
    names = point.disk.unsynced_names
    for kept in itertools.islice(itertools.product((True, False), repeat=len(names)), limit):
        disk = point.disk.clone()
        disk.unsynced_names = []
        disk.entries = {inode: dict(entries) for inode, entries in disk.durable_entries.items()}
        for name, keep in zip(names, kept, strict=True):
            if keep:
                name.apply(disk.entries)
        image = ForgetfulFileSystem(disk)
        image.settle()
        yield image


def bytes_of(disk, path):
    """A whole file."""
    fd = disk.open(path, os.O_RDONLY)
    try:
        return disk.pread(fd, disk.size(fd), 0)
    finally:
        disk.close(fd)
