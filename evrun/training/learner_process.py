"""A learner that is a Python class: it lives in one process of its own, from the first call to the last."""

import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

import anyio
import anyio.to_thread
import msgspec
from anyio.abc import Process
from anyio.streams.buffered import BufferedByteReceiveStream

from projections import loads_lenient

from ..agents import AgentCalls
from ..effects.orphans import kill_orphans
from ..effects.secrets import MARKER_VARIABLE
from ..errors import UsageFault
from .learner_base import Learner, LearnerCall, LearnerTools, Place, Returned
from .learner_calling import Calling
from .learner_endpoint import Doors, Given
from .learner_result import failed, returned

LOAD_TIMEOUT_S = 120.0
LONGEST_LINE = 64 << 20
LAST_BYTES_S = 0.2
"""So long the answer of a process that has ended may take to be read: its children may hold the pipe open."""
_BARE = ("-u", "-B", "-P", "-c")
_ROOT = str(Path(__file__).parent.parent.parent)
# Not by -m, which would put the current directory before the library: a file queue.py there would be loaded.
_BEGIN = """\
import sys; sys.path.append(sys.argv[1])
from evrun.training.learner_child import main; main(sys.argv[2])"""


class ChildDied(Exception):
    """The learner's process is gone, and how."""


class PythonLearner(Learner):
    """Calls the methods of a class. `name` is ``FILE.py:CLASS`` or ``MODULE:CLASS``."""

    def __init__(self, name: str, place: Place) -> None:
        self._name = name
        self._place = place
        self._doors = Doors(place.models)
        self._calling = Calling(place, self._doors)
        self._child: Child | None = None

    async def start(self) -> None:
        """Start the process, and see what the class has."""
        await self._started()

    async def call(self, call: LearnerCall, tools: LearnerTools, ask: AgentCalls | None) -> Returned:
        """Call a method, in the process that is there or in a new one."""
        if self._child is not None and self._child.has_ended:
            await self.end()
        try:
            child = self._child or await self._started()
        except UsageFault as fault:
            # It could be used when the run began.
            return failed(str(fault), call.workspace.output, self._place.redactor)
        return await self._calling.call(call, tools, ask, _Call(self, child, call, self._place))

    def kill(self) -> None:
        """End the process and its group at once."""
        if self._child is not None:
            self._child.kill()

    async def close(self) -> None:
        """End the process, all that it has started, and the endpoints."""
        with anyio.CancelScope(shield=True):
            await self.end()
            await self._doors.close()

    async def end(self) -> None:
        """End the process and all that it has started; the next call starts a new one."""
        child, self._child = self._child, None
        if child is not None:
            with anyio.CancelScope(shield=True):
                await child.end()
                await anyio.to_thread.run_sync(kill_orphans, self._marker)

    async def _started(self) -> "Child":
        environment = {**os.environ, **await self._doors.open(), MARKER_VARIABLE: self._marker}
        self._child = await Child.start([sys.executable, *_BARE, _BEGIN, _ROOT, self._name], environment)
        try:
            with anyio.fail_after(LOAD_TIMEOUT_S):
                said = await self._child.read()
        except TimeoutError:
            await self.end()
            raise UsageFault(f"evolver.name {self._name}: not loaded within {LOAD_TIMEOUT_S:g} s") from None
        except ChildDied as death:
            await self.end()
            raise UsageFault(f"evolver.name {self._name}: while it was loaded, {death}") from None
        if "problem" in said:
            await self.end()
            raise UsageFault(f"evolver.name {self._name}: {said['problem']}", said["hint"])
        self.methods = frozenset(said["methods"])
        return self._child

    @property
    def _marker(self) -> str:
        return f"{self._place.marker}/learner"


