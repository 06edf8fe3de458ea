"""Prompts on a worker: the same attempts, agents, tools and judges as in a run's own process."""

import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import anyio
import msgspec
from anyio import to_thread

from ..batch.agent_setting import OwnAgent, is_program, open_agent
from ..batch.briefs import Briefs
from ..batch.endpoint import open_client
from ..batch.function_judge import Judging, open_judging
from ..batch.headers import secret_variables
from ..batch.tool_calls import ToolPlace, ToolRunner
from ..batch.tool_sources import prepare_tools
from ..effects.containers import Containers
from ..effects.llm import LlmClient
from ..effects.orphans import kill_orphans
from ..effects.secrets import Redactor, find_secrets
from ..tools import Toolbox, open_toolbox
from .base import Session
from .hosting import Bench
from .link import Link
from .local import run_session
from .post import LONGEST_OUTPUT, OUTPUT
from .prompts import PromptExtra, PromptWork
from .services import services_over
from .wire import Kept
from .worker_place import remove


class PromptHost:
    """Works on attempts at prompts."""

    def __init__(
        self,
        bench: Bench,
        client: LlmClient,
        toolbox: Toolbox,
        place: ToolPlace,
        *,
        judge: Judging | None,
        agent: OwnAgent | None,
    ) -> None:
        self._bench = bench
        self._client = client
        self._toolbox = toolbox
        self._place = place
        self._judge = judge
        self._agent = agent
        self._briefs = Briefs(bench.settings)
        self._toolsets: dict[str, list[dict[str, Any]]] = msgspec.msgpack.decode(
            bench.opening.extra, type=PromptExtra
        ).toolsets

    async def run(self, link: Link, unit: str, work: bytes) -> bytes:
        """Work on an attempt until its boundary is durable, or until the run ends."""
        given = msgspec.msgpack.decode(work, type=PromptWork)
        services = services_over(
            link,
            self._client,
            self._bench.opening.price,
            redactor=self._place.redactor,
            tools=lambda journal: ToolRunner(journal, self._toolbox, self._place),
            judge=self._judge,
        )
        number = link.common.state.open_attempt(unit).attempt
        brief = self._briefs.brief(unit, json.loads(given.row), given.toolsets, self._toolsets)
        # The driver knows what begins: here the attempt is always one that stands somewhere.
        behind = await run_session(services, self._agent, Session(unit, brief, number, None))
        if behind is not None:
            await behind
        if link.common.state.take_ended(unit):
            last = link.common.state.open_attempt(unit).attempt
            for each in range(number, last + 1):
                await self._clear(link, services.tools.directory(unit, each), each)
        return b""

    async def _clear(self, link: Link, directory: Path, number: int) -> None:
        """Remove the directory of an attempt that is over; what its program has said goes to the driver."""
        output = await to_thread.run_sync(_read_output, directory / OUTPUT)
        if output is not None and is_program(self._bench.settings.agent):
            link.common.say(Kept(link.session, number, output))
        await to_thread.run_sync(remove, directory)


@asynccontextmanager
async def open_host(bench: Bench) -> AsyncIterator[PromptHost]:
    """All that attempts at prompts need, as long as the context; what they started is gone afterwards.

    Raises:
        UsageFault: a file of the run's settings is not on this node, or cannot be used here.
    """
    settings, environment = bench.settings, bench.environment
    marker = bench.marker
    prepared = await prepare_tools(settings, environment)
    secrets = find_secrets(environment, *secret_variables(settings))
    redactor = Redactor(secrets | prepared.secrets)
    containers = Containers(marker)
    try:
        async with (
            open_toolbox(prepared, environment, marker=f"{marker}/servers") as toolbox,
            open_client(settings, environment) as client,
            open_judging(settings, redactor) as judge,
            open_agent(settings, marker, redactor, bench.note) as agent,
        ):
            place = ToolPlace(bench.directory / "work", marker, redactor, containers)
            yield PromptHost(bench, client, toolbox, place, judge=judge, agent=agent)
    finally:
        with anyio.CancelScope(shield=True):
            await to_thread.run_sync(kill_orphans, marker)
            await containers.end_all()


def _read_output(file: Path) -> bytes | None:
    """What a program has said; null where there is nothing, or something else has been put there."""
    with suppress(OSError):
        descriptor = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        with os.fdopen(descriptor, "rb") as opened:
            return opened.read(LONGEST_OUTPUT)
    return None
