"""The embedded model: a small one that is always there, served on loopback by a process of its own.

It is an ordinary endpoint from then on. Its process ends for certain: when the context is left, and by itself
when this process is gone in whatever way, also by kill -9.
"""

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import suppress
from types import TracebackType
from typing import IO, Self

import anyio

from ..errors import RunFailed
from . import local_model_server
from .clock import monotonic
from .local_model_parts import MODEL_NAME, LocalModelMissing, explain_missing, find_weights, require_weights
from .secrets import find_secrets

__all__ = ["LocalModel", "LocalModelFailed", "LocalModelMissing", "explain_missing", "find_weights"]

START_TIMEOUT_S = 180.0
"""It takes one second. On a machine that is busy with other things it has taken a hundred times as long."""
LOOK_S = 0.05
LOG_BYTES = 2000
MOST_SLOTS = 4
"""More conversations at once do not make more tokens a second on a few cores, but each costs memory."""
SPIN = "2000"
"""How often a thread of the model looks for work before it sleeps; see docs/local-model.md."""


class LocalModelFailed(RunFailed):
    """The embedded model did not start; the message ends with the last lines of its log."""


class LocalModel:
    """A context manager, async or not: within it the model is served at `base_url` under `name`.

    `threads` null means one for each core that nobody else uses just now; `parallel` requests are worked on
    at once (at most `MOST_SLOTS`, others wait their turn), each with `context_tokens` for prompt and answer.
    """

    name = MODEL_NAME

    def __init__(
        self, *, threads: int | None = None, parallel: int = MOST_SLOTS, context_tokens: int = 4096
    ) -> None:
        self._threads = threads or _idle_cores()
        self._slots = max(1, min(parallel, MOST_SLOTS))
        self._context_tokens = context_tokens
        self._process: subprocess.Popen[bytes] | None = None
        self._log: IO[bytes] | None = None
        self.base_url = ""
        """Where it is served, as `http://127.0.0.1:PORT/v1`; empty outside of the context."""

    @property
    def pid(self) -> int | None:
        """The process id of the server; null outside of the context."""
        return self._process.pid if self._process else None

    def __enter__(self) -> Self:
        self._start()
        try:
            for _ in self._until_ready():
                time.sleep(LOOK_S)
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    async def __aenter__(self) -> Self:
        self._start()
        try:
            for _ in self._until_ready():
                await anyio.sleep(LOOK_S)
        except BaseException:
            self.stop()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def stop(self) -> None:
        """End the server's process. It holds nothing that could be lost, so it is not asked."""
        process, self._process = self._process, None
        self.base_url = ""
        if process is not None:
            with suppress(ProcessLookupError):
                process.send_signal(signal.SIGKILL)
            process.wait()
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    pipe.close()
        if self._log is not None:
            self._log.close()
            self._log = None

    def _start(self) -> None:
        weights = require_weights()
        settings = {
            "weights": str(weights),
            "name": self.name,
            "threads": self._threads,
            "slots": self._slots,
            "context_tokens": self._context_tokens,
            # A thread that ends before the process would take the model with it.
            "tied": threading.current_thread() is threading.main_thread(),
        }
        # Without a name, so that nothing is left behind whatever happens.
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 - closed by stop
        self._process = subprocess.Popen(  # noqa: S603 - a fixed program
            # By its path, and with -P, so that neither the current directory nor the script's own one can
            # put other modules in the place of the standard library's.
            [sys.executable, "-P", local_model_server.__file__, json.dumps(settings)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            env=_environment(),
            # Ctrl-C on the terminal ends the run, which ends the server when the calls in flight are done.
            start_new_session=True,
        )

    def _until_ready(self) -> Iterator[None]:
        """Yields while there is something to wait for; afterwards the model is served."""
        deadline = monotonic() + START_TIMEOUT_S
        assert self._process is not None
        assert self._process.stdout is not None
        pipe = self._process.stdout.fileno()
        os.set_blocking(pipe, False)
        line = b""
        while not line.endswith(b"\n"):
            with suppress(BlockingIOError):
                line += os.read(pipe, 256)
            self._check(deadline)
            yield
        server = f"http://127.0.0.1:{json.loads(line)['port']}"
        while not _healthy(f"{server}/health"):
            self._check(deadline)
            yield
        self.base_url = f"{server}/v1"

    def _check(self, deadline: float) -> None:
        assert self._process is not None
        if self._process.poll() is not None:
            raise self._failed(f"ended while it was starting, with code {self._process.returncode}")
        if monotonic() > deadline:
            raise self._failed(f"did not answer within {START_TIMEOUT_S:g} s")

    def _failed(self, problem: str) -> LocalModelFailed:
        return LocalModelFailed(
            f"the server of the embedded model {problem}; its log ends: {self._last_lines() or '(empty)'}",
            hint="is enough memory free? It needs about half a GiB",
        )

    def _last_lines(self) -> str:
        if self._log is None:
            return ""
        self._log.seek(0, os.SEEK_END)
        self._log.seek(max(0, self._log.tell() - LOG_BYTES))
        return self._log.read().decode("utf-8", "replace").strip()


def _healthy(url: str) -> bool:
    try:
        # Without a proxy: the address is this machine's.
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(url, timeout=1) as answer:
            return bool(answer.status == 200)  # noqa: PLR2004 - the HTTP status OK
    except (urllib.error.URLError, OSError):
        return False


def _idle_cores() -> int:
    """How many of the cores that this process may use had nothing to do in the last minute; at least one.

    The threads of the model wait for each other a thousand times for each token. Where one of them has to
    share its core, all are many times slower than a single thread would be.
    """
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min(cores, round(cores - os.getloadavg()[0])))


def _environment() -> dict[str, str]:
    secret = find_secrets(os.environ)
    kept = {name: value for name, value in os.environ.items() if name not in secret}
    return {"GOMP_SPINCOUNT": SPIN, **kept}
