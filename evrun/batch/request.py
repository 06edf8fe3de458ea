"""A request to a model: the exact bytes that go on the wire, made from settings and messages. Pure.

The same settings and messages give the same bytes, so a recorded digest proves that a rebuilt request is
the one that was sent.
"""

import json
from functools import lru_cache
from typing import Any
from urllib.parse import urlsplit

import msgspec

from projections import with_own_fields

from .request_anthropic import anthropic_request
from .settings import Settings

FREE_CHOICES = frozenset({"auto", "none"})
"""The tool choices that leave it to the model to come to an end."""


def request_body(
    settings: Settings,
    messages: list[dict[str, Any]],
    tools: list[dict[str, Any]],
    seed: int | None,
    row: dict[str, Any] | None = None,
) -> bytes:
    """The JSON body of one request for an answer, in the dialect of the settings' endpoint.

    A tool choice that forces a call is asked for until there is a result: forced again and again, a model
    could never come to an end. Where `row` is a batch line, its own fields take the place of the settings'.
    """
    choice = settings.tool_choice
    if choice not in FREE_CHOICES and messages and messages[-1].get("role") == "tool":
        choice = None
    if settings.api == "anthropic":
        body = anthropic_request(settings, messages, tools, choice)
    else:
        body = _openai_request(settings, messages, tools, choice) | _sampling(settings, seed)
    body |= settings.extra_body or {}
    body = body if row is None else with_own_fields(body, row)
    try:
        return msgspec.json.encode(body)
    except UnicodeEncodeError:
        # Only the standard library writes a lone surrogate, as the escape it came as.
        return json.dumps(body, default=_plain).encode()


def unit_seed(settings: Settings, occurrence: int, sample: int) -> int | None:
    """The seed that a unit sends: the run's own, or for a repeat of a row another one."""
    if settings.seed is None:
        return None
    return settings.seed + (sample - 1) + 1000 * (occurrence - 1)


def endpoint_host(settings: Settings) -> str:
    """Where calls go, for the record: host and port, or "local" for the embedded model."""
    return _netloc(settings.base_url) if settings.base_url else "local"


def _plain(value: object) -> Any:
    """A value that only msgspec writes: JSON text that was kept as it is."""
    assert isinstance(value, msgspec.Raw)
    return json.loads(bytes(value))


def _openai_request(
    settings: Settings, messages: list[dict[str, Any]], tools: list[dict[str, Any]], choice: str | None
) -> dict[str, Any]:
    body: dict[str, Any] = {"model": settings.model, "messages": messages}
    if tools:
        body["tools"] = [{"type": "function", "function": tool} for tool in tools]
    if tools and choice is not None:
        named = {"type": "function", "function": {"name": choice}}
        body["tool_choice"] = choice if choice in {*FREE_CHOICES, "required"} else named
    if settings.response_format is not None:
        body["response_format"] = settings.response_format
    if settings.stream:
        body |= {"stream": True, "stream_options": {"include_usage": True}}
    return body


def _sampling(settings: Settings, seed: int | None) -> dict[str, Any]:
    # OpenAI's own endpoint counts reasoning into the output cap only under the newer name.
    cap = "max_completion_tokens" if _is_at(settings, "api.openai.com") else "max_tokens"
    values = {
        cap: settings.max_tokens,
        "temperature": settings.temperature,
        "top_p": settings.top_p,
        "seed": seed,
    }
    given = {name: value for name, value in values.items() if value is not None}
    return given | _reasoning(settings) | _routing(settings)


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
    name = _hostname(settings.base_url or "")
    return name == host or name.endswith("." + host)


@lru_cache(maxsize=64)
def _netloc(url: str) -> str:
    return urlsplit(url).netloc.rpartition("@")[2]


@lru_cache(maxsize=64)
def _hostname(url: str) -> str:
    return urlsplit(url).hostname or ""
