"""The learner of a run: found at the start, called step by step, and ended for certain."""

import sys
from abc import ABC, abstractmethod
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Protocol, Self

from eventlog.events import LearnerUsage

from ..agents import AgentCalls
from ..batch.control import Control
from ..effects.secrets import Redactor
from .authoring import Access, Workspace
from .config import TrainingConfig

COMMAND = "command:"
METHODS = ("setup", "bootstrap", "step", "finalize")
BUILT_IN = {
    "reflect": "evrun.training.reflect:Reflect",
    "gepa": "evrun.training.gepa_evolver:Gepa",
}


class LearnerCall(NamedTuple):
    """One call of the learner: `call` is "setup", "bootstrap", "step" or "finalize"."""

    call: str
    unit: str
    step: int
    epoch: int
    is_epoch_end: bool
    attempt: int
    workspace: Workspace
    access: Access
    message: str
    session: str | None
    params: dict[str, Any]
    timeout_s: float


class Returned(NamedTuple):
    """How a call ended. Where `in_order` is false it died, was stopped at its deadline, or gave nonsense.

    Its files do not count then, and `status` is "failed", with `error` saying why. `extra` is any JSON value;
    of `finalize` it is ``{"step": N}`` where the learner chose a step's adapter, and `summary` is its text.

    With `paused` the run is ending and the call is not over: nothing is to be recorded of its end, and the
    next session calls again under the same number. With `diverged` it asked something else than an earlier
    session had recorded: the attempt is superseded, and the next number begins anew.
    """

    status: str
    summary: str
    rationale: str
    session: str | None
    usage: list[LearnerUsage]
    extra: Any
    error: str | None
    in_order: bool
    paused: bool = False
    diverged: bool = False


class LearnerTools(Protocol):
    """What a learner may ask of the run while it works; see `learner_tools.RunTools`."""

    def describe(self) -> list[dict[str, Any]]:
        """The tools that there are: name, description, source, input_schema, output_schema."""

    async def invoke(self, name: str, arguments: dict[str, Any]) -> Any:
        """Run one of them; raises `ToolError` where it cannot do what it was asked."""


class Place(NamedTuple):
    """What all calls of a session have in common.

    `marker` is the run's, for finding what a crash left behind; `models` are those that evrun's endpoint
    offers to a learner's own client, none where no model is configured; `base` is run.yaml's directory.
    """

    marker: str
    redactor: Redactor
    control: Control
    models: list[str]
    base: Path


class Learner(ABC):
    """A learner, an async context manager: at its end all its processes are gone.

    `methods` are those of `METHODS` that it has, once it was started.
    """

    methods: frozenset[str] = frozenset()

    @abstractmethod
    async def start(self) -> None:
        """Find it, before anything is spent or changed.

        Raises:
            UsageFault: there is none, or it cannot be used; with the place and what to do.
        """

    @abstractmethod
    async def call(self, call: LearnerCall, tools: LearnerTools, ask: AgentCalls | None) -> Returned:
        """Call it, and come back at the latest when `timeout_s` is over.

        What it does wrong is in what comes back; only what the run has to know is raised: a log that cannot
        be written.
        """

    @abstractmethod
    def kill(self) -> None:
        """End all its processes at once."""

    @abstractmethod
    async def close(self) -> None:
        """End all its processes, and wait for them."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()


def load_learner(config: TrainingConfig, place: Place) -> Learner:
    """The learner that ``evolver.name`` names, not yet started.

    Raises:
        UsageFault: the name is of no form that there is.
    """
    raise NotImplementedError(sys.version)
