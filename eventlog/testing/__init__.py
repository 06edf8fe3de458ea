"""Crash-testing a log and what is built on it: a disk that forgets, and all that a crash may leave of it."""

from .episodes import (
    LOG,
    BrokenPromise,
    Episode,
    Examined,
    Opener,
    Promises,
    compare,
    events_in,
    examine,
    examine_all,
    new_disk,
    open_log,
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
    "new_disk",
    "open_log",
]
