"""Processes that need not import: one that has imported all of `evrun` forks itself for each that is wanted.

An `evrun run` spends a second of a processor on imports before it does anything, and the tests start many
hundred. What comes out of a nest (`tests/nest.py`) is a process all the same, with a pid, an environment, a
directory and pipes of its own, that takes signals and dies of kill -9; only its modules are there already.
Two nests take turns, so that what one session writes is read by a session whose strings hash otherwise.

What an interpreter looks at before it runs a line (PYTHONPATH, a locale, a time zone) no fork takes over: who
wants another value of it than the tests themselves have starts an interpreter (`fits`).
"""

import atexit
import json
import os
import select
import shlex
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, Self, TextIO

ROOT = Path(__file__).resolve().parent.parent
PROGRAM = ROOT / "tests/warm_program.py"
NESTS = 2
EARLY = ("PYTHON", "LC_", "LANG", "TZ", "LD_", "MALLOC_", "SSL_", "OPENSSL_", "AIOHTTP_")
"""Beginnings of the names of variables that are looked at before `main`, or by what is imported."""


class Nest(NamedTuple):
    """Where a nest takes orders: a socket, and the name of another."""

    orders: socket.socket
    door: str


class Warm:
    """A process out of a nest: what `subprocess.Popen` is, as far as the tests use it."""

    def __init__(self, args: list[str], life: int, stdout: TextIO, stderr: TextIO | None) -> None:
        self.args = args
        self.stdout = stdout
        self.stderr = stderr
        self.returncode: int | None = None
        self._files = [file for file in (stdout, stderr) if file is not None]
        self._life = life
        self._said = b""
        self.pid = int(self._line(0, None) or 0)

    def _line(self, number: int, timeout: float | None) -> bytes | None:
        """What the nest says of this process: first its pid, at its end how it ended; null: not in time."""
        while self._said.count(b"\n") <= number:
            if not select.select([self._life], [], [], timeout)[0]:
                return None
            more = os.read(self._life, 64)
            if not more:
                raise RuntimeError(f"the nest is gone out of which {self.args} came")
            self._said += more
        return self._said.splitlines()[number]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for file in self._files:
            file.close()
        self.wait()

    def poll(self) -> int | None:
        """How it ended, in the numbers of `Popen`; null while it goes on."""
        try:
            return self.wait(0)
        except subprocess.TimeoutExpired:
            return None

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end, and say how it ended.

        Raises:
            subprocess.TimeoutExpired: it goes on.
        """
        if self.returncode is None:
            status = self._line(1, timeout)
            if status is None:
                raise subprocess.TimeoutExpired(self.args, timeout or 0)
            self.returncode = os.waitstatus_to_exitcode(int(status))
            os.close(self._life)
        return self.returncode

    def communicate(self, timeout: float | None = None) -> tuple[str, str]:
        """Read all that it prints, and wait for its end."""
        said = ["", ""]

        def read(place: int, file: TextIO) -> None:
            said[place] = file.read()

        readers = [
            threading.Thread(target=read, args=(place, file), daemon=True)
            for place, file in enumerate(self._files)
        ]
        for reader in readers:
            reader.start()
        self.wait(timeout)
        for reader in readers:
            reader.join(timeout)
            if reader.is_alive():
                raise subprocess.TimeoutExpired(self.args, timeout or 0)
        for file in self._files:
            file.close()
        return said[0], said[1]

    def send_signal(self, number: int) -> None:
        """Send a signal, unless it has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """End it as a power cut would."""
        self.send_signal(9)


def fits(environment: Mapping[str, str]) -> bool:
    """Whether a process out of a nest of the tests' own would see what a new interpreter sees of this."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTHONDONTWRITE")}
    return _early(environment) == _early({**kept, "PYTHONPATH": str(ROOT)})


def _early(environment: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in environment.items() if name.startswith(EARLY)}


def start(
    entry: str,
    arguments: Sequence[str],
    *,
    cwd: Path,
    environment: Mapping[str, str],
    stdin: int | None = None,
    stderr: int | None = None,
) -> Warm:
    """Call `entry` ("module:function") in a process of its own, with these arguments on its command line.

    Its stdout is a pipe, and its stderr unless that is given; its stdin is empty unless that is given.
    """
    order = {"entry": entry, "arguments": [*arguments], "cwd": str(cwd), "environment": dict(environment)}
    life, told = os.pipe()
    stdout, printed = os.pipe()
    complains, complained = (None, stderr) if stderr is not None else os.pipe()
    with tempfile.TemporaryFile() as file, Path(os.devnull).open("rb") as nothing:
        file.write(json.dumps(order).encode())
        file.flush()
        given = nothing.fileno() if stdin is None else stdin
        socket.send_fds(
            _next_nest(environment).orders, [b"!"], [file.fileno(), told, given, printed, complained]
        )
    for descriptor in (told, printed) if stderr is not None else (told, printed, complained):
        os.close(descriptor)
    return Warm(
        [entry, *arguments],
        life,
        os.fdopen(stdout, encoding="utf-8"),
        None if complains is None else os.fdopen(complains, encoding="utf-8"),
    )


def program(path: Path, entry: str, environment: Mapping[str, str]) -> None:
    """Write a program for shells with this environment, which is `entry` out of a nest."""
    words = shlex.join([sys.executable, "-I", "-S", str(PROGRAM), _next_nest(environment).door, entry])
    path.write_text(f'#!/bin/sh\nexec {words} "$@"\n')
    path.chmod(0o755)


def _next_nest(environment: Mapping[str, str]) -> Nest:
    """They are made as they are needed, so that who starts one process has none that is still importing."""
    early = _early(environment)
    nests = _nests.setdefault(json.dumps(early, sort_keys=True), [])
    nests.append(_nest(early) if len(nests) < NESTS else nests.pop(0))
    return nests[-1]


_nests: dict[str, list[Nest]] = {}
"""By what an interpreter looks at early; the one that was used last is the last."""


def _nest(early: Mapping[str, str]) -> Nest:
    late = {name: value for name, value in os.environ.items() if not name.startswith(EARLY)}
    ours, theirs = socket.socketpair()
    place = tempfile.TemporaryDirectory(prefix="nest-")  # of a short name, as sockets need it
    nest = Nest(ours, f"{place.name}/door")
    with theirs, socket.socket(socket.AF_UNIX) as door:
        door.bind(nest.door)
        door.listen(64)
        taken = [theirs.fileno(), door.fileno()]
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.nest", *map(str, taken)],
            cwd=ROOT, env={**late, **early}, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            pass_fds=taken,
        )  # fmt: skip

    def end() -> None:
        ours.close()
        process.wait()
        place.cleanup()

    atexit.register(end)
    return nest
