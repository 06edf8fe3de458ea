"""A request to a model: the exact bytes that go on the wire, made from settings and messages. Pure.

The same settings and messages give the same bytes, so a recorded digest proves that a rebuilt request is
the one that was sent.
"""

import json
from typing import Any
from urllib.parse import urlsplit

import msgspec

from .settings import Settings


def request_body(
    settings: Settings, messages: list[dict[str, Any]], tools: list[dict[str, Any]], seed: int | None
) -> bytes:
    """The JSON body of one chat completion request."""
    body: dict[str, Any] = {"model": settings.model, "messages": messages}
    if tools:
        body["tools"] = [{"type": "function", "function": tool} for tool in tools]
    body |= (
        _sampling(settings, seed) | _reasoning(settings) | _routing(settings) | (settings.extra_body or {})
    )
    try:
        return msgspec.json.encode(body)
    except UnicodeEncodeError:
        # Only the standard library writes a lone surrogate, as the escape it came as.
        return json.dumps(body).encode()


def unit_seed(settings: Settings, occurrence: int, sample: int) -> int | None:
    """The seed that a unit sends: the run's own, or for a repeat of a row another one."""
    if settings.seed is None:
        return None
    return settings.seed + (sample - 1) + 1000 * (occurrence - 1)


def endpoint_host(settings: Settings) -> str:
    """Where calls go, for the record: host and port, or "local" for the embedded model."""
    return urlsplit(settings.base_url).netloc.rpartition("@")[2] if settings.base_url else "local"


def _sampling(settings: Settings, seed: int | None) -> dict[str, Any]:
    # OpenAI's own endpoint counts reasoning into the output cap only under the newer name.
    cap = "max_completion_tokens" if _is_at(settings, "api.openai.com") else "max_tokens"
    values = {
        cap: settings.max_tokens,
        "temperature": settings.temperature,
        "top_p": settings.top_p,
        "seed": seed,
    }
    return {name: value for name, value in values.items() if value is not None}


def _reasoning(settings: Settings) -> dict[str, Any]:
    effort = "none" if settings.reasoning_disabled else settings.reasoning_effort
    if effort is None:
        return {}
    if _is_at(settings, "openrouter.ai"):
        return {"reasoning": {"enabled": False} if effort == "none" else {"enabled": True, "effort": effort}}
    return {"reasoning_effort": effort}


def _routing(settings: Settings) -> dict[str, Any]:
    values = {
        "only": settings.providers_allowed,
        "ignore": settings.providers_ignored,
        "order": settings.providers_order,
        "sort": settings.provider_sort,
    }
    given = {name: value for name, value in values.items() if value is not None}
    return {"provider": given} if given else {}


def _is_at(settings: Settings, host: str) -> bool:
    """Whether the endpoint is this host, at any port, or one below it."""
    name = urlsplit(settings.base_url or "").hostname or ""
    return name == host or name.endswith("." + host)
