"""An agent that is a program which knows nothing of evrun: `command:CMD`."""

import shutil
from pathlib import Path

from projections import prompt_text

from ..batch.briefs import image_of
from ..effects.processes import Ended, run_command
from ..effects.secrets import Redactor, child_environment
from .calls import AgentCalls
from .endpoint import RecordingEndpoint
from .endpoint_programs import environment_for
from .function_agent import AgentEnd

LONGEST_VARIABLE = 100_000
"""A longer text fits into no variable; the program still has it on its standard input."""
_SHOWN = 1000


class CommandAgent:
    """Runs a shell command for an attempt; what it asks of a model goes through evrun's endpoint.

    The command's directory is fresh at each start, because it does all of its work again.
    """

    wants_a_fresh_directory = True

    def __init__(self, command: str, endpoint: RecordingEndpoint, marker: str, redactor: Redactor) -> None:
        self._command = command
        self._endpoint = endpoint
        self._marker = marker
        self._redactor = redactor

    async def run(self, calls: AgentCalls) -> AgentEnd:
        """Run the command to its end and say how it ended."""
        image = image_of(calls.brief.row)
        if image is not None:
            why = f"the row wants the container image {image!r}, and a program runs on this machine only"
            return AgentEnd("no_container", why)
        token = self._endpoint.admit(calls.ask)
        try:
            ended = await self._start(calls, token)
        except (OSError, ValueError) as error:
            return AgentEnd("agent_not_started", f"{self._command[:200]}: {error}")
        finally:
            await self._endpoint.dismiss(token)
        return self._judged(ended, calls.directory)

    async def _start(self, calls: AgentCalls, token: str) -> Ended:
        prompt = prompt_text(calls.brief.row)
        model = calls.brief.settings.model
        environment = child_environment(calls.directory, f"{self._marker}/{calls.directory.name}")
        environment |= environment_for(self._endpoint, token, model)
        environment |= {"EVRUN_UNIT": calls.unit}
        if len(prompt.encode("utf-8", "replace")) < LONGEST_VARIABLE and "\0" not in prompt:
            environment["EVRUN_PROMPT"] = prompt.encode("utf-8", "replace").decode()
        (calls.directory / Path(environment["TMPDIR"]).name).mkdir(mode=0o700, exist_ok=True)
        return await run_command(
            [shutil.which("bash") or "/bin/sh", "-c", self._command],
            directory=calls.directory,
            environment=environment,
            timeout_s=max(calls.left_s, 0.0),
            stdin=prompt.encode("utf-8", "replace"),
        )

    def _judged(self, ended: Ended, directory: Path) -> AgentEnd:
        said = self._redactor.clean((ended.tail or ended.head)[-_SHOWN:]).decode("utf-8", "replace")
        (directory / "output.txt").write_bytes(self._redactor.clean(ended.head + ended.tail))
        if ended.exit_code is None:
            return AgentEnd("prompt_timeout", "the program was not done in time (--prompt-timeout)")
        if ended.exit_code == 0:
            return AgentEnd()
        how = f"exit code {ended.exit_code}" if ended.exit_code > 0 else f"signal {-ended.exit_code}"
        return AgentEnd(
            "agent_failed", f"the program ended with {how}; the end of its output: {said.strip()}"
        )
