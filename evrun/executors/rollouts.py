"""Rollouts on workers: what the driver hands over of an attempt, and what it is given back."""

import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import NamedTuple

import msgspec
from anyio import to_thread

from ..batch.headers import secret_variables
from ..batch.sending import Services
from ..batch.settings import Settings
from ..training.agents import TrainingAgent, passed_variables
from ..training.blobs import Content, read_files
from ..training.config import TrainingConfig
from ..training.inputs import agent_digests
from ..training.outcomes import failed
from ..training.working import Job, Worked
from .base import Cluster
from .hosting import ROLLOUTS
from .losses import GivenUp
from .pool import Pool
from .post import Post
from .workers import Role, open_workers


class RolloutExtra(msgspec.Struct, frozen=True):
    """What workers on rollouts are told: the configuration, whether its agent has a model, and its code.

    `code` holds the SHA-256 of each file of the agent's by its key (``agent.name``).
    """

    config: TrainingConfig
    with_model: bool
    code: dict[str, str]


class RolloutWork(msgspec.Struct, frozen=True):
    """An attempt as it is carried: `task` as JSON, the files of its adapter (null: none)."""

    number: int
    carried: bool
    task_id: str
    task: bytes
    adapter: dict[str, Content] | None
    adapter_name: str
    role: str


class Given(NamedTuple):
    """What a session's rollouts are worked on with, as the driver knows it."""

    config: TrainingConfig
    settings: Settings
    environment: Mapping[str, str]
    marker: str
    note: Callable[[str], None]


class NodeHands:
    """Has attempts worked on by the workers of a pool. What their tools have made is gone with them."""

    def __init__(self, services: Services, settings: Settings, pool: Pool, agent: TrainingAgent) -> None:
        self._services = services
        self._settings = settings
        self._pool = pool
        self.pays_itself = agent.pays_itself

    async def work(self, job: Job, number: int, *, carried: bool) -> Worked:
        """Have an attempt worked on until its agent has ended.

        Raises:
            Lost: its worker is gone; the attempt is open still, and goes on by the rules of a resume.
            EvrunError, AppendError: the run cannot go on.
        """
        attempt = self._services.journal.state.open_attempt(job.unit)
        post = Post(
            self._services, self._settings, attempt, started=None, roles=(job.role, "judge"), ends=False
        )
        files = None if job.adapter is None else await to_thread.run_sync(read_files, job.adapter)
        work = RolloutWork(
            number, carried, job.task_id, json.dumps(job.task).encode(), files, job.adapter_name, job.role
        )
        try:
            worked = await self._pool.run(post, msgspec.msgpack.encode(work))
        except GivenUp as error:
            return Worked(failed("worker_lost", str(error)))
        return msgspec.msgpack.decode(worked, type=Worked) if worked else Worked(None)

    async def clear(self, unit: str, number: int) -> None:
        """Nothing: the worker has cleared it."""


@asynccontextmanager
async def open_node_hands(
    cluster: Cluster, services: Services, agent: TrainingAgent, given: Given, *, with_model: bool
) -> AsyncIterator[NodeHands]:
    """Those who have rollouts worked on by a cluster's workers, as long as the context.

    `services` are the driver's for the agent's role; without a model none of their calls is made.
    """
    config, settings, environment, marker, note = given
    code = {one.name: one.sha256 for one in await to_thread.run_sync(agent_digests, config)}
    extra = msgspec.msgpack.encode(RolloutExtra(config, with_model, code))
    secrets = [*secret_variables(settings), *passed_variables(config.agent.params)]
    role = Role(ROLLOUTS, config.agent.concurrency, secrets, extra)
    async with open_workers(
        cluster, services, settings, environment, role, marker=marker, note=note
    ) as workers:
        yield NodeHands(services, settings, workers, agent)
