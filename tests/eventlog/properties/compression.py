"""What must be true of compression: property 16. Each check is a plain function that raises."""

from random import Random

from eventlog.errors import NotCompressed
from eventlog.storage import LogReader, compact, verify
from eventlog.storage.format import SECTOR_BYTES
from eventlog.testing import (
    LOG,
    Episode,
    ForgetfulFileSystem,
    compare,
    events_in,
    examine,
    new_disk,
    open_log,
)

from ..lives import RANDOM, compacting
from .concurrency import Interrupted
from .crashes import bytes_of, has_log, images

SEGMENT = ".evl"
END_OF_TWO_BYTES = 4096 + 2 * SECTOR_BYTES  # where the second small commit of a segment ends


def check_recompression(limit):
    """16. At every crash point of a compression the log is the same: to writers, readers and anchors."""
    episode = compacting(new_disk())
    whole = episode.at(episode.disk.now()).events
    with LogReader.open(LOG, filesystem=episode.disk.after_process_crash()) as reader:
        anchors = [reader.end]
    assert len(whole) > 5
    for point, image in images(episode, limit):
        promises = episode.at(point)
        shown = events_in(image.after_process_crash())
        compare(shown, promises)
        verdict = verify(LOG, filesystem=image)
        assert verdict.opens, verdict
        if len(shown) == len(whole):
            assert verify(LOG, anchor=anchors[0], filesystem=image).opens, "another chain"
        examine(image, episode, point)
    assert any(".evz" in name for name in episode.disk.names(str(LOG)))


def check_torn_bytes_are_kept(limit):
    """6 and 16. What a crash left behind the end is put aside before its segment goes, byte for byte."""
    disk = torn_disk()
    (segment,) = [name for name in disk.names(str(LOG)) if name.endswith(SEGMENT)]
    torn = bytes_of(disk, f"{LOG}/{segment}").rstrip(b"\0")[END_OF_TWO_BYTES:]
    assert torn
    start = disk.operations
    compact(LOG, random_bytes=RANDOM, filesystem=disk)
    for point in disk.crash_points(start=start):
        for image in point.images(limit, Random(1)):
            kept = [bytes_of(image, path) for path in candidates(image, segment)]
            assert any(one.rstrip(b"\0").endswith(torn) for one in kept), "torn bytes are gone"


def torn_disk():
    """A log whose power failed in its third commit, of four sectors: something of it is there."""
    episode = Episode(new_disk())
    with open_log(episode.disk) as writer:
        for size in (20, 300, 1800):
            episode.append(writer, size)
    for point in episode.crash_points():
        for image in point.images(40, Random(1)):
            verdict = verify(LOG, filesystem=image) if has_log(image) else None
            if verdict is not None and verdict.position.sequence == 2 and verdict.torn_bytes > SECTOR_BYTES:
                image.settle()
                return image
    raise AssertionError("no image tore the third commit")


def candidates(image, segment):
    """Where the bytes behind the end may lie: in the plain segment, or put aside."""
    if segment in image.names(str(LOG)):
        return [f"{LOG}/{segment}"]
    there = "torn" in image.names(str(LOG))
    return [f"{LOG}/torn/{name}" for name in image.names(f"{LOG}/torn")] if there else []


class OneBitWrong(ForgetfulFileSystem):
    """A disk, or a memory, that turns one bit round in the nth write to a file that is being compressed."""

    nth = 0

    def pwrite(self, fd, data, offset):
        """Write, perhaps something else."""
        if ".evz" in self._open[fd].path and len(data) > 1:
            self.nth -= 1
            if self.nth == 0:
                data = bytes(data[:-1]) + bytes([data[-1] ^ 1])
        return super().pwrite(fd, data, offset)


def check_twin_is_proved(writes):
    """16. A twin that came out wrong, by whichever write, never gets its name; the plain one stays."""
    for nth in range(1, writes + 1):
        disk = new_disk(OneBitWrong())
        episode = Episode(disk)
        with open_log(disk) as writer:
            for size in (20, 300, 900):
                episode.append(writer, size)
        disk.nth = nth
        try:
            compact(LOG, random_bytes=RANDOM, filesystem=disk)
        except NotCompressed:
            assert not any(".evz" in name for name in disk.names(str(LOG)))
        else:
            assert disk.nth > 0, "a wrong twin got its name"
        assert events_in(disk) == episode.at(disk.now()).events


def check_compressing_beside_a_writer(sessions):
    """16. Sessions that compress what they leave behind, one after another, keep every event."""
    disk = new_disk()
    episode = Episode(disk)
    for seed in range(sessions):
        with open_log(disk, seed=seed, compress_sealed=True) as writer:
            before = twins_in(disk)
            for _ in range(400):
                episode.append(writer, 1500)
                if twins_in(disk) > before + 1:
                    break
        assert events_in(disk.after_process_crash()) == episode.at(disk.now()).events
        compact(LOG, random_bytes=RANDOM, filesystem=disk)
        assert events_in(disk.after_process_crash()) == episode.at(disk.now()).events


def twins_in(disk):
    """How many segments are compressed."""
    return sum(name.endswith(".evz") for name in disk.names(str(LOG))) if has_log(disk) else 0


def check_readers_while_files_change(every):
    """16. Between any two calls of a reader all files may become compressed ones: it shows the same."""
    for nth in range(1, 200, every):
        disk = new_disk()
        episode = Episode(disk)
        for seed in range(2):
            with open_log(disk, seed=seed) as writer:
                for _ in range(5):
                    episode.append(writer, 2500)
        process = Interrupted(machine=disk._machine)
        process.left = nth
        process.meanwhile = lambda disk=disk: compact(LOG, random_bytes=RANDOM, filesystem=disk)
        assert events_in(process) == episode.at(disk.now()).events
        if process.left > 0:
            return
