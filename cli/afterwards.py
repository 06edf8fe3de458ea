"""What a command leaves to be done at its end, however that comes about, and how its process ends."""

import atexit
import contextlib
import os
import sys
from contextlib import ExitStack

afterwards = ExitStack()

_LEAVE_THREADS = ("obstore", "ray")
"""Whose threads wake an event loop and may still be in Python then: one that the interpreter meets when it is
taken down is ended by it, and as there is Rust below, that aborts the whole process (SIGABRT, exit 134); one
that waits for a Ray cluster that is gone ends it by SIGSEGV."""


class Ending:
    """The last thing that a process does: where a library has left threads, it ends before they are met.

    Made before a command begins, so all that is to be done at exit has been done when this is called.
    """

    def __init__(self) -> None:
        self.code = 1  # of an error that nobody knows, and that was printed by now
        atexit.register(self._end)

    def _end(self) -> None:
        if not any(name in sys.modules for name in _LEAVE_THREADS):
            return
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError, ValueError):
                stream.flush()
        os._exit(self.code)
