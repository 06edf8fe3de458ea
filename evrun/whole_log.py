"""A log that comes to be whole or not at all: written under another name, renamed when it is durable."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, suppress
from pathlib import Path

from eventlog.errors import LogLocked
from eventlog.events import Event, encode_event
from eventlog.storage import LogWriter, RealFileSystem, lock_holder

from .batch.opening import open_writer
from .effects.clock import now_ns

LOG, UNFINISHED = "log", "log.unfinished"
COMMIT_BYTES = 1 << 20


def write_whole(
    directory: Path,
    warn: Callable[[str], None],
    fill: Callable[[LogWriter], None],
    clock_ns: Callable[[], int] = now_ns,
) -> None:
    """Have `fill` write the log of the run in `directory`, which has none.

    Raises:
        LogLocked: another process makes a log there just now.
        OSError: it could not be written; nothing was made.
    """
    made = not directory.exists()
    unfinished = directory / UNFINISHED
    _clear(unfinished)
    try:
        with closing(open_writer(directory, warn, UNFINISHED, clock_ns)) as writer:
            fill(writer)
        disk = RealFileSystem()
        disk.rename(str(unfinished), str(directory / LOG))
        disk.sync_directory(str(directory))
    except LogLocked:
        raise
    except BaseException:
        _clear(unfinished)
        if made:
            with suppress(OSError):
                directory.rmdir()
        raise


def commits(first: list[Event], rest: Iterable[Event]) -> Iterator[list[bytes]]:
    """Events as commits of about a mebibyte; a larger event goes alone."""
    held = [encode_event(event) for event in first]
    size = 0
    for event in rest:
        data = encode_event(event)
        if held and size + len(data) > COMMIT_BYTES:
            yield held
            held, size = [], 0
        held.append(data)
        size += len(data)
    if held:
        yield held


def _clear(unfinished: Path) -> None:
    """Take away what was left of one that was killed; nothing where somebody is writing it."""
    if not unfinished.is_dir():
        return
    holder = lock_holder(unfinished)
    if holder is not None:
        raise LogLocked(f"{unfinished} is in use by process {holder.get('pid', '?')}", holder)
    for path in unfinished.iterdir():
        path.unlink()
    unfinished.rmdir()
