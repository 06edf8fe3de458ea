"""Sessions in this process: on the loop that also writes the log."""

from eventlog.events import PromptFailed
from eventlog.storage import Ticket

from ..batch.agent_setting import OwnAgent
from ..batch.attempt import AttemptRunner
from ..batch.sending import Services
from .base import Session


class LocalExecutor:
    """Works on sessions with one set of services. `agent` is null for the built-in one."""

    def __init__(self, services: Services, agent: OwnAgent | None = None) -> None:
        self._services = services
        self._agent = agent

    def directory_there(self, unit: str, attempt: int) -> bool:
        """Whether the attempt's directory is on this machine."""
        return self._services.tools.directory(unit, attempt).is_dir()

    async def work_on(self, session: Session) -> Ticket | None:
        """Work on a session until its boundary, or until the run is told to end."""
        return await run_session(self._services, self._agent, session)


async def run_session(services: Services, agent: OwnAgent | None, session: Session) -> Ticket | None:
    """Work on a session; a row that wants a container must not run on the host instead."""
    unit, brief, number, started = session
    refusal = await services.tools.refusal(brief.row)
    if refusal is None and agent is not None:
        return await agent.work_on(services, unit, brief, number=number, started=started)
    if refusal is None:
        return await AttemptRunner(services, unit, brief, started).run()
    failed = PromptFailed(
        unit, number, refusal.error_class, refusal.message, None, retryable=refusal.retryable
    )
    await services.journal.record(*([] if started is None else [started]), failed)
    return None