class _Call:
    """One call: an order to the process, and its answer."""

    def __init__(self, learner: PythonLearner, child: "Child", call: LearnerCall, place: Place) -> None:
        self._learner = learner
        self._child = child
        self._call = call
        self._place = place
        self.timeout_s = call.timeout_s

    async def run(self, given: Given) -> Returned:
        output, redactor = self._call.workspace.output, self._place.redactor
        try:
            await self._child.tell(order_of(self._call, given, self._place))
            said = await self._child.read()
        except ChildDied as death:
            await self._learner.end()
            return failed(f"the learner's {self._call.call} ended in between: {death}", output, redactor)
        if "error" in said:
            return failed(str(said["error"]), output, redactor)
        return returned(said["result"], output, redactor)

    async def cancel(self) -> None:
        await self._child.cancel()

    async def end(self) -> None:
        await self._learner.end()


class Child:
    """The process, spoken to by lines of JSON."""

    def __init__(self, process: Process) -> None:
        self._process = process
        assert process.stdout is not None
        self._telling = anyio.Lock()
        self._lines = BufferedByteReceiveStream(process.stdout)

    @classmethod
    async def start(cls, command: list[str], environment: Mapping[str, str]) -> Self:
        """Start it, the leader of a group of its own."""
        return cls(
            await anyio.open_process(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=None,
                env=environment,
                start_new_session=True,
                umask=0o077,
            )
        )

    @property
    def has_ended(self) -> bool:
        """Whether it is gone."""
        return self._process.returncode is not None

    async def tell(self, value: dict[str, Any]) -> None:
        """Send it a line.

        Raises:
            ChildDied: nobody reads it.
        """
        assert self._process.stdin is not None
        try:
            async with self._telling:
                await self._process.stdin.send(msgspec.json.encode(value) + b"\n")
        except (anyio.BrokenResourceError, anyio.ClosedResourceError, OSError):
            raise ChildDied(await self._how()) from None

    async def cancel(self) -> None:
        """Tell it to set its `cancel`."""
        with suppress(ChildDied):
            await self.tell({"cancel": True})

    async def read(self) -> dict[str, Any]:
        """Its next line.

        Raises:
            ChildDied: it ended before.
        """
        line = b""
        async with anyio.create_task_group() as group:
            group.start_soon(self._until_ended, group.cancel_scope)
            with suppress(anyio.EndOfStream, anyio.IncompleteRead, anyio.DelimiterNotFound, OSError):
                line = await self._lines.receive_until(b"\n", LONGEST_LINE)
            group.cancel_scope.cancel()
        try:
            said: dict[str, Any] = loads_lenient(line)
        except ValueError:
            raise ChildDied(await self._how()) from None
        return said

    def kill(self) -> None:
        """SIGKILL for its group."""
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)

    async def end(self) -> None:
        """Kill its group and reap it."""
        self.kill()
        await self._process.wait()
        await self._process.aclose()

    async def _until_ended(self, scope: anyio.CancelScope) -> None:
        await self._process.wait()
        await anyio.sleep(LAST_BYTES_S)
        scope.cancel()

    async def _how(self) -> str:
        """How it ended; one that only closed its pipe is ended."""
        with anyio.move_on_after(LAST_BYTES_S):
            await self._process.wait()
        code = self._process.returncode
        if code is None:
            return "it said what no learner's process says"
        return (
            f"its process ended with exit code {code}" if code >= 0 else f"its process died of signal {-code}"
        )


def order_of(call: LearnerCall, given: Given, place: Place) -> dict[str, Any]:
    """A call as the process is told it."""
    access = _paths(call.access)
    return {
        "call": call.call,
        "workspace": {**_paths(call.workspace), "task_info": access["task_info"]},
        "access": {**access, "environment": [str(path) for path in call.access.environment]},
        "progress": {"epoch": call.epoch, "step": call.step, "is_epoch_end": call.is_epoch_end},
        "params": call.params,
        "message": call.message,
        "session": call.session,
        "tools": given.desk.describe(),
        "tool_url": given.tool_url,
        "base": str(place.base),
    }


def _paths(struct: msgspec.Struct) -> dict[str, str | None]:
    fields = ((name, getattr(struct, name)) for name in struct.__struct_fields__)
    return {
        name: None if value is None else str(value) for name, value in fields if not isinstance(value, tuple)
    }
