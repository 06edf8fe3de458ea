"""A nest: everything is imported here once, and each order that comes forks a process that begins with it.

Started by `tests/warm.py`, which says what it is for. An order is one byte and five descriptors: the file in
which it stands, the pipe on which the nest says the process's pid and later how it ended, and the process's
own stdin, stdout and stderr. A nest ends when the tests do, whose socket closes then.
"""

import atexit
import contextlib
import gc
import importlib
import json
import os
import pkgutil
import select
import signal
import socket
import sys
import threading
from collections.abc import Callable
from typing import Any

import cli

LATE = ("anyio._backends._asyncio", "genai_prices.data", "tests.endpoint.__main__")
"""What a run imports only when it works, and what else is started."""
HIGHEST = 4096
"""Above all descriptors that a nest has open."""


class Nest:
    """Forks, and says of each process that it forked how it ended."""

    def __init__(self, orders: socket.socket) -> None:
        self._orders = orders
        self._lives: dict[int, int] = {}
        self._woken, wake = os.pipe()
        os.set_blocking(self._woken, False)
        os.set_blocking(wake, False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(wake, warn_on_full_buffer=False)

    def serve(self) -> Callable[[], object] | None:
        """Fork for each order. In such a process, what it is to do; in the nest null, when no order comes."""
        while True:
            ready, _, _ = select.select([self._orders, self._woken], [], [])
            if self._woken in ready:
                with contextlib.suppress(BlockingIOError):
                    os.read(self._woken, 4096)
                self._reap()
            if self._orders in ready:
                byte, descriptors, _, _ = socket.recv_fds(self._orders, 1, 5)
                if not byte:
                    return None
                task = self._fork(*descriptors)
                if task is not None:
                    return task

    def _fork(self, file: int, life: int, *standard: int) -> Callable[[], object] | None:
        with os.fdopen(file, "rb") as order_file:
            order_file.seek(0)
            order = json.load(order_file)
        pid = os.fork()
        if not pid:
            self._orders.detach()
            return _become(order, standard)
        for descriptor in standard:
            os.close(descriptor)
        os.write(life, b"%d\n" % pid)
        self._lives[pid] = life
        return None

    def _reap(self) -> None:
        while self._lives:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if not pid:
                return
            life = self._lives.pop(pid)
            with contextlib.suppress(BrokenPipeError):  # nobody waits for it
                os.write(life, b"%d\n" % status)
            os.close(life)


def _become(order: dict[str, Any], standard: tuple[int, ...]) -> Callable[[], object]:
    """Make of a fresh fork what a new interpreter would be."""
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    for place, descriptor in enumerate(standard):
        os.dup2(descriptor, place)
    os.closerange(3, HIGHEST)
    os.chdir(order["cwd"])
    os.environ.clear()
    os.environ.update(order["environment"])
    module, _, name = order["entry"].partition(":")
    sys.argv = [module, *order["arguments"]]
    sys.path[0] = order["cwd"]
    function: Callable[[], object] = getattr(importlib.import_module(module), name)
    return function


def main() -> None:
    """Import, and then serve until the tests end; a process that was forked goes on here, and ends here."""
    for module in (*(found.name for found in pkgutil.iter_modules(cli.__path__, "cli.")), *LATE):
        importlib.import_module(module)
    gc.collect()
    gc.freeze()
    task = Nest(socket.socket(fileno=int(sys.argv[1]))).serve()
    if task is not None:
        _do(task)


def _do(task: Callable[[], object]) -> None:
    """To the end, and end as an interpreter does, but for its last step: to take a thousand modules apart.

    That takes ten times as long as all else here. Whoever ends with an error or a signal goes the long way.
    """
    try:
        task()
        code: object = 0
    except SystemExit as end:
        code = end.code or 0
        if not isinstance(code, int):
            raise
    threading._shutdown()
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    main()
