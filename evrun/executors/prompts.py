"""Prompts on workers: what the driver hands over of a session, and where its executor is opened."""

import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import msgspec

from eventlog.storage import Ticket
from projections import Attempt

from ..batch.headers import secret_variables
from ..batch.sending import Services
from ..batch.settings import Settings
from .base import Cluster, Session
from .hosting import PROMPTS
from .losses import GivenUp
from .pool import Pool
from .post import Post
from .workers import Role, open_workers


class PromptWork(msgspec.Struct, frozen=True):
    """A session as it is carried: its row as JSON, and the toolsets that its attempt was given."""

    row: bytes
    toolsets: list[str]


class PromptExtra(msgspec.Struct, frozen=True):
    """What workers on prompts are told: the definitions of the run's tools, by toolset."""

    toolsets: dict[str, list[dict[str, Any]]]


class NodeExecutor:
    """Hands sessions to the workers of a pool. What their tools have made is gone with them."""

    def __init__(self, services: Services, settings: Settings, pool: Pool) -> None:
        self._services = services
        self._settings = settings
        self._pool = pool

    def directory_there(self, unit: str, attempt: int) -> bool:  # noqa: ARG002 (never, whatever it is)
        """Never: it was on a worker that is gone."""
        return False

    async def work_on(self, session: Session) -> Ticket | None:
        """Have a session worked on until its boundary, which is durable then, or until the run ends."""
        unit, brief, _, started = session
        journal = self._services.journal
        if started is None:
            attempt = journal.state.open_attempt(unit)
        else:
            attempt = Attempt.start(started, 0, journal.session)
        post = Post(self._services, self._settings, attempt, started=started)
        work = PromptWork(json.dumps(brief.row).encode(), attempt.toolsets)
        try:
            await self._pool.run(post, msgspec.msgpack.encode(work))
        except GivenUp as error:
            return post.fail("worker_lost", str(error))
        return None


@asynccontextmanager
async def open_nodes(
    cluster: Cluster,
    services: Services,
    settings: Settings,
    environment: Mapping[str, str],
    *,
    marker: str,
    note: Callable[[str], None],
) -> AsyncIterator[NodeExecutor]:
    """The executor whose sessions run on a cluster's workers, as long as the context."""
    toolsets = services.journal.state.batch.toolsets
    extra = msgspec.msgpack.encode(PromptExtra({name: list(tools) for name, tools in toolsets.items()}))
    role = Role(PROMPTS, settings.concurrency, secret_variables(settings), extra)
    async with open_workers(
        cluster, services, settings, environment, role, marker=marker, note=note
    ) as workers:
        yield NodeExecutor(services, settings, workers)
