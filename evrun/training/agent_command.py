"""An agent that is a program: `command:CMD`, a process in a directory of its own for each attempt."""

import os
import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import msgspec

from projections import loads_lenient

from ..agents import AgentCalls
from ..agents.endpoint import RecordingEndpoint, environment_for
from ..effects.processes import Ended, run_command
from ..effects.secrets import child_environment
from .agent_context import Given, NoCalls
from .authoring import RunOutput
from .outcomes import AgentError

LONGEST_VARIABLE = 100_000
"""A longer text fits into no variable; the program still has its task on its standard input."""
LARGEST_OUTPUT = 16 * 1024 * 1024
OUTPUT = "output.json"
KEPT = ".evrun"
"""Where in its directory the program's own output is put for the log: output.txt and errors.txt."""
_SHOWN = 1000
_FIELDS = frozenset(field.name for field in msgspec.structs.fields(RunOutput))


class CommandAgent:
    """Runs a shell command for an attempt.

    It has the task as JSON on its standard input and in EVRUN_TASK, the adapter's directory in EVRUN_ADAPTER
    (empty: none), the parameters as JSON in EVRUN_PARAMS; what it asks of a model goes through evrun's
    endpoint. Its output is its standard output, or ``output.json`` in its directory. `passed` names variables
    of `environment` that it gets beside a few harmless ones.
    """

    pays_itself = True
    is_program = True

    def __init__(
        self,
        command: str,
        passed: Sequence[str],
        note: Callable[[str], None],
        environment: Mapping[str, str] = os.environ,
    ) -> None:
        self._command = command
        self._passed = tuple(passed)
        self._environment = environment
        self._note = note
        self._endpoint: RecordingEndpoint | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the endpoint."""
        if self._endpoint is not None:
            await self._endpoint.__aexit__(kind, error, trace)

    async def run(self, calls: AgentCalls | NoCalls, given: Given) -> RunOutput:
        """Run the command to its end, and read what it left."""
        if isinstance(calls, NoCalls):
            return await self._start(calls, given, {})
        endpoint = await self._opened(calls.brief.settings.model)
        token = endpoint.admit(calls.ask)
        try:
            return await self._start(
                calls, given, environment_for(endpoint, token, calls.brief.settings.model)
            )
        finally:
            await endpoint.dismiss(token)

    async def _opened(self, model: str) -> RecordingEndpoint:
        if self._endpoint is None:
            endpoint = self._endpoint = RecordingEndpoint([model], self._note)
            await endpoint.__aenter__()
        return self._endpoint

    async def _start(self, calls: AgentCalls | NoCalls, given: Given, models: dict[str, str]) -> RunOutput:
        environment = child_environment(calls.directory, f"{given.marker}/{calls.directory.name}")
        environment |= models | self._told(calls, given)
        (calls.directory / Path(environment["TMPDIR"]).name).mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.TemporaryFile() as stdout:
            try:
                ended = await run_command(
                    [shutil.which("bash") or "/bin/sh", "-c", self._command],
                    directory=calls.directory,
                    environment=environment,
                    timeout_s=max(calls.left_s, 0.0),
                    stdin=msgspec.json.encode(given.task),
                    stdout=stdout.fileno(),
                )
            except (OSError, ValueError) as error:
                raise AgentError("agent_not_started", f"{self._command[:200]}: {error}") from error
            stdout.seek(0)
            said = stdout.read(LARGEST_OUTPUT)
        return self._found(ended, said, calls.directory)

    def _told(self, calls: AgentCalls | NoCalls, given: Given) -> dict[str, str]:
        told = {
            "EVRUN_UNIT": calls.unit,
            "EVRUN_ADAPTER": "" if given.adapter is None else str(given.adapter),
            "EVRUN_PARAMS": msgspec.json.encode(given.params).decode(),
        }
        task = msgspec.json.encode(given.task).decode()
        if len(task) < LONGEST_VARIABLE:
            told["EVRUN_TASK"] = task
        known = self._environment
        return told | {name: known[name] for name in self._passed if name in known}

    def _found(self, ended: Ended, said: bytes, directory: Path) -> RunOutput:
        """What it gave back.

        Raises:
            AgentError: it was not done in time, or ended otherwise than with 0.
        """
        kept = directory / KEPT
        kept.mkdir(mode=0o700, exist_ok=True)
        (kept / "output.txt").write_bytes(said)
        errors = ended.head + ended.tail
        if errors:
            (kept / "errors.txt").write_bytes(errors)
        found = _read(directory / OUTPUT, said)
        if found.log is None:
            found.log = kept
        if ended.exit_code is None:
            raise AgentError("timeout", "the program was not done in time (agent.timeout_min)", found)
        if ended.exit_code:
            how = f"exit code {ended.exit_code}" if ended.exit_code > 0 else f"signal {-ended.exit_code}"
            end = (errors or said)[-_SHOWN:].decode("utf-8", "replace").strip()
            raise AgentError(
                "agent_failed", f"the program ended with {how}; the end of what it said: {end}", found
            )
        return found


def _read(file: Path, said: bytes) -> RunOutput:
    """The output: a file with `RunOutput`'s fields, or with any JSON; else what was said on stdout."""
    try:
        value: Any = loads_lenient(file.read_bytes())
    except FileNotFoundError:
        return RunOutput(said.decode("utf-8", "replace").strip())
    except (OSError, ValueError) as error:
        raise AgentError("bad_output", f"{OUTPUT} cannot be read: {error}") from error
    if not isinstance(value, dict) or "output" not in value:
        return RunOutput(value)
    return RunOutput(**{name: one for name, one in value.items() if name in _FIELDS})
