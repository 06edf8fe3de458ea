"""Backends: the endpoints that ``BACKEND/MODEL`` names, built in or of the user's own. Pure."""

import difflib
import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from ..batch.wire_options import LOCAL_MODEL
from ..errors import UsageFault
from ..prices import parse_price
from .overrides import price_text

BUILT_IN: dict[str, dict[str, Any]] = {
    "openai": {"base_url": "https://api.openai.com/v1", "api_key_env": "OPENAI_API_KEY"},
    "anthropic": {"base_url": "https://api.anthropic.com/v1", "api_key_env": "ANTHROPIC_API_KEY"},
    "fireworks": {"base_url": "https://api.fireworks.ai/inference/v1", "api_key_env": "FIREWORKS_API_KEY"},
    "deepseek": {"base_url": "https://api.deepseek.com", "api_key_env": "DEEPSEEK_API_KEY"},
    "vllm": {
        "base_url": "http://127.0.0.1:8000/v1",
        "api_key_env": "VLLM_API_KEY",
        "key_required": False,
    },
    "sglang": {
        "base_url": "http://127.0.0.1:30000/v1",
        "api_key_env": "SGLANG_API_KEY",
        "key_required": False,
    },
    "ollama": {
        "base_url": "http://127.0.0.1:11434/v1",
        "api_key_env": "OLLAMA_API_KEY",
        "key_required": False,
    },
}
"""All of them speak OpenAI's chat dialect, which is what agents, judges and learners are asked in."""

_KINDS: dict[str, type | tuple[type, ...]] = {
    "from": str,
    "base_url": str,
    "api_key_env": str,
    "key_required": bool,
    "apis": list,
    "prices": dict,
    "extra_body": dict,
    "models": dict,
    "messages_url": str,
    "litellm": str,
    "context_window": int,
    "developer_role": (str, bool),
    "description": str,
}
KNOWN_FIELDS = tuple(_KINDS)
"""What a backend may say."""


class Backend(NamedTuple):
    """An endpoint and a model of it. `base_url` null: the embedded model. `where` names its key in messages.

    `key_required` null: only where the endpoint is not on this machine. `prices` are ``MODEL=INPUT,OUTPUT``.
    """

    where: str
    model: str
    base_url: str | None
    api_key_env: str = ""
    key_required: bool | None = None
    prices: tuple[str, ...] = ()
    extra_body: Mapping[str, Any] = MappingProxyType({})


def check_backends(backends: Mapping[str, Mapping[str, Any]]) -> None:
    """Refuse what a backend cannot say.

    Raises:
        UsageFault: an unknown key, a value of another type, a backend without an address.
    """
    for name, given in backends.items():
        key = f"backends.{name}"
        if not name or "/" in name or name == LOCAL_MODEL:
            raise UsageFault(f"{key}: {name!r} cannot name a backend", "expected a name without '/'")
        _check_fields(key, given, _KINDS)
        if not _merged(name, backends, ()).get("base_url"):
            raise UsageFault(f"{key}.base_url is missing", "for example base_url: http://127.0.0.1:8000/v1")
        for part in ("extra_body", "prices", "models"):
            if not isinstance(given.get(part) or {}, dict):
                raise UsageFault(f"{key}.{part}: expected a map")
        for model, price in (given.get("prices") or {}).items():
            checked_price(price_text(str(model), _amounts(price), key), f"{key}.prices")
        for alias, model in (given.get("models") or {}).items():
            if not isinstance(model, str):
                raise UsageFault(f"{key}.models.{alias}: expected the name of a model, found {model!r}")


def names_a_model(
    ref: str, backends: Mapping[str, Mapping[str, Any]], environment: Mapping[str, str]
) -> bool:
    """Whether there is an endpoint for a reference."""
    name, slash, rest = ref.partition("/")
    return bool(
        ref == LOCAL_MODEL
        or (slash and rest and (name in backends or name in BUILT_IN))
        or environment.get("OPENAI_BASE_URL")
    )


def backend_of(
    ref: str, where: str, backends: Mapping[str, Mapping[str, Any]], environment: Mapping[str, str]
) -> Backend:
    """The endpoint and the model that a reference names: ``local``, ``BACKEND/MODEL``, or a model alone.

    A model alone is one of the endpoint in OPENAI_BASE_URL.

    Raises:
        UsageFault: no such backend, or one that cannot be asked.
    """
    if ref == LOCAL_MODEL:
        return Backend(where, LOCAL_MODEL, None)
    name, slash, rest = ref.partition("/")
    if slash and rest and (name in backends or name in BUILT_IN):
        return _backend(name, rest, backends, environment)
    if not names_a_model(ref, backends, environment):
        known = ", ".join(sorted({*backends, *BUILT_IN}))
        near = difflib.get_close_matches(name, {*backends, *BUILT_IN}, n=1) if slash else []
        raise UsageFault(
            f"{where}: {ref!r} names no backend, and OPENAI_BASE_URL is not set",
            f"did you mean {near[0]}/{rest}?"
            if near
            else f"write BACKEND/MODEL with one of {known}, or add one under backends; or local",
        )
    return Backend("OPENAI_BASE_URL", ref, environment["OPENAI_BASE_URL"], "OPENAI_API_KEY")


