"""A judge that is a function of the user's: it runs in processes of its own, each call with a deadline.

So a judge that hangs, leaks or dies takes nothing with it, and its processes end with the run's.
"""

import json
import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

import anyio
from anyio.abc import Process
from anyio.streams.buffered import BufferedByteReceiveStream

from projections import loads_lenient

from ..errors import UsageFault

LOAD_TIMEOUT_S = 120.0
LONGEST_LINE = 16 << 20
_ROOT = str(Path(__file__).parent.parent.parent)
# Not by -m, which would put the current directory before the library: a file queue.py there would be loaded.
_BEGIN = """\
import sys; sys.path.append(sys.argv[1])
from evrun.effects.judge_child import run; run(*sys.argv[2:])"""


class JudgeFault(Exception):
    """The function could not judge; says file, line and error."""


class Judged(NamedTuple):
    """What a function said: a number (perhaps as text), a word about it, and anything else that is JSON."""

    score: Any
    feedback: str | None
    extra: Any = None


def check_function(
    path: Path,
    name: str,
    option: str = "--judge",
    hint: str = "def score(prompt, trajectory): return 1.0, 'why'",
) -> None:
    """See that a file can be loaded and has this function, in a process of its own.

    `option` says in messages where it was named, `hint` what such a function looks like.

    Raises:
        UsageFault: with what is wrong, and where.
    """
    try:
        ended = subprocess.run(  # noqa: S603 (this very Python)
            _command(path, name),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            timeout=LOAD_TIMEOUT_S,
            check=False,
        )
        said = json.loads(ended.stdout)
    except subprocess.TimeoutExpired as error:
        raise UsageFault(f"{option} {path}:{name}: not loaded within {LOAD_TIMEOUT_S:g} s", hint) from error
    except ValueError as error:
        raise UsageFault(f"{option} {path}:{name}: the process that loads it died", hint) from error
    if "error" in said:
        raise UsageFault(f"{option}: {said['error']}", hint)


class FunctionJudge:
    """Lets a function judge; an async context manager, at whose end all its processes are gone."""

    def __init__(self, path: Path, name: str) -> None:
        self._path, self._name = path, name
        self._idle: list[_Child] = []
        self._all: set[_Child] = set()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with anyio.CancelScope(shield=True):
            for child in list(self._all):
                await self._end(child)

    async def score(self, *values: Any, timeout_s: float) -> Judged:
        """What the function says of two values (JSON); a third is its parameters, if it takes any.

        Raises:
            JudgeFault: it raised an error, gave no number, died, or took too long.
        """
        child = None
        try:
            with anyio.fail_after(timeout_s):
                child = self._idle.pop() if self._idle else await self._start()
                said = await child.ask(list(values))
        except TimeoutError:
            raise JudgeFault(f"{self._path}:{self._name}: no score within {timeout_s:.0f} s") from None
        except anyio.DelimiterNotFound:
            raise JudgeFault(f"{self._path}:{self._name}: it said more than {LONGEST_LINE} bytes") from None
        except (anyio.EndOfStream, anyio.IncompleteRead, anyio.BrokenResourceError, ValueError, OSError):
            raise JudgeFault(f"{self._path}:{self._name}: its process died") from None
        else:
            self._idle.append(child)
        finally:
            if child is not None and child not in self._idle:
                with anyio.CancelScope(shield=True):
                    await self._end(child)
        if "error" in said:
            raise JudgeFault(str(said["error"]))
        return Judged(said["score"], said["feedback"], said.get("extra"))

    async def _start(self) -> "_Child":
        child = await _Child.start(_command(self._path, self._name))
        self._all.add(child)
        try:
            said = await child.read()
        except BaseException:
            with anyio.CancelScope(shield=True):
                await self._end(child)
            raise
        if "error" in said:
            await self._end(child)
            raise JudgeFault(str(said["error"]))
        return child

    async def _end(self, child: "_Child") -> None:
        self._all.discard(child)
        await child.end()


class _Child:
    def __init__(self, process: Process) -> None:
        self._process = process
        assert process.stdout is not None
        self._lines = BufferedByteReceiveStream(process.stdout)

    @classmethod
    async def start(cls, command: list[str]) -> Self:
        return cls(await anyio.open_process(command, stderr=None, start_new_session=True))

    async def ask(self, value: list[Any]) -> dict[str, Any]:
        assert self._process.stdin is not None
        await self._process.stdin.send(json.dumps(value).encode() + b"\n")
        return await self.read()

    async def read(self) -> dict[str, Any]:
        said: dict[str, Any] = loads_lenient(await self._lines.receive_until(b"\n", LONGEST_LINE))
        return said

    async def end(self) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        await self._process.wait()
        await self._process.aclose()


def _command(path: Path, name: str) -> list[str]:
    return [sys.executable, "-B", "-P", "-c", _BEGIN, _ROOT, str(path), name]
