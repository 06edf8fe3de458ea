"""Crash-testing a log and what is built on it: a disk that forgets, and all that a crash may leave of it."""

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
from .forgetful import CrashPoint, ForgetfulFileSystem

__all__ = [
    "LOG",
    "BrokenPromise",
    "CrashPoint",
    "Episode",
    "Examined",
    "ForgetfulFileSystem",
    "Opener",
    "Promises",
    "compare",
    "events_in",
    "examine",
    "examine_all",
    "examine_damaged",
    "new_disk",
    "open_log",
]
