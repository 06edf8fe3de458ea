"""What every learner is: found at the start, called step by step, and ended for certain."""

from abc import ABC, abstractmethod
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

from ..agents import AgentCalls
from ..batch.control import Control
from ..effects.secrets import Redactor
from .authoring import Access, Workspace
from .learner_result import Returned
from .learner_tools import LearnerTools

__all__ = ["Learner", "LearnerCall", "LearnerTools", "Place", "Returned"]


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


class Place(NamedTuple):
    """What all calls of a session have in common.

    `marker` is the run's, for finding what a crash left behind; `models` are those that evrun's endpoint
    offers to a learner's own client, none where no model is configured; `base` is the directory of the tasks.
    """

    marker: str
    redactor: Redactor
    control: Control
    models: list[str]
    base: Path


class Learner(ABC):
    """A learner, an async context manager: at its end all its processes are gone.

    `methods` are those of setup, bootstrap, step and finalize that it has, once it was started.
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
