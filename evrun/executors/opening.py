"""Which executor a run has, and what it is connected to before anything is written."""

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager

from ..batch.agent_setting import open_agent
from ..batch.function_judge import open_judging
from ..batch.sending import Services
from ..batch.settings import RAY, Settings
from ..effects.secrets import Redactor
from .base import Cluster, Executor
from .local import LocalExecutor
from .prompts import open_nodes


async def connect(settings: Settings) -> Cluster | None:
    """The cluster that settings name; null where sessions run in this process.

    Raises:
        UsageFault: there is none.
    """
    if settings.executor != RAY:
        return None
    from .ray_cluster import RayCluster  # noqa: PLC0415 (only where a run wants it)

    return await RayCluster.connect(settings.ray_address)


@asynccontextmanager
async def open_executor(
    cluster: Cluster | None,
    services: Services,
    settings: Settings,
    environment: Mapping[str, str],
    *,
    marker: str,
    redactor: Redactor,
    note: Callable[[str], None],
) -> AsyncIterator[Executor]:
    """Who works on the sessions of a batch run, as long as the context."""
    if cluster is not None:
        async with open_nodes(cluster, services, settings, environment, marker=marker, note=note) as executor:
            yield executor
        return
    async with (
        open_judging(settings, redactor) as judge,
        open_agent(settings, marker, redactor, note) as agent,
    ):
        yield LocalExecutor(services._replace(judge=judge), agent)
