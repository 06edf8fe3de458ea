"""Rollouts on a worker: the agent of a training run, led to its end as in the driver's own process."""

import json
import shutil
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial

import anyio
import msgspec
from anyio import to_thread

from ..batch.endpoint import open_client, prices_of
from ..batch.headers import secret_variables
from ..batch.sending import Services
from ..batch.tool_calls import ToolPlace
from ..batch.tool_sources import prepare_tools
from ..effects.containers import Containers
from ..effects.orphans import kill_orphans
from ..effects.secrets import Redactor, find_secrets
from ..errors import UsageFault
from ..tools import open_toolbox
from ..training.agents import TrainingAgent, load_agent
from ..training.blobs import write_files
from ..training.inputs import agent_digests
from ..training.places import Places
from ..training.working import AgentHands, AttemptTools, Job
from .hosting import Bench
from .link import Link
from .rollouts import RolloutExtra, RolloutWork
from .services import services_over

ServicesOf = Callable[[Link], Services | None]


class RolloutHost:
    """Works on attempts of rollouts; `services_of` makes what a session acts through."""

    def __init__(
        self,
        bench: Bench,
        extra: RolloutExtra,
        agent: TrainingAgent,
        *,
        places: Places,
        place: ToolPlace,
        services_of: ServicesOf,
    ) -> None:
        self._settings = bench.settings
        self._extra = extra
        self._agent = agent
        self._places = places
        self._place = place
        self._services_of = services_of
        self._price_of = prices_of(bench.settings)

    async def run(self, link: Link, unit: str, work: bytes) -> bytes:
        """Let the agent work to its end; what came of it."""
        given = msgspec.msgpack.decode(work, type=RolloutWork)
        hands = AgentHands(
            self._services_of(link), self._settings, self._agent, price_of=self._price_of,
            params=self._extra.config.agent.params, control=link.common.control,
            redactor=self._place.redactor, directory=self._places.attempt, marker=self._place.marker,
        )  # fmt: skip
        # For this attempt alone, so that it is gone with it.
        own = self._places.attempt(unit, given.number)
        adapter = None if given.adapter is None else own.with_name(f"{own.name}-given")
        try:
            if adapter is not None and given.adapter is not None:
                await to_thread.run_sync(write_files, adapter, given.adapter)
            job = Job(unit, given.task_id, json.loads(given.task), adapter, given.adapter_name, given.role)
            worked = await hands.work(job, given.number, carried=given.carried)
        finally:
            with anyio.CancelScope(shield=True):
                await hands.clear(unit, given.number)
                if adapter is not None:
                    await to_thread.run_sync(partial(shutil.rmtree, adapter, ignore_errors=True))
        return msgspec.msgpack.encode(worked)


@asynccontextmanager
async def open_host(bench: Bench) -> AsyncIterator[RolloutHost]:
    """All that rollouts need, as long as the context; what they started is gone afterwards.

    Raises:
        UsageFault: the agent's code is not on this node, is another one, or cannot be used here.
    """
    extra = msgspec.msgpack.decode(bench.opening.extra, type=RolloutExtra)
    check_code(extra)
    marker = bench.marker
    redactor = Redactor(find_secrets(bench.environment, *secret_variables(bench.settings)))
    containers = Containers(marker)
    places = Places(bench.directory, bench.opening.epoch)
    place = ToolPlace(places.work, marker, redactor, containers)
    try:
        async with AsyncExitStack() as stack:
            agent = await stack.enter_async_context(load_agent(extra.config, bench.note, bench.environment))
            services_of = await _open_services(bench, extra, places, place, stack)
            yield RolloutHost(bench, extra, agent, places=places, place=place, services_of=services_of)
    finally:
        with anyio.CancelScope(shield=True):
            await to_thread.run_sync(kill_orphans, marker)
            await containers.end_all()


async def _open_services(
    bench: Bench, extra: RolloutExtra, places: Places, place: ToolPlace, stack: AsyncExitStack
) -> ServicesOf:
    """What makes the services of a session; nothing, where no model is configured."""
    if not extra.with_model:
        return lambda _link: None
    settings, environment, price = bench.settings, bench.environment, bench.opening.price
    prepared = await prepare_tools(settings, environment)
    servers = f"{place.marker}/servers"
    toolbox = await stack.enter_async_context(open_toolbox(prepared, environment, marker=servers))
    client = await stack.enter_async_context(open_client(settings, environment))
    return lambda link: services_over(
        link, client, price, redactor=place.redactor,
        tools=lambda journal: AttemptTools(journal, toolbox, place, places),
    )  # fmt: skip


def check_code(extra: RolloutExtra) -> None:
    """Refuse to work with other code than the driver has.

    Raises:
        UsageFault: naming what differs, with what to do.
    """
    here = {one.name: one.sha256 for one in agent_digests(extra.config)}
    other = sorted(name for name in {*here, *extra.code} if here.get(name) != extra.code.get(name))
    if other:
        raise UsageFault(
            f"the agent's code on this node is not the driver's: {', '.join(other)}",
            "put the same files at the same paths on all nodes",
        )
