"""The workers of one role on a cluster: what they are told first, and how many there are."""

from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from typing import NamedTuple

import msgspec

from ..batch.sending import Services
from ..batch.settings import Settings, settings_record
from ..versions import versions
from .base import Cluster
from .hosting import Opening
from .pool import Pool, open_pool


class Role(NamedTuple):
    """What workers are for: the kind of their sessions, how many at once, what they need beside the settings.

    `secrets` are variables of the environment, which go with what a worker is told and nowhere else.
    """

    kind: str
    concurrency: int
    secrets: Iterable[str]
    extra: bytes


@asynccontextmanager
async def open_workers(
    cluster: Cluster,
    services: Services,
    settings: Settings,
    environment: Mapping[str, str],
    role: Role,
    *,
    marker: str,
    note: Callable[[str], None],
) -> AsyncIterator[Pool]:
    """Workers for a role, as long as the context. `services` are the driver's."""
    secrets = {name: environment[name] for name in role.secrets if name in environment}
    record, number = settings_record(settings), services.journal.session

    def opening(worker: int) -> bytes:
        told = Opening(
            role.kind, marker, number, worker, record, secrets, services.price, versions(), role.extra
        )
        return msgspec.msgpack.encode(told)

    pool = Pool(
        cluster,
        opening,
        role.concurrency,
        control=services.control,
        limiter=services.limiter,
        note=note,
    )
    async with open_pool(pool):
        yield pool
