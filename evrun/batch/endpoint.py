"""Which endpoint and which model a run talks to."""

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from functools import cache

import msgspec

from ..caps import check_caps
from ..effects.llm import Endpoint, LlmClient
from ..effects.local_model import LocalModel, explain_missing
from ..errors import UsageFault
from ..prices import Price, PriceBook
from .headers import resolved_headers
from .options import api_key
from .settings import Settings
from .wire_options import LOCAL_MODEL


async def choose_model(settings: Settings, environment: Mapping[str, str]) -> Settings:
    """The settings with a model: where none was named, the endpoint's only one.

    Raises:
        UsageFault: the endpoint lists none or several; they are named.
        RunFailed: the endpoint cannot be asked.
    """
    if settings.model:
        return settings
    async with client_for(settings, environment) as client:
        names = await client.models()
    if len(names) != 1:
        listed = f"lists {len(names)}: {', '.join(names[:20])}" if names else "lists none"
        raise UsageFault(f"no model named, and {settings.base_url} {listed}", hint="choose one with --model")
    return msgspec.structs.replace(settings, model=names[0])


def check_endpoint(settings: Settings, environment: Mapping[str, str]) -> None:
    """Refuse what is known to be missing before anything is sent: a key, a part of the embedded model.

    Raises:
        UsageFault: with what to do.
    """
    if settings.model == LOCAL_MODEL:
        missing = explain_missing()
        if missing is not None:
            raise UsageFault(missing)
    key = api_key(settings, environment)
    if settings.base_url is not None:
        endpoint_of(settings, key, environment).checked_headers()


def price_of(settings: Settings) -> Price | None:
    """The price of the settings' model at their endpoint; null when it is not known."""
    return prices_of(settings)(settings.model)


def prices_of(settings: Settings) -> Callable[[str], Price | None]:
    """The price of any model at the settings' endpoint; null when it is not known."""
    prices = PriceBook(settings.prices, local_free=settings.base_url is None)
    tier = (settings.extra_body or {}).get("service_tier")
    known = tier if isinstance(tier, str) else None
    return cache(lambda model: prices.price_for(model, settings.base_url, service_tier=known))


def check_caps_hold(caps: Mapping[str, int], settings: Settings, price: Price | None) -> None:
    """Refuse caps that could not be held with these settings at this price.

    Raises:
        UsageFault: with what to do.
    """
    check_caps(
        caps,
        price,
        model=settings.model,
        max_tokens=settings.max_tokens,
        unknown_price=settings.unknown_price,
        extra_body=settings.extra_body or (),
    )


def endpoint_of(settings: Settings, key: str | None, environment: Mapping[str, str]) -> Endpoint:
    """The settings' endpoint, with its key and headers.

    Raises:
        UsageFault: a header names a variable that is not set.
    """
    assert settings.base_url is not None
    return Endpoint(settings.base_url, key, resolved_headers(settings, environment), settings.api)


def client_for(settings: Settings, environment: Mapping[str, str]) -> LlmClient:
    """A client of the settings' endpoint (which must have a URL)."""
    endpoint = endpoint_of(settings, api_key(settings, environment), environment)
    return LlmClient(
        endpoint,
        connections=settings.concurrency,
        timeout_s=settings.request_timeout,
        stream=settings.stream,
    )


@asynccontextmanager
async def open_client(settings: Settings, environment: Mapping[str, str]) -> AsyncIterator[LlmClient]:
    """The client of a run; for the embedded model its server is started first, and ended afterwards."""
    if settings.model != LOCAL_MODEL:
        async with client_for(settings, environment) as client:
            yield client
        return
    async with LocalModel(parallel=settings.concurrency) as model:
        endpoint = Endpoint(model.base_url, None, {})
        async with LlmClient(
            endpoint,
            connections=settings.concurrency,
            timeout_s=settings.request_timeout,
            stream=settings.stream,
        ) as client:
            yield client
