"""The table of running processes, as far as evrun looks at it: who carries a marker, and ending those."""

import os
from contextlib import suppress
from typing import NamedTuple

import psutil  # type: ignore[import-untyped]

from .processes import kill_group


class Marked(NamedTuple):
    """A running process that carries a marker in its environment. `command` is its command line."""

    pid: int
    marker: str
    command: str
    process: psutil.Process


def marked_processes(variable: str) -> list[Marked]:
    """Processes of this user that have `variable` in their environment; never this one or its parents."""
    ours = {os.getpid(), *(parent.pid for parent in psutil.Process().parents())}
    found = []
    for process in psutil.process_iter():
        # A process that has just ended, or that this user may not look at, is none of ours.
        with suppress(psutil.Error, OSError):
            if process.pid not in ours and process.uids().real == os.getuid():
                marker = process.environ().get(variable)
                if marker is not None:
                    found.append(Marked(process.pid, marker, _command(process), process))
    return found


def kill(marked: Marked) -> None:
    """Kill a process with its group; where the group is this session's own, the process alone."""
    with suppress(psutil.Error, OSError):
        group = os.getpgid(marked.pid)
        if os.getsid(marked.pid) != os.getsid(0) and marked.process.is_running():
            kill_group(group)
    with suppress(psutil.Error):
        # Looks whether the number still means the same process.
        marked.process.kill()


def _command(process: psutil.Process) -> str:
    return " ".join(process.cmdline()) or str(process.name())
