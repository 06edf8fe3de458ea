"""The setting `agent`: who works on a prompt. Own agents are built on this package and loaded late."""

import re
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Protocol

from eventlog.events import PromptStarted
from eventlog.storage import Ticket

from ..effects.secrets import Redactor
from ..errors import UsageFault
from .brief import Brief
from .sending import Services
from .settings import CHAT, Settings

COMMAND = "command:"
# What stands in quotes, or a word of a shell command that may be a path.
_WORD = re.compile(
    r"""(["'])(?P<quoted>[^"']+)\1|(?<![^\s;|&()<>=])(?P<word>[A-Za-z0-9_.-]*[/.][A-Za-z0-9_./-]*)"""
)
_FORMS = "chat, FILE.py:FUNCTION, MODULE:FUNCTION or command:CMD"


class OwnAgent(Protocol):
    """An agent of the user's own, ready for units."""

    async def work_on(
        self, services: Services, unit: str, brief: Brief, *, number: int, started: PromptStarted | None
    ) -> Ticket | None:
        """Work on a unit until its boundary, or until the run ends; as `AttemptRunner.run`."""


def is_program(agent: str) -> bool:
    """Whether an agent is a program of its own, which brings its own tools."""
    return agent.startswith(COMMAND)


def absolute_agent(agent: str, base: Path = Path()) -> str:
    """An agent as it is recorded: with files named from the root, since attempts work in other directories.

    In a command these are the words with a dot or a slash, and what is in quotes, that name files which are
    there. `base` is what relative names are relative to.
    """
    if agent == CHAT:
        return agent
    if is_program(agent):
        command = agent.removeprefix(COMMAND)
        for found in reversed([*_WORD.finditer(command)]):
            name = found["quoted"] or found["word"]
            if (base / name).is_file():
                whole = found[0].replace(name, str((base / name).absolute()))
                command = command[: found.start()] + whole + command[found.end() :]
        return COMMAND + command
    home, colon, name = agent.rpartition(":")
    return f"{(base / home).absolute()}{colon}{name}" if home.endswith(".py") else agent


def files_of_command(agent: str) -> list[Path]:
    """The files that a command's words name, in their order; it was made absolute before."""
    names = [found["quoted"] or found["word"] for found in _WORD.finditer(agent.removeprefix(COMMAND))]
    return [Path(name) for name in dict.fromkeys(names) if Path(name).is_absolute() and Path(name).is_file()]


def check_agent(settings: Settings) -> None:
    """Refuse an agent that cannot be run.

    Raises:
        UsageFault: with what was found and what is expected.
    """
    agent = settings.agent
    if agent == CHAT:
        return
    if settings.api != "openai":
        raise UsageFault(f"--agent {agent} with --api {settings.api}: own agents speak OpenAI's dialect only")
    if is_program(agent):
        if not agent.removeprefix(COMMAND).strip():
            raise UsageFault("--agent command: names no command", hint="command:python agent.py")
        return
    if ":" not in agent:
        raise UsageFault(f"--agent {agent}: expected {_FORMS}")
    from ..agents.function_agent import load_function  # noqa: PLC0415 (only where a run has such an agent)

    load_function(agent)


@asynccontextmanager
async def open_agent(
    settings: Settings, marker: str, redactor: Redactor, note: Callable[[str], None]
) -> AsyncIterator[OwnAgent | None]:
    """The run's own agent, ready for units; null where it is the built-in one."""
    if settings.agent == CHAT:
        yield None
        return
    from ..agents.choice import own_agent  # noqa: PLC0415 (only where a run has such an agent)

    async with own_agent(settings, marker, redactor, note) as agent:
        yield agent
