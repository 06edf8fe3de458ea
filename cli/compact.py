"""`evrun compact RUN`: the same log in less space."""

from typing import Any

from eventlog.storage import Compacted, compact
from evrun.effects import random_bytes

from . import output
from .output import JsonFlag
from .runs import DATA, OutputDirectory, RunArgument, find_run, log_of


def compact_command(run: RunArgument, *, output_dir: OutputDirectory = DATA, json: JsonFlag = False) -> int:
    """Compress the segments of a run's log; no event, number, chain value or anchor changes.

    Each compressed segment is synced, read back and proven equal before the plain one goes, so it may be
    interrupted at any moment: compact again. A resume goes on behind compressed segments as behind plain
    ones. While a process works on the run it is refused with exit code 6.
    """
    done = compact(log_of(find_run(run, output_dir)), random_bytes=random_bytes)
    if json:
        output.as_json(as_report(done))
    else:
        show(done)
    return 0


def as_report(done: list[Compacted]) -> dict[str, Any]:
    """The segments that were compressed, and their sums; sizes in bytes."""
    return {
        "segments": [one._asdict() for one in done],
        "before_bytes": sum(one.before_bytes for one in done),
        "after_bytes": sum(one.after_bytes for one in done),
        "torn_bytes": sum(one.torn_bytes for one in done),
    }


def show(done: list[Compacted]) -> None:
    """The same for people."""
    if not done:
        output.line("every segment is compressed already")
        return
    report = as_report(done)
    output.table(
        ["segment", "bytes before", "bytes after"],
        [[str(one.number), f"{one.before_bytes:,}", f"{one.after_bytes:,}"] for one in done],
    )
    output.line(f"{report['before_bytes']:,} bytes became {report['after_bytes']:,}")
    if report["torn_bytes"]:
        output.line(f"{report['torn_bytes']:,} bytes that a crash had left behind are in torn/ now")
