"""What model calls of a training run go through: for each role its endpoint, for all of them one account."""

from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from typing import NamedTuple

import msgspec

from ..batch.control import Control
from ..batch.endpoint import open_client
from ..batch.sending import Services
from ..batch.settings import Settings, settings_record
from ..batch.tool_calls import ToolRunner
from ..budget import Budget
from ..effects.clock import CallIds
from ..effects.limiter import Limiter
from ..effects.llm import LlmClient
from ..effects.secrets import Redactor
from ..journal import Journal
from ..loop import Caller
from .bindings import Binding, Bindings


class Shared(NamedTuple):
    """What all roles have in common."""

    journal: Journal
    control: Control
    budget: Budget
    redactor: Redactor
    tools: ToolRunner
    ids: CallIds


class Roles(NamedTuple):
    """The services of each role; null where no model is configured for it."""

    agent: Services | None
    judge: Services | None
    learner: Services | None

    def under(self, control: Control) -> "Roles":
        """The same under another switch."""
        return Roles(*(None if one is None else one._replace(control=control) for one in self))


@asynccontextmanager
async def open_roles(
    bindings: Bindings, shared: Shared, environment: Mapping[str, str], *, known: bool
) -> AsyncIterator[Roles]:
    """The services of all roles, as long as the context; one client for each endpoint.

    `known` says that calls of this run were answered before.
    """
    clients: dict[bytes, tuple[LlmClient, Limiter]] = {}
    async with AsyncExitStack() as stack:
        found: list[Services | None] = []
        for binding in bindings:
            if binding is None:
                found.append(None)
                continue
            key = _endpoint_key(binding.settings)
            if key not in clients:
                client = await stack.enter_async_context(open_client(binding.settings, environment))
                limiter = Limiter(binding.settings.rpm, binding.settings.tpm)
                clients[key] = client, limiter
            found.append(_services(binding, shared, *clients[key], known=known))
        yield Roles(*found)


def _services(
    binding: Binding, shared: Shared, client: LlmClient, limiter: Limiter, *, known: bool
) -> Services:
    price = binding.price_of(binding.settings.model)
    caller = Caller(
        shared.journal, client, price, shared.redactor, shared.budget, any_success=known, ids=shared.ids
    )
    return Services(shared.journal, caller, limiter, shared.control, shared.tools, price, shared.budget)


def _endpoint_key(settings: Settings) -> bytes:
    """Settings that go to the same endpoint with the same key and headers have the same."""
    record = settings_record(settings)
    names = ("base_url", "api_key_env", "api", "headers", "stream")
    local = settings.model if settings.base_url is None else None
    return msgspec.json.encode([local, *(record[name] for name in names)], order="sorted")