def ad_hoc_backend(llm: Mapping[str, Any]) -> Backend:
    """The endpoint that the key `llm` describes by itself.

    Raises:
        UsageFault: something is missing or of another type.
    """
    if not isinstance(llm.get("model"), str):
        raise UsageFault("llm.model is missing", "name the model")
    model, price = llm["model"], llm.get("price")
    prices = (checked_price(price_text(model, _amounts(price), "llm"), "llm.price"),) if price else ()
    return Backend(
        "llm", model, llm["base_url"], llm.get("api_key_env") or "",
        bool(llm.get("api_key_env")) or False, prices,
    )  # fmt: skip


def check_llm(llm: Mapping[str, Any]) -> None:
    """Refuse what the key `llm` cannot say.

    Raises:
        UsageFault: naming the key.
    """
    kinds: dict[str, type | tuple[type, ...]] = {
        "base_url": str, "model": str, "api_key_env": str, "price": (dict, str, list), "extra_body": dict,
        "max_tokens": int,
    }  # fmt: skip
    _check_fields("llm", llm, kinds)
    alone = [name for name in ("api_key_env", "price") if llm.get(name) and not llm.get("base_url")]
    if alone:
        raise UsageFault(f"llm.{alone[0]} goes with llm.base_url", "say it in backends otherwise")


def checked_price(text: str, where: str) -> str:
    """A ``MODEL=INPUT,OUTPUT[,CACHED]``, as it is.

    Raises:
        UsageFault: it is something else.
    """
    try:
        parse_price(text)
    except UsageFault as error:
        raise UsageFault(
            f"{where}: {text!r}: {str(error).rpartition(': ')[2].removeprefix('--price ')}",
            "expected MODEL=INPUT,OUTPUT[,CACHED] in USD per million tokens, or "
            "{MODEL: {input: …, output: …}}",
        ) from error
    return text


def _backend(
    name: str, model: str, backends: Mapping[str, Mapping[str, Any]], environment: Mapping[str, str]
) -> Backend:
    found = _merged(name, backends, ())
    where = f"backends.{name}"
    apis = found.get("apis")
    if apis is not None and "chat" not in apis:
        raise UsageFault(
            f"{where}.apis: {apis} has no chat, and that is the dialect that evrun asks in",
            "add chat if the endpoint has chat/completions; or use another backend",
        )
    models = found.get("models") or {}
    prices = tuple(
        checked_price(price_text(str(models.get(one, one)), _amounts(price), where), f"{where}.prices")
        for one, price in (found.get("prices") or {}).items()
    )
    moved = environment.get(f"{re.sub(r'[^A-Z0-9]', '_', name.upper())}_BASE_URL")
    return Backend(
        where, models.get(model, model), moved or found["base_url"], found.get("api_key_env") or "",
        found.get("key_required"), prices, dict(found.get("extra_body") or {}),
    )  # fmt: skip


def _merged(name: str, backends: Mapping[str, Mapping[str, Any]], seen: tuple[str, ...]) -> dict[str, Any]:
    """A backend's fields over those of the one it is made `from`, or of the built-in one of its name."""
    if name in seen:
        raise UsageFault(f"backends.{name}.from: leads back to itself: {' -> '.join((*seen, name))}")
    given = dict(backends.get(name, {}))
    source = given.pop("from", None)
    if source is not None and source != name:
        if source not in backends and source not in BUILT_IN:
            near = difflib.get_close_matches(source, {*backends, *BUILT_IN}, n=1)
            raise UsageFault(
                f"backends.{name}.from: there is no backend {source!r}",
                f"did you mean {near[0]}?" if near else f"built in are {', '.join(BUILT_IN)}",
            )
        return {**_merged(source, backends, (*seen, name)), **given}
    return {**BUILT_IN.get(name, {}), **given}


def _check_fields(key: str, given: Any, kinds: Mapping[str, type | tuple[type, ...]]) -> None:
    if not isinstance(given, Mapping):
        raise UsageFault(f"{key}: expected a map, found {given!r}")
    for name, value in given.items():
        if name not in kinds:
            if name in {"api_key", "key", "token"}:
                raise UsageFault(
                    f"{key}.{name}: a key does not belong into a file", "name its variable: api_key_env"
                )
            near = difflib.get_close_matches(name, kinds, n=1)
            hint = f"did you mean {near[0]}?" if near else f"known are {', '.join(kinds)}"
            raise UsageFault(f"unknown key {key}.{name}", hint)
        wrong_bool = isinstance(value, bool) and kinds[name] is int
        if value is not None and (not isinstance(value, kinds[name]) or wrong_bool):
            raise UsageFault(f"{key}.{name}: found {value!r}", "docs/training-config.md tells what it takes")


def _amounts(price: Any) -> Any:
    """Prices as they were written, as far as a number in binary can say."""
    if isinstance(price, Mapping):
        return {name: None if value is None else _amount(value) for name, value in price.items()}
    return [_amount(value) for value in price] if isinstance(price, list) else price


def _amount(value: Any) -> str:
    return value if isinstance(value, str) else repr(value)
