"""A learner that is any program: ``command:CMD``, started for each call.

It is told where it works by a file of JSON (``EVRUN_CONTEXT``), asks the run's tools at ``EVRUN_TOOL_URL``,
and says what it did in ``output/step_result.json``. Both variables also have Hermit's names.
"""

import json
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import anyio

from projections import loads_lenient

from ..agents import AgentCalls
from ..effects.processes import Ended, run_command
from ..effects.secrets import TEMPORARY_DIRECTORY, child_environment
from ..errors import UsageFault
from .learner_base import Learner, LearnerCall, LearnerTools, Place, Returned
from .learner_calling import Calling
from .learner_endpoint import Doors, Given
from .learner_process import order_of
from .learner_result import LARGEST_LOG, LOG_FILE, METHODS, failed, late, returned

RESULT_FILE = "step_result.json"
CONTEXT_FILE = "context.json"
LARGEST_RESULT = 64 << 20
_OUR_PARAMS = ("calls", "env")
LATER_S = 10.0
_SHOWN = 1000


class CommandLearner(Learner):
    """Runs a shell command for a call, in the workspace's root.

    Of ``evolver.params``, `calls` are the calls that it wants (``[step]`` where it does not say), and `env`
    names variables of evrun's environment that it is given; the others are in its context.
    """

    def __init__(self, command: str, params: Mapping[str, Any], place: Place) -> None:
        self._command = command
        self._params = params
        self._place = place
        self._doors = Doors(place.models)
        self._calling = Calling(place, self._doors)
        self._variables: dict[str, str] = {}

    async def start(self) -> None:
        """Look at what it is told.

        Raises:
            UsageFault: there is no command; a call or variable that there is not.
        """
        if not self._command.strip():
            raise UsageFault("evolver.name command: names no command", hint="command:python3 learner.py")
        calls = _names(self._params, "calls") or ["step"]
        unknown = sorted(set(calls) - {*METHODS})
        if unknown or "step" not in calls:
            found = f"has {', '.join(unknown)}" if unknown else "has no step"
            raise UsageFault(f"evolver.params.calls {found}; there is {', '.join(METHODS)}, and step always")
        self.methods = frozenset(calls)
        names = _names(self._params, "env")
        missing = [name for name in names if name not in os.environ]
        if missing:
            raise UsageFault(
                f"evolver.params.env names {', '.join(missing)}, which your environment does not have",
                hint="set the variable, or take it off the list",
            )
        self._variables = {name: os.environ[name] for name in names}

    async def call(self, call: LearnerCall, tools: LearnerTools, ask: AgentCalls | None) -> Returned:
        """Run the command to its end or its deadline; then its whole process group is dead."""
        work = _Program(self._command, self._variables, call, self._place)
        return await self._calling.call(call, tools, ask, work)

    def kill(self) -> None:
        """Nothing to do: a command dies with evrun, or with the task that waits for it."""

    async def close(self) -> None:
        """Close the endpoints; its processes ended with its calls."""
        with anyio.CancelScope(shield=True):
            await self._doors.close()


class _Program:
    """The command, at work on one call."""

    def __init__(self, command: str, variables: Mapping[str, str], call: LearnerCall, place: Place) -> None:
        self._command = command
        self._variables = variables
        self._call = call
        self._place = place
        # It ends by its own deadline, with what it printed until then.
        self.timeout_s = call.timeout_s + LATER_S

    async def run(self, given: Given) -> Returned:
        output, redactor = self._call.workspace.output, self._place.redactor
        try:
            ended = await self._run(given)
        except (OSError, ValueError) as error:
            return failed(f"{self._command[:200]}: not started: {error}", output, redactor)
        (output / LOG_FILE).write_bytes(_log(ended))
        raw = _result(output / RESULT_FILE)
        problem = _problem(ended, raw, self._call)
        if problem is not None:
            return failed(problem, output, redactor, raw.get("usage") if isinstance(raw, dict) else None)
        assert not isinstance(raw, str), "that is a problem"
        return returned({"status": "done"} | (raw or {}), output, redactor)

    async def cancel(self) -> None:
        """Nothing that every program understands can be said; how long it may take is in its context."""

    async def end(self) -> None:
        """It was ended by cancelling who waited for it."""

    async def _run(self, given: Given) -> Ended:
        workspace = self._call.workspace
        environment = child_environment(workspace.scratch, f"{self._place.marker}/learner")
        (workspace.scratch / TEMPORARY_DIRECTORY).mkdir(mode=0o700, exist_ok=True)
        context = workspace.scratch / CONTEXT_FILE
        context.write_text(json.dumps(self._context(given), indent=1), "utf-8")
        for prefix in ("EVRUN", "HA"):
            environment |= {f"{prefix}_CONTEXT": str(context), f"{prefix}_TOOL_URL": given.tool_url}
        return await run_command(
            [shutil.which("bash") or "/bin/sh", "-c", self._command],
            directory=workspace.root,
            environment={**environment, **self._variables, **given.environment},
            timeout_s=self._call.timeout_s,
            keep_bytes=LARGEST_LOG // 2,
        )

    def _context(self, given: Given) -> dict[str, Any]:
        told = {
            name: value for name, value in order_of(self._call, given, self._place).items() if name != "tools"
        }
        params = {name: value for name, value in self._call.params.items() if name not in _OUR_PARAMS}
        return {**told, "params": params, "timeout_s": self._call.timeout_s}


def _names(params: Mapping[str, Any], name: str) -> list[str]:
    value = params.get(name)
    if value is None:
        return []
    if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
        raise UsageFault(f"evolver.params.{name} is {value!r:.100}; expected a list of names")
    return value


def _log(ended: Ended) -> bytes:
    gap = b"\n... %d bytes are left out here ...\n" % ended.dropped_bytes if ended.dropped_bytes else b""
    return ended.head + gap + ended.tail


def _result(path: Path) -> dict[str, Any] | str | None:
    """What the program wrote of its result: an object, null where there is none, or what is wrong with it."""
    try:
        if path.stat().st_size > LARGEST_RESULT:
            return f"output/{RESULT_FILE} has more than {LARGEST_RESULT} bytes"
        found = loads_lenient(path.read_bytes())
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        return f"output/{RESULT_FILE} cannot be read: {error}"
    return found if isinstance(found, dict) else f"output/{RESULT_FILE} is no JSON object"


def _problem(ended: Ended, raw: dict[str, Any] | str | None, call: LearnerCall) -> str | None:
    """Why its files do not count; null where they do."""
    if ended.exit_code is None:
        return late(call.call, call.timeout_s)
    if ended.exit_code:
        code = ended.exit_code
        how = f"exit code {code}" if code > 0 else f"signal {-code}"
        last = (ended.tail or ended.head)[-_SHOWN:].decode("utf-8", "replace").strip()
        return f"the learner's program ended with {how}" + (
            f"; the end of its output: {last}" if last else ""
        )
    return raw if isinstance(raw, str) else None
