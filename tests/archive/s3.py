"""A bucket that speaks S3: nanio, a small server of its own, and a wire to it that can be cut.

nanio (https://github.com/apocas/nanio) is not a mock: it checks signatures, keeps objects as files, and knows
parts. What it cannot show is how a large provider answers when it is overloaded.
"""

import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import NamedTuple, Self

KEY, SECRET, BUCKET = "test-key", "test-secret-6f1d", "kept"
DEADLINE_S = 60.0
CHUNK_BYTES = 1 << 16


class Server(NamedTuple):
    """A running server: where it is, and the directory in which its bucket's objects are files."""

    port: int
    objects: Path

    def environment(self, port: int | None = None) -> dict[str, str]:
        """What leads a client to it, or to a wire at another port."""
        return {
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port or self.port}",
            "AWS_ACCESS_KEY_ID": KEY,
            "AWS_SECRET_ACCESS_KEY": SECRET,
            "AWS_REGION": "us-east-1",
        }

    def files(self, prefix: str) -> dict[str, Path]:
        """The objects under a prefix, each with its file; what is half there has a hidden name."""
        root = self.objects / prefix
        return {str(path.relative_to(root)): path for path in sorted(root.rglob("[!.]*")) if path.is_file()}


@contextmanager
def running_server(directory: Path) -> Iterator[Server]:
    """A server with one empty bucket, until the end of the block."""
    (directory / BUCKET).mkdir(parents=True)
    port = free_port()
    process = subprocess.Popen(
        [
            *(sys.executable, "-m", "nanio", "serve", "--host", "127.0.0.1", "--port", str(port)),
            *("--data-dir", str(directory), "--no-access-log", "--log-level", "error"),
        ],
        env={**os.environ, "NANIO_ACCESS_KEY": KEY, "NANIO_SECRET_KEY": SECRET},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        wait_for(port, process)
        yield Server(port, directory / BUCKET)
    finally:
        process.kill()
        process.wait()


def free_port() -> int:
    """A port that nobody listens at."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def wait_for(port: int, process: "subprocess.Popen[bytes]") -> None:
    """Wait until somebody listens."""
    deadline = time.monotonic() + DEADLINE_S
    while time.monotonic() < deadline:
        assert process.poll() is None, "the server has ended"
        with suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        time.sleep(0.02)
    raise AssertionError(f"nobody listens at {port}")


class Wire:
    """A loopback port that leads to another one, until the end of the block.

    The first `cut` connections are closed at once. Once `full_after` bytes went to the server, nothing goes
    any more and `full` is set; with `dies` nobody listens then either, and what was open is closed. With
    `spoils_after` one bit turns on the way back, after so many bytes.
    """

    def __init__(
        self,
        port: int,
        *,
        cut: int = 0,
        full_after: int | None = None,
        dies: bool = False,
        spoils_after: int | None = None,
    ) -> None:
        self.full = threading.Event()
        self.connections = 0
        self._to = port
        self._cut = cut
        self._left = full_after
        self._dies = dies
        self._whole = spoils_after
        self._lock = threading.Lock()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._open = [self._listener]
        self.port: int = self._listener.getsockname()[1]
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._shut()
        for thread in self._threads:
            thread.join()
        for one in self._open:
            one.close()

    def _shut(self) -> None:
        for one in list(self._open):
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                near, _ = self._listener.accept()
                self.connections += 1
                if self.connections <= self._cut:
                    near.close()
                    continue
                self._open.append(near)
                far = socket.create_connection(("127.0.0.1", self._to))
                self._open.append(far)
                for pair in ((near, far), (far, near)):
                    carry = partial(self._carry, *pair, counted=pair[0] is near)
                    self._threads.append(threading.Thread(target=carry))
                    self._threads[-1].start()

    def _carry(self, source: socket.socket, target: socket.socket, *, counted: bool) -> None:
        with suppress(OSError):
            while data := source.recv(CHUNK_BYTES):
                if counted and not self._may_pass(len(data)):
                    return
                target.sendall(data if counted else self._spoilt(data))
        with suppress(OSError):
            target.shutdown(socket.SHUT_WR)

    def _spoilt(self, data: bytes) -> bytes:
        with self._lock:
            if self._whole is None:
                return data
            self._whole -= len(data)
            if self._whole >= 0:
                return data
            self._whole = None
        return data[:-1] + bytes([data[-1] ^ 1])

    def _may_pass(self, size: int) -> bool:
        with self._lock:
            if self._left is None:
                return True
            self._left -= size
            if self._left >= 0:
                return True
        if self._dies:
            self._shut()
        self.full.set()
        return False
