"""Which property fails when which rule is broken: `python -m tests.eventlog.negative_controls` shows it."""

import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from eventlog.errors import EventLogError

from .broken import RULES
from .properties.compression import (
    check_compressing_beside_a_writer,
    check_readers_while_files_change,
    check_recompression,
    check_torn_bytes_are_kept,
    check_twin_is_proved,
)
from .properties.concurrency import check_dense_order, check_no_one_waits_for_ever, check_single_writer
from .properties.crashes import (
    check_atomic_commits,
    check_continues_after_crashes,
    check_exposed_is_durable,
    check_names,
    check_no_false_refusal,
    check_prefix,
    check_recovery_is_idempotent,
)
from .properties.damage import (
    check_anchors,
    check_no_resurrection,
    check_no_silent_loss,
    check_opening_finds_damage,
    check_versions,
)
from .properties.faults import (
    check_failed_sync_is_final,
    check_failed_write_leaves_nothing,
    check_read_errors_never_shrink,
)
from .properties.snapshots import check_snapshots
from .properties.views import check_views_depend_on_the_events_alone

SET_ORDER = "a view in the order of a set"


class Control(NamedTuple):
    """A broken rule, and the check of the property that has to fail with it: the same that its test runs."""

    rule: str
    property: int
    check: Callable[..., None]
    budget: int


CONTROLS = (
    Control("no directory sync", 1, check_prefix, 6),
    Control("no directory sync", 12, check_names, 16),
    Control("acknowledged before its sync", 1, check_prefix, 6),
    Control("HEAD before the sync", 3, check_no_false_refusal, 6),
    Control("a failed sync is tried again", 9, check_failed_sync_is_final, 10),
    Control(
        "O_APPEND: the rest of a short write goes to the end of the file",
        11,
        check_read_errors_never_shrink,
        1,
    ),
    Control("what a failed write left is not taken back", 10, check_failed_write_leaves_nothing, 3),
    Control("a commit of many events is many frames", 2, check_atomic_commits, 6),
    Control("a segment gets its name before its header is durable", 3, check_no_false_refusal, 6),
    Control("the watermark stays 0", 4, check_no_silent_loss, 5000),
    Control("frame headers are not salted", 3, check_no_false_refusal, 6),
    Control("a new session writes on in the last segment", 6, check_no_resurrection, 1),
    Control("the newest waiting commit is numbered first", 14, check_dense_order, 30),
    Control("who waits behind a failed commit is not told", 15, check_no_one_waits_for_ever, 2),
    Control("the fence is not looked at", 13, check_single_writer, 1),
    Control("the lock is not taken", 13, check_single_writer, 1),
    Control("no sync when a log is opened", 5, check_recovery_is_idempotent, 6),
    Control("no sync when a log is opened", 7, check_continues_after_crashes, 6),
    Control("the page cache is believed after a failed sync, by a writer", 9, check_failed_sync_is_final, 10),
    Control("the page cache is believed after a failed sync, by a reader", 9, check_failed_sync_is_final, 10),
    Control("a reader is shown what is written, durable or not", 8, check_exposed_is_durable, 6),
    Control("a read error is the end of the file", 11, check_read_errors_never_shrink, 2),
    Control("evidence is looked for in the next 2 KiB only", 4, check_no_silent_loss, 5000),
    Control("a header of zeros is the end of the log", 4, check_no_silent_loss, 5000),
    Control("HEAD is not read", 4, check_no_silent_loss, 5000),
    Control("a body is not verified", 4, check_no_silent_loss, 5000),
    Control("a file that was cut is not noticed", 4, check_no_silent_loss, 5000),
    Control("where a successor says that its predecessor ended is ignored", 6, check_no_resurrection, 1),
    Control("an unknown version is read all the same", 19, check_versions, 1),
    Control("an anchor is not compared", 20, check_anchors, 1),
    Control("a plain segment goes before its twin was decoded", 16, check_twin_is_proved, 4),
    Control("a twin gets its name before it is durable", 16, check_recompression, 4),
    Control(
        "no directory sync between the twin's name and the end of the plain segment", 12, check_names, 16
    ),
    Control("torn bytes are not put aside", 16, check_torn_bytes_are_kept, 2),
    Control(
        "a segment that is compressed already is compressed again", 16, check_compressing_beside_a_writer, 2
    ),
    Control("the blocks of a compressed segment are passed by unread", 4, check_opening_finds_damage, 200),
    Control("a second look keeps what the first one found", 16, check_readers_while_files_change, 1),
    Control("a snapshot without fingerprint", 17, check_snapshots, 1),
    Control("a snapshot is not held against the log's chain", 17, check_snapshots, 2),
    Control("a snapshot's bytes are believed", 17, check_snapshots, 1),
    Control(SET_ORDER, 18, check_views_depend_on_the_events_alone, 120),
)


def objection(control, place):
    """What the check raises while the rule is broken; None when it notices nothing.

    Raises:
        Whatever else goes wrong: a check that stumbles has not caught anything.
    """
    try:
        if control.rule == SET_ORDER:
            # What depends on the hash seed shows only between processes: the rule is broken in each of them.
            control.check(place, steps=control.budget, broken=control.rule)
        else:
            with RULES[control.rule].hook():
                control.check(control.budget)
    except (AssertionError, EventLogError) as error:
        return error
    return None


_passed = set()


def run_unbroken(control, place):
    """The same check, with the rule in force; once for all the rules that it guards."""
    if (control.check, control.budget) in _passed:
        return
    _passed.add((control.check, control.budget))
    if control.rule == SET_ORDER:
        control.check(place, steps=control.budget)
    else:
        control.check(control.budget)


def main():
    """Break every rule, and print what caught it; the exit code says whether all were."""
    caught = 0
    for control in CONTROLS:
        with tempfile.TemporaryDirectory() as place:
            try:
                error = objection(control, Path(place))
            except Exception as stumbled:  # noqa: BLE001 - shown, and not counted
                print(f"{control.rule}: the check stumbled: {stumbled!r}")  # noqa: T201
                continue
        caught += error is not None
        said = f"{type(error).__name__}: {error}" if error else "NOT CAUGHT"
        print(f"{control.rule}\n    property {control.property}, {control.check.__name__}: {said[:160]}")  # noqa: T201
    print(f"negative controls: {caught} of {len(CONTROLS)} caught")  # noqa: T201
    return caught < len(CONTROLS)


if __name__ == "__main__":
    sys.exit(main())
