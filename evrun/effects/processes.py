"""Commands that end for certain, with everything they started.

A command gets a session, and so a process group, of its own. The whole group is killed when its leader ends,
at the deadline, and when the waiting task is cancelled: nothing that a command left in the background can
hold up the run or outlive the call. What leaves the group (`setsid`) still carries the marker of its attempt
in its environment, by which `orphans.kill_orphans` finds it.
"""

import asyncio
import os
import shutil
import signal
import subprocess
import tempfile
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path

import anyio
import anyio.to_thread
import msgspec

READ_BYTES = 1 << 16
LAST_READS = 32
"""So many reads empty the pipe after the end (it holds 1 MiB at most); a stranger may still be filling it."""
REAP_S = 10.0
"""So long a killed process may take to be gone (it may hang in the kernel) before it is left to itself."""


class Ended(msgspec.Struct, frozen=True):
    """How a command ended: `exit_code` is null if it was killed at its deadline, negative for a signal.

    `head` and `tail` are the first and last bytes of its output (stdout and stderr as they came);
    `dropped_bytes` is what lay between and was not kept. `tail` is empty where nothing was dropped.
    """

    exit_code: int | None
    head: bytes
    tail: bytes
    dropped_bytes: int


class BoundedOutput:
    """Keeps the first and the last `keep_bytes` of a stream of any length."""

    def __init__(self, keep_bytes: int) -> None:
        self._keep = keep_bytes
        self._head = bytearray()
        self._tail: deque[bytes] = deque()
        self._tail_bytes = 0
        self._dropped = 0

    def feed(self, data: bytes) -> None:
        """Take the next bytes."""
        room = self._keep - len(self._head)
        self._head += data[:room]
        rest = data[room:]
        if rest:
            self._tail.append(rest)
            self._tail_bytes += len(rest)
        while self._tail and self._tail_bytes - len(self._tail[0]) >= self._keep:
            oldest = len(self._tail.popleft())
            self._tail_bytes -= oldest
            self._dropped += oldest

    def parts(self) -> tuple[bytes, bytes, int]:
        """Head, tail, and how many bytes between them were dropped; where none were, all is in the head."""
        tail = b"".join(self._tail)
        surplus = max(0, len(tail) - self._keep)
        if not self._dropped + surplus:
            return bytes(self._head) + tail, b"", 0
        return bytes(self._head), tail[surplus:], self._dropped + surplus


async def run_command(
    command: Sequence[str],
    *,
    directory: Path,
    environment: Mapping[str, str],
    timeout_s: float,
    keep_bytes: int = 32_768,
    stdin: bytes | None = None,
    stdout: int | None = None,
) -> Ended:
    """Run a command to its end or its deadline; afterwards its whole process group is dead.

    `stdin` is what it can read there, nothing where it is null; files that it makes are private (umask 077);
    its output is kept at both ends, `keep_bytes` each; without its standard output, where `stdout` is a
    descriptor for that. Must be awaited on an asyncio loop.

    Raises:
        OSError: it could not be started (no such program or directory, arguments too long).
        ValueError: its arguments cannot be handed to a program (a NUL, a lone surrogate).
    """
    output = BoundedOutput(keep_bytes)
    with _pipe() as (read_end, write_end), _given(stdin) as given:
        process = _start(command, directory, environment, write_end, given, stdout)
        with _reading(read_end, output):
            try:
                with anyio.move_on_after(timeout_s) as deadline:
                    await _exited(process)
            finally:
                await _end(process)
        _read_rest(read_end, output)
    head, tail, dropped = output.parts()
    return Ended(None if deadline.cancelled_caught else process.returncode, head, tail, dropped)


@contextmanager
def keeping_output(output: BoundedOutput) -> Iterator[int]:
    """The writing end of a pipe, for a process to write to; what it writes is kept while the loop runs."""
    with _pipe() as (read_end, write_end), _reading(read_end, output):
        try:
            yield write_end
        finally:
            _read_rest(read_end, output)


