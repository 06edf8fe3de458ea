"""Crash-testing a log and what is built on it: a disk that forgets, and all that a crash may leave of it.

Strategies for Hypothesis are in `eventlog.testing.strategies`, which alone needs it.
"""

from .copies import CrashedCopy, crashed_copies
from .crashtest import CrashReport, CrashTestFailed, crash_test, read_file, write_file
from .damage import Damage, all_damages, random_damage
from .episodes import LOG, Episode, Promises, new_disk, open_log
from .examination import (
    BrokenPromise,
    Examined,
    Opener,
    compare,
    events_in,
    examine,
    examine_all,
    examine_damaged,
)
from .faults import Fault, Faults
from .forgetful import CrashPoint, ForgetfulFileSystem

__all__ = [
    "LOG",
    "BrokenPromise",
    "CrashPoint",
    "CrashReport",
    "CrashTestFailed",
    "CrashedCopy",
    "Damage",
    "Episode",
    "Examined",
    "Fault",
    "Faults",
    "ForgetfulFileSystem",
    "Opener",
    "Promises",
    "all_damages",
    "compare",
    "crash_test",
    "crashed_copies",
    "events_in",
    "examine",
    "examine_all",
    "examine_damaged",
    "new_disk",
    "open_log",
    "random_damage",
    "read_file",
    "write_file",
]
