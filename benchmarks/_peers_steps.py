"""Durable steps a second: what each one's way of recording a finished step allows, without a network."""

import json
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple, Protocol

from tests.runs import ROOT

from ._money import Unavailable, clean_environment
from ._money_peers import HERE, Dbos, PythonPeer

LIMIT_S = 120.0


class Stepper(Protocol):
    """One that makes steps durable."""

    name: str

    def install(self, cache: Path) -> str:
        """Make it ready; gives its name and version, or raises Unavailable."""
        ...

    def command(self, steps: int, at_once: int) -> list[str]:
        """The command that prints ``{"steps", "seconds"}``."""
        ...


class EvrunSteps:
    """The log alone; `commits` for each step."""

    def __init__(self, commits: int) -> None:
        self.name = "evrun's log" if commits == 1 else "evrun's log, intent too"
        self._commits = commits

    def install(self, _cache: Path) -> str:
        """It is here."""
        return self.name

    def command(self, steps: int, at_once: int) -> list[str]:
        """This interpreter."""
        script = str(HERE / "_peers_steps_evrun.py")
        return [sys.executable, script, str(steps), str(at_once), str(self._commits)]


class DbosSteps(Dbos):
    """DBOS's steps in workflows, its database SQLite."""

    def command(self, steps: int, at_once: int) -> list[str]:
        """Its own interpreter."""
        return [self.python, str(HERE / "_peers_steps_dbos.py"), str(steps), str(at_once)]


class LangGraphSteps(PythonPeer):
    """LangGraph's super-steps, each checkpointed by SqliteSaver before the next (`durability="sync"`)."""

    name = "LangGraph SqliteSaver"
    folder = "langgraph"
    requires = ("langgraph>=1.2", "langgraph-checkpoint-sqlite>=3.1")

    def command(self, steps: int, at_once: int) -> list[str]:
        """Its own interpreter."""
        return [self.python, str(HERE / "_peers_steps_langgraph.py"), str(steps), str(at_once)]


STEPPERS: tuple[Stepper, ...] = (EvrunSteps(1), EvrunSteps(2), DbosSteps(), LangGraphSteps())


class Pace(NamedTuple):
    """What one process said."""

    steps: int
    seconds: float

    @property
    def rate(self) -> float:
        """Steps a second."""
        return self.steps / self.seconds


def pace(stepper: Stepper, directory: Path, steps: int, at_once: int) -> Pace:
    """Run it in a new directory.

    Raises:
        Unavailable: it failed or took too long; with what it said.
    """
    directory.mkdir(parents=True)
    environment = clean_environment({"HOME": str(directory)})
    if isinstance(stepper, EvrunSteps):
        environment["PYTHONPATH"] = str(ROOT)
    try:
        done = subprocess.run(
            stepper.command(steps, at_once), cwd=directory, env=environment, stdin=subprocess.DEVNULL,
            capture_output=True, text=True, check=False, timeout=LIMIT_S,
        )  # fmt: skip
    except subprocess.TimeoutExpired as error:
        raise Unavailable(f"{stepper.name} did not end in {LIMIT_S:g} s") from error
    if done.returncode != 0:
        raise Unavailable(f"{stepper.name} ended with {done.returncode}: {done.stderr[-1000:]}")
    said = json.loads(done.stdout.splitlines()[-1])
    if said["steps"] < steps - at_once:
        raise Unavailable(f"{stepper.name} made {said['steps']} steps of {steps}")
    return Pace(said["steps"], said["seconds"])
