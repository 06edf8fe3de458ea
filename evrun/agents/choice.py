"""The run's own agent: a Python function, or a program behind the run's recording endpoint."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from eventlog.events import PromptStarted
from eventlog.storage import Ticket

from ..batch.agent_setting import COMMAND, is_program
from ..batch.brief import Brief
from ..batch.endpoint import prices_of
from ..batch.sending import Services
from ..batch.settings import Settings
from ..effects.secrets import Redactor
from ..prices import Price
from .command_agent import CommandAgent
from .endpoint import RecordingEndpoint
from .function_agent import load_function
from .runner import Agent, AgentRunner


class AgentOfRun:
    """Works on units with one agent."""

    def __init__(self, agent: Agent, price_of: Callable[[str], Price | None]) -> None:
        self._agent = agent
        self._price_of = price_of

    async def work_on(
        self, services: Services, unit: str, brief: Brief, *, number: int, started: PromptStarted | None
    ) -> Ticket | None:
        """Work on a unit until its boundary, or until the run ends."""
        runner = AgentRunner(
            services,
            unit,
            brief,
            number=number,
            started=started,
            agent=self._agent,
            price_of=self._price_of,
        )
        return await runner.run()


@asynccontextmanager
async def own_agent(
    settings: Settings, marker: str, redactor: Redactor, note: Callable[[str], None]
) -> AsyncIterator[AgentOfRun]:
    """The agent that the settings name, ready for units."""
    if not is_program(settings.agent):
        yield AgentOfRun(load_function(settings.agent), prices_of(settings))
        return
    async with RecordingEndpoint([settings.model], note) as endpoint:
        program = CommandAgent(settings.agent.removeprefix(COMMAND), endpoint, marker, redactor)
        yield AgentOfRun(program, prices_of(settings))
