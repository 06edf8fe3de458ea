"""Which agent a run has: the built-in one, a Python function, or a program."""

import re
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from ..batch.settings import CHAT, Settings
from ..effects.secrets import Redactor
from ..errors import UsageFault
from .command_agent import CommandAgent
from .endpoint import RecordingEndpoint
from .function_agent import load_function
from .runner import Agent

COMMAND = "command:"
_PLAIN = re.compile(r"[A-Za-z0-9_./-]+")
_FORMS = "chat, FILE.py:FUNCTION, MODULE:FUNCTION or command:CMD"


def is_program(agent: str) -> bool:
    """Whether an agent is a program of its own, which brings its own tools."""
    return agent.startswith(COMMAND)


def absolute_agent(agent: str) -> str:
    """An agent as it is recorded: with files named from the root, since attempts work in other directories.

    In a command these are the words that are the names of files which are there.
    """
    if agent == CHAT:
        return agent
    if agent.startswith(COMMAND):
        words = re.split(r"(\s+)", agent.removeprefix(COMMAND))
        return COMMAND + "".join(
            str(Path(word).absolute()) if _PLAIN.fullmatch(word) and Path(word).is_file() else word
            for word in words
        )
    home, colon, name = agent.rpartition(":")
    return f"{Path(home).absolute()}{colon}{name}" if home.endswith(".py") else agent


def check_agent(settings: Settings) -> None:
    """Refuse an agent that cannot be run.

    Raises:
        UsageFault: with what was found and what is expected.
    """
    if settings.agent == CHAT:
        return
    if settings.api != "openai":
        raise UsageFault(
            f"--agent {settings.agent} with --api {settings.api}: own agents speak OpenAI's dialect only"
        )
    if settings.agent.startswith(COMMAND):
        if not settings.agent.removeprefix(COMMAND).strip():
            raise UsageFault(
                "--agent command: names no command", hint="for example 'command:python my_agent.py'"
            )
        return
    if ":" not in settings.agent:
        raise UsageFault(f"--agent {settings.agent}: expected {_FORMS}")
    load_function(settings.agent)


@asynccontextmanager
async def open_agent(
    settings: Settings, marker: str, redactor: Redactor, note: Callable[[str], None]
) -> AsyncIterator[Agent | None]:
    """The run's own agent, ready for attempts; null where it is the built-in one."""
    if settings.agent == CHAT:
        yield None
    elif settings.agent.startswith(COMMAND):
        async with RecordingEndpoint([settings.model], note) as endpoint:
            yield CommandAgent(settings.agent.removeprefix(COMMAND), endpoint, marker, redactor)
    else:
        yield load_function(settings.agent)
