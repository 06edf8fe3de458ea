"""Crash-testing a projection: a balance folded from a log into a file, which after any crash must be true.

Run it: `python examples/crash_test_projection.py`. It crashes two ways of writing the file everywhere; one of
them is caught.
"""

import json
from collections.abc import Callable, Iterable
from pathlib import Path

from eventlog.storage import LogReader, Record, log_exists, replace_file
from eventlog.testing import (
    LOG,
    CrashTestFailed,
    ForgetfulFileSystem,
    crash_test,
    open_log,
    read_file,
    write_file,
)

VIEW = Path("/run/balance.json")

Save = Callable[[ForgetfulFileSystem, bytes], None]


def fold(records: Iterable[Record]) -> dict[str, int]:
    """The projection: the sum of all amounts, and how many events are in it."""
    view = {"events": 0, "balance": 0}
    for record in records:
        view = {"events": record.sequence, "balance": view["balance"] + int(record.payload)}
    return view


def save_well(disk: ForgetfulFileSystem, content: bytes) -> None:
    """Old or new, never a mixture, and durable when it returns."""
    replace_file(VIEW, [content], durable=True, filesystem=disk)


def save_naively(disk: ForgetfulFileSystem, content: bytes) -> None:
    """As `open(path, "wb").write(content)` does: a crash finds it empty, in part, or gone."""
    write_file(disk, str(VIEW), content)


def scenario(save: Save) -> Callable[[ForgetfulFileSystem, Callable[[int], None]], None]:
    """Append three amounts, write the view after each, and then say that it holds so many events."""

    def run(disk: ForgetfulFileSystem, promise: Callable[[int], None]) -> None:
        with open_log(disk) as writer:
            for amount in (120, -45, 7):
                writer.append([b"%d" % amount])
                view = fold(writer.reader().read())
                save(disk, json.dumps(view).encode())
                promise(view["events"])

    return run


def check(disk: ForgetfulFileSystem, promised: list[int]) -> None:
    """After a crash: the view is what the log's first events come to, and not older than was said."""
    content = read_file(disk, str(VIEW))
    view = fold([]) if content is None else json.loads(content)
    assert view["events"] >= max(promised, default=0), f"promised {max(promised)}, found {view}"
    assert view == fold(records_in(disk, view["events"])), f"not what the log says: {view}"


def records_in(disk: ForgetfulFileSystem, count: int) -> list[Record]:
    """The first events of the log, none if the crash came before there was one."""
    if not log_exists(LOG, filesystem=disk):
        return []
    with LogReader.open(LOG, filesystem=disk) as reader:
        return list(reader.read(1, count))


if __name__ == "__main__":
    report = crash_test(scenario(save_well), check)
    print(f"replace_file: {report.points} crash points, {report.images} images, all true")
    try:
        crash_test(scenario(save_naively), check)
    except CrashTestFailed as caught:
        print(f"the naive writer is caught. {caught}")