def kill_group(group: int) -> None:
    """SIGKILL for every process of a group; nothing happens if there is none, or it is not ours."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(group, signal.SIGKILL)


@contextmanager
def _given(stdin: bytes | None) -> Iterator[int]:
    """What a process reads: from a file without a name, which takes any amount and blocks nobody."""
    if stdin is None:
        yield subprocess.DEVNULL
        return
    with tempfile.TemporaryFile() as file:
        file.write(stdin)
        file.seek(0)
        yield file.fileno()


def _start(  # noqa: PLR0917 (what a process begins with)
    command: Sequence[str],
    directory: Path,
    environment: Mapping[str, str],
    output: int,
    stdin: int,
    stdout: int | None,
) -> subprocess.Popen[bytes]:
    return subprocess.Popen(  # noqa: S603 - running what the model asked for is what this is for
        [*dies_with_us(), *command],
        cwd=directory,
        env=dict(environment),
        stdin=stdin,
        stdout=output if stdout is None else stdout,
        stderr=output,
        start_new_session=True,
        umask=0o077,
    )


@cache
def dies_with_us() -> tuple[str, ...]:
    """A prefix that lets the kernel kill a command when the runner dies, where there is a program for it.

    Setting that between fork and exec in Python is not safe with threads; util-linux's `setpriv` does it
    after exec. Without it nothing is lost but time: the next session finds what was left by its marker.
    """
    program = shutil.which("setpriv")
    if program is None:
        return ()
    prefix = (program, "--pdeathsig", "KILL", "--")
    probe = subprocess.run([*prefix, "true"], check=False, capture_output=True)  # noqa: S603 - a fixed command
    return prefix if probe.returncode == 0 else ()


async def _exited(process: subprocess.Popen[bytes]) -> None:
    """Return when a process has ended; it is not reaped yet where the system can wait so."""
    if not hasattr(os, "pidfd_open"):
        await anyio.to_thread.run_sync(process.wait, abandon_on_cancel=True)
        return
    descriptor = os.pidfd_open(process.pid)
    loop = asyncio.get_running_loop()
    ended = asyncio.Event()
    try:
        loop.add_reader(descriptor, ended.set)
        await ended.wait()
    finally:
        loop.remove_reader(descriptor)
        os.close(descriptor)


async def _end(process: subprocess.Popen[bytes]) -> None:
    """Kill the group and reap its leader, whatever happens around it.

    The leader is reaped after the kill: as long as it is not, nobody else can get its group's number.
    """
    kill_group(process.pid)
    if process.returncode is None:
        with anyio.move_on_after(REAP_S, shield=True) as late:
            await _exited(process)
        if not late.cancelled_caught:
            process.wait()


@contextmanager
def _pipe() -> Iterator[tuple[int, int]]:
    read_end, write_end = os.pipe()
    os.set_blocking(read_end, False)
    try:
        yield read_end, write_end
    finally:
        os.close(read_end)
        os.close(write_end)


@contextmanager
def _reading(descriptor: int, output: BoundedOutput) -> Iterator[None]:
    """Take what comes out of a pipe while the loop runs.

    The writing end stays open in this process as well, so the pipe never looks closed; the process's own
    end is what is waited for.
    """
    loop = asyncio.get_running_loop()
    loop.add_reader(descriptor, _read_once, descriptor, output)
    try:
        yield
    finally:
        loop.remove_reader(descriptor)


def _read_once(descriptor: int, output: BoundedOutput) -> bool:
    """Read what is there, at most `READ_BYTES`; false when there is nothing."""
    try:
        data = os.read(descriptor, READ_BYTES)
    except BlockingIOError:
        return False
    output.feed(data)
    return bool(data)


def _read_rest(descriptor: int, output: BoundedOutput) -> None:
    for _ in range(LAST_READS):
        if not _read_once(descriptor, output):
            return
