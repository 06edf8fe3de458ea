"""A nest: everything is imported here once, and each order that comes forks a process that begins with it.

Started by `tests/warm.py`, which says what it is for. An order is one byte and five descriptors: the file in
which it stands, the pipe on which the nest says the process's pid and later how it ended, and the process's
own stdin, stdout and stderr. It comes on the socket of the tests, with which a nest ends, or through a door
that has a name. Who ordered a process and is gone before its end takes it along.
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

    def __init__(self, orders: socket.socket, door: socket.socket) -> None:
        self._orders = orders
        self._door = door
        self._lives: dict[int, int] = {}
        self._woken, wake = os.pipe()
        os.set_blocking(self._woken, False)
        os.set_blocking(wake, False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
        self._poll = select.poll()
        self._poll.register(orders, select.POLLIN)
        self._poll.register(door, select.POLLIN)
        self._poll.register(self._woken, select.POLLIN)

    def serve(self) -> Callable[[], object] | None:
        """Fork for each order. In such a process, what it is to do; in the nest null, when no order comes."""
        while True:
            ready = {descriptor for descriptor, _ in self._poll.poll()}
            if self._woken in ready:
                with contextlib.suppress(BlockingIOError):
                    os.read(self._woken, 4096)
                self._reap()
            self._end_with_those_who_ordered(ready)
            taken = []
            if self._orders.fileno() in ready:
                taken.append(_take(self._orders))
                if not taken[0]:
                    return None
            if self._door.fileno() in ready:
                with self._door.accept()[0] as visitor:
                    taken.append(_take(visitor))
            for descriptors in filter(None, taken):
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
            self._door.detach()
            return _become(order, standard)
        for descriptor in standard:
            os.close(descriptor)
        self._lives[pid] = life
        self._poll.register(life, 0)  # only that nobody reads it any more
        self._say(life, pid)
        return None

    def _say(self, life: int, number: int) -> None:
        with contextlib.suppress(BrokenPipeError):
            os.write(life, b"%d\n" % number)

    def _reap(self) -> None:
        while self._lives:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if not pid:
                return
            life = self._lives.pop(pid)
            self._poll.unregister(life)
            self._say(life, status)
            os.close(life)

    def _end_with_those_who_ordered(self, ready: set[int]) -> None:
        """Whoever kills a `warm_program` means its process: so that is killed too, before anything else."""
        for pid, life in list(self._lives.items()):
            if life in ready:
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
                self._poll.unregister(life)
                os.close(self._lives.pop(pid))


def _take(orders: socket.socket) -> list[int]:
    """The descriptors of an order; none where who was to give it has gone."""
    return socket.recv_fds(orders, 1, 5)[1]


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
    orders, door = (socket.socket(fileno=int(descriptor)) for descriptor in sys.argv[1:])
    task = Nest(orders, door).serve()
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
