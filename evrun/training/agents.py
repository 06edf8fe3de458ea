"""Who works on tasks: `chat`, a function of the user's own, or a program."""

from types import TracebackType
from typing import Protocol, Self

from ..agents import AgentCalls
from .agent_context import Given, NoCalls
from .authoring import RunOutput
from .config import TrainingConfig


class TrainingAgent(Protocol):
    """Works on attempts while its context is open.

    `pays_itself`: what it reports to have spent counts. `needs_model`: it can do nothing without one.
    """

    pays_itself: bool
    needs_model: bool

    async def __aenter__(self) -> Self:
        """Ready to work."""

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Nothing of it is left."""

    async def run(self, calls: AgentCalls | NoCalls, given: Given) -> RunOutput:
        """Work on an attempt; whatever it raises is the attempt's error. May be cancelled."""


def load_agent(config: TrainingConfig) -> TrainingAgent:
    """The agent that the configuration names; `async with` it before it works.

    Raises:
        UsageFault: no such file, module, function or form; with what to do.
    """
    raise NotImplementedError
