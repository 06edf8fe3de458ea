"""Where a session has its rollouts worked on: in this process, or on the nodes of a cluster."""

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
from anyio import to_thread

from ..batch.endpoint import prices_of
from ..batch.sending import Services
from ..batch.settings import Settings
from ..batch.wire_options import LOCAL_MODEL
from ..effects.limiter import Limiter
from ..effects.llm import Endpoint, LlmClient
from ..errors import UsageFault
from ..loop import Caller
from .bindings import Binding
from .config import TrainingConfig
from .opening import Prepared
from .services import Shared
from .working import AgentHands, Hands

RAY = "ray"
_NOWHERE = "http://127.0.0.1:9/v1"


@asynccontextmanager
async def open_hands(
    prepared: Prepared,
    shared: Shared,
    services: Services | None,
    environment: Mapping[str, str],
    *,
    directory: Callable[[str, int], Path],
    marker: str,
    note: Callable[[str], None],
) -> AsyncIterator[Hands]:
    """Those who work on a session's rollouts, as long as the context.

    `services` are those of the agent's role, null where it has no model; `directory` is where an attempt
    works that is worked on here.

    Raises:
        UsageFault: Ray is not installed, or there is no cluster.
    """
    config = prepared.config
    settings = settings_of(prepared.bindings.agent, config)
    if config.trainer.executor != RAY:
        yield AgentHands(
            services, settings, prepared.agent, price_of=prices_of(settings), params=config.agent.params,
            control=shared.control, redactor=shared.redactor, directory=directory, marker=marker,
        )  # fmt: skip
        return
    if settings.model == LOCAL_MODEL:
        raise UsageFault(
            "trainer.executor ray with model local: the embedded model runs in this process alone",
            "name an endpoint that all nodes reach",
        )
    # It takes a while to import, and only who wants it needs it.
    from ..executors.ray_cluster import RayCluster  # noqa: PLC0415
    from ..executors.rollouts import Given, open_node_hands  # noqa: PLC0415

    cluster = await RayCluster.connect(config.trainer.ray_address)
    try:
        nodes = await cluster.places() or []
        note(f"rollouts on a Ray cluster: {len(nodes)} nodes, {sum(node.cpus for node in nodes)} CPUs")
        given = Given(config, settings, environment, marker, note)
        model = services is not None
        driver = services or _without_a_model(shared)
        async with open_node_hands(cluster, driver, prepared.agent, given, with_model=model) as hands:
            yield hands
    finally:
        with anyio.CancelScope(shield=True):
            await to_thread.run_sync(cluster.close)


def settings_of(binding: Binding | None, config: TrainingConfig) -> Settings:
    """The settings that an agent's attempts are under, with or without a model."""
    if binding is not None:
        return binding.settings
    minutes = config.agent.timeout_min
    return Settings(dataset="", model="", prompt_timeout=3600.0 if minutes is None else minutes * 60)


def _without_a_model(shared: Shared) -> Services:
    """What the driver serves workers with whose agent asks no model of evrun's: nothing is ever sent."""
    client = LlmClient(Endpoint(_NOWHERE), connections=1, timeout_s=1.0)
    caller = Caller(shared.journal, client, None, shared.redactor, shared.budget, ids=shared.ids)
    limiter = Limiter(None, None)
    return Services(shared.journal, caller, limiter, shared.control, shared.tools, None, shared.budget)
