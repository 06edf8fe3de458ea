"""Holding one disk that a crash or damage has left against what an episode was promised."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Literal, Protocol

from ..errors import EventLogError
from ..storage import LogReader, LogWriter, Position
from ..storage.opening import open_for_writing
from ..storage.reader import LiveReader
from .episodes import LOG, Episode, Promises, open_log
from .forgetful import CrashPoint, ForgetfulFileSystem

_GO_ON_EVERY = 10  # of the images of `examine_all`, those that also take a further commit
_LAST_WORD = b"after the crash"

Breach = Literal["lost", "silent", "other"]


class BrokenPromise(AssertionError):
    """A disk that a crash or damage may leave does not hold what was promised.

    `breach`: "lost", acknowledged events are gone after a crash; "silent", they are gone after damage and
    nothing said so; "other", what is there is not what was appended, or only part of a commit.
    """

    def __init__(self, message: str, breach: Breach = "other") -> None:
        super().__init__(message)
        self.breach: Breach = breach


class Opener(Protocol):
    """How an examination opens the log: `open_log`, or something of the same shape with other options."""

    def __call__(self, disk: ForgetfulFileSystem, /, *, seed: int) -> LogWriter:
        """Open the log at `LOG` for writing."""


@dataclass(frozen=True)
class Examined:
    """How many disks were examined, and the numbers of events that were recovered from them."""

    images: int
    recovered: frozenset[int]


def examine(
    image: ForgetfulFileSystem,
    episode: Episode,
    point: CrashPoint,
    *,
    go_on: bool = False,
    opener: Opener | None = None,
) -> int:
    """Open an image for writing and hold it against the episode; return the number of events recovered.

    It opens; A <= R <= I, at the end of a commit, byte-identical and in order; opening again finds the same;
    and with `go_on` the log takes a further commit that the next opening finds. The image is changed by it.
    Without `go_on` and `opener` the writer's thread, which would have nothing to do, is not started.

    Raises:
        BrokenPromise: (an AssertionError) acknowledged events are gone, or what is there is not what it was.
        LogRefused: the log does not open, although a crash is all that has happened to it.
    """
    promises = episode.at(point)
    if not go_on and opener is None:
        recovered, end = recovered_in(image)
        compare(recovered, promises)
        # The chain there stands for every byte before it, so that they need not be read once more.
        with LogReader.open(LOG, filesystem=image.after_process_crash()) as reader:
            if reader.end != end:
                raise BrokenPromise(
                    f"opened again it ends at event {reader.end.sequence}, not {end.sequence}"
                )
        return len(recovered)
    opener = opener or open_log
    with opener(image, seed=1) as writer:
        recovered = payloads_of(writer.reader())
        compare(recovered, promises)
        if go_on:
            if writer.append([_LAST_WORD]) != len(recovered) + 1:
                raise BrokenPromise(f"the next event does not follow event {len(recovered)}")
            recovered.append(_LAST_WORD)
    with opener(image.after_process_crash(), seed=2) as again:
        _same(payloads_of(again.reader()), recovered)
    return len(recovered) - go_on


def examine_all(
    episode: Episode,
    *,
    limit: int,
    seed: int = 1,
    opener: Opener | None = None,
    points: Callable[[CrashPoint], bool] = lambda _: True,
) -> Examined:
    """Examine the crash points of an episode (those that `points` wants), and up to `limit` images of each.

    Raises:
        BrokenPromise, LogRefused: as `examine`; a note on the error names crash point, image and seed.
    """
    images, recovered = 0, set()
    for point in filter(points, episode.crash_points()):
        for number, image in enumerate(point.images(limit, rng_at(point, seed))):
            try:
                found = examine(image, episode, point, go_on=images % _GO_ON_EVERY == 0, opener=opener)
            except Exception as error:
                error.add_note(f"{point}, image {number} of at most {limit}, seed {seed}")
                raise
            recovered.add(found)
            images += 1
    return Examined(images, frozenset(recovered))


def examine_damaged(image: ForgetfulFileSystem, events: Sequence[bytes], floor: int | None = None) -> bool:
    """Look at a damaged log as a reader does; return whether it opened.

    Either it refuses, with an error of the event log, or it gives at least the first `floor` of the `events`
    (all of them where `floor` is left out) and nothing but them, byte-identical.

    Raises:
        BrokenPromise: it opened with less, or with something else, and did not say so.
    """
    floor = len(events) if floor is None else floor
    try:
        found = events_in(image)
    except EventLogError:
        return False
    if len(found) < floor:
        raise BrokenPromise(f"silent: {floor} events were acknowledged, {len(found)} are read", "silent")
    if list(events[: len(found)]) != found:
        raise BrokenPromise("silent: what is read is not what was appended", "silent")
    return True


def compare(recovered: Sequence[bytes], promises: Promises) -> None:
    """Hold the events that were recovered after a crash against what was promised.

    Raises:
        BrokenPromise: with the sentence that says which promise.
    """
    count = len(recovered)
    if count < promises.acked:
        raise BrokenPromise(f"lost: {promises.acked} events were acknowledged, {count} are recovered", "lost")
    if count not in promises.ends:
        raise BrokenPromise(f"part of a commit: {count} events recovered, commits end at {promises.ends}")
    if list(recovered) != promises.events[:count]:
        first = next(at for at in range(count) if recovered[at] != promises.events[at])
        raise BrokenPromise(f"other bytes: event {first + 1} is not what was appended")


def recovered_in(disk: ForgetfulFileSystem) -> tuple[list[bytes], Position]:
    """Open the log for writing, with every step of that, read it all, and give the lock back."""
    directory = str(LOG)
    lock, survey, _ = open_for_writing(disk, directory, {})
    try:
        durable = Position(survey.durable.sequence, survey.durable.chain)
        reader = LiveReader(disk, directory, survey.catalog, lambda: (durable, survey.log_id))
        return payloads_of(reader), durable
    finally:
        lock.release()


def events_in(disk: ForgetfulFileSystem) -> list[bytes]:
    """Read the whole log through a reader of its own; sequences must be dense from 1."""
    with LogReader.open(LOG, filesystem=disk) as reader:
        return payloads_of(reader)


def payloads_of(reader: LogReader) -> list[bytes]:
    """Every event that a reader shows; sequences must be dense from 1."""
    records = list(reader.read())
    if [record.sequence for record in records] != list(range(1, len(records) + 1)):
        raise BrokenPromise("the sequences of the events are not dense from 1")
    return [record.payload for record in records]


def rng_at(point: CrashPoint, seed: int) -> Random:
    """Chance for one crash point alone, so that it can be repeated without those before it."""
    return Random(f"{seed}.{point.operations}.{point.torn}")


def _same(found: list[bytes], recovered: list[bytes]) -> None:
    if found != recovered:
        raise BrokenPromise(
            f"opened again it holds {len(found)} events; expected the {len(recovered)} that were there"
        )
