"""Ending the process that holds a run: found for certain, asked, waited for, and made to leave if need be."""

import os
import signal
import socket
import time
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import psutil  # type: ignore[import-untyped]

from eventlog.errors import LogLocked
from eventlog.storage import lock_holder

from ..errors import EvrunError
from .clock import monotonic

LOOK_AGAIN_S = 0.05
ASK_AGAIN_S = 0.2
"""Signals of one kind that come at once count as one, so the second one is sent a little later."""
KILL_AFTER_S = 5.0
"""A process that was made to leave and has not left by then is killed: it must be hanging."""


class Stopping(NamedTuple):
    """What became of it: `pid` is null where no process held the run; `signals` were sent to it, in order.

    `ended` is null where nobody waited.
    """

    pid: int | None
    signals: list[str]
    ended: bool | None


NOTHING_TO_STOP = Stopping(pid=None, signals=[], ended=True)


def stop_holder(log: Path, *, now: bool, timeout_s: float | None) -> Stopping:
    """Ask the process that holds the log to end, and wait until the lock is free; null: do not wait.

    The first SIGTERM lets calls in flight finish. `now`: a second one follows at once, and SIGKILL a while
    later; the log is safe in every case. Only a process of this host that has LOCK open, and is the one that
    LOCK names, is sent a signal.

    Raises:
        LogLocked: the holder is on another host, or cannot be found on this one.
        EvrunError: it belongs to another user.
    """
    holder = lock_holder(log)
    if holder is None:
        return NOTHING_TO_STOP
    process = _find(log, holder)
    if process is None:
        return NOTHING_TO_STOP
    stopping = _Stopping(log, process)
    stopping.send(signal.SIGTERM)
    ended = None if timeout_s is None else stopping.wait(timeout_s, now=now)
    return Stopping(process.pid, stopping.signals, ended)


class _Stopping:
    """One process on its way out."""

    def __init__(self, log: Path, process: psutil.Process) -> None:
        self.signals: list[str] = []
        self._log = log
        self._process = process

    def send(self, number: signal.Signals) -> None:
        """Send a signal, unless it has ended; never to another process that got its number."""
        with suppress(psutil.NoSuchProcess):
            self._process.send_signal(number)
            self.signals.append(number.name)

    def wait(self, timeout_s: float, *, now: bool) -> bool:
        """Wait until it does not hold the lock; whether that came in time."""
        began = monotonic()
        asked = began
        while self._holds():
            at = monotonic()
            if at - began >= timeout_s:
                return False
            if now and at - began >= KILL_AFTER_S:
                self.send(signal.SIGKILL)
            elif now and at - asked >= ASK_AGAIN_S:
                self.send(signal.SIGTERM)
                asked = at
            time.sleep(LOOK_AGAIN_S)
        return True

    def _holds(self) -> bool:
        holder = lock_holder(self._log)
        return holder is not None and holder.get("pid") == str(self._process.pid)


def _find(log: Path, holder: dict[str, str]) -> psutil.Process | None:
    """The process that LOCK names, if it holds the lock; null if the lock has come free meanwhile."""
    host, pid = holder.get("host"), holder.get("pid", "")
    if host not in {None, socket.gethostname()}:
        raise LogLocked(f"{log.parent} is in use by process {pid} on {host}, which is another host", holder)
    try:
        process = psutil.Process(int(pid))
        if _has_open(process, log / "LOCK"):
            return process
    except (ValueError, psutil.NoSuchProcess):
        pass  # LOCK is just being written, or names a process that is gone
    except psutil.AccessDenied as error:
        raise EvrunError(
            f"{log.parent} is in use by process {pid}, which belongs to another user",
            "stop it as that user, or as root",
        ) from error
    if lock_holder(log) is None:
        return None
    raise LogLocked(
        f"{log.parent} is in use, and process {pid or '?'}, which its LOCK names, does not hold it here",
        holder,
    )


def _has_open(process: psutil.Process, lock: Path) -> bool:
    """Whether a process has the file open: only the holder keeps it so."""
    for file in process.open_files():
        with suppress(OSError):
            if os.path.samefile(file.path, lock):  # noqa: PTH121 (both may be gone by now)
                return True
    return False
