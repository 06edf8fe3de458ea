"""Which models a run's parts ask, where, and at what price."""

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from ..batch.endpoint import prices_of
from ..batch.settings import REASONING_EFFORTS, Settings
from ..batch.wire_options import LOCAL_MODEL, check_wire
from ..effects.llm_endpoint import Endpoint
from ..effects.local_model import explain_missing
from ..errors import UsageFault
from ..prices import Price
from .backends import Backend, ad_hoc_backend, backend_of, names_a_model
from .config import CHAT, TrainingConfig
from .config_checks import LEARNERS, LLM_JUDGE
from .params import ASKING, CHATTING, JUDGING, OWN, options

PATIENCE_S = 3600.0
"""How long a rollout may take where nothing is said."""
JUDGE_PATIENCE_S = 600.0
REQUEST_S = 120.0
LONG_REQUEST_S = 600.0
"""Learners think long, and the embedded model shares this machine's cores."""
OWN_CALLS = 250
LEARNER_CALLS = 10_000
LEARNER_CONNECTIONS = 8

_OPTION = re.compile(r"--([a-z][a-z-]*)")


class Binding(NamedTuple):
    """How one part of a run asks models: as settings of a batch run, and the price of each model there."""

    settings: Settings
    price_of: Callable[[str], Price | None]


class Bindings(NamedTuple):
    """The bindings of a run's parts; null where one has no model."""

    agent: Binding | None
    judge: Binding | None
    learner: Binding | None


def bindings_of(config: TrainingConfig, environment: Mapping[str, str]) -> Bindings:
    """The bindings of all parts.

    Raises:
        UsageFault: as `agent_binding`.
    """
    return Bindings(
        agent_binding(config, environment),
        judge_binding(config, environment),
        learner_binding(config, environment),
    )


def agent_binding(config: TrainingConfig, environment: Mapping[str, str]) -> Binding | None:
    """How the agent asks models; null where no model is configured.

    Raises:
        UsageFault: an unknown backend, a key that is not set, a parameter that cannot be honoured.
    """
    params, chat = config.agent.params, config.agent.name == CHAT
    own = _model(config, "agent", environment, strict=chat)
    ref = own or config.model
    if ref is None:
        if chat:
            raise UsageFault(
                "agent.name: chat needs a model", "set model, or agent.params.model: BACKEND/MODEL"
            )
        return None
    where = "agent.params.model" if own is not None else "model"
    backend = backend_of(ref, where, config.backends, environment)
    minutes = config.agent.timeout_min
    asking = options("agent.params", params, CHATTING if chat else OWN, strict=chat)
    values = {
        "max_turns": 10 if chat else OWN_CALLS,
        "toolsets": [Path(file).stem for file in asking.get("tools", [])],
        "concurrency": config.agent.concurrency,
        "prompt_timeout": PATIENCE_S if minutes is None else 60 * minutes,
        **asking,
    }
    return _bound(config, "agent.params", backend, values, environment)


def judge_binding(config: TrainingConfig, environment: Mapping[str, str]) -> Binding | None:
    """How the built-in judge `llm` asks its model; null for every other judge.

    Raises:
        UsageFault: as `agent_binding`.
    """
    if config.judge.path is not None or config.judge.name != LLM_JUDGE:
        return None
    params = config.judge.params
    ref = _model(config, "judge", environment, strict=True) or config.model
    if ref is None:
        raise UsageFault("judge.name: llm needs a model", "set model, or judge.params.model: BACKEND/MODEL")
    where = "judge.params.model" if params.get("model") is not None else "model"
    backend = backend_of(ref, where, config.backends, environment)
    minutes = config.judge.timeout_min
    values = {
        "toolsets": [],
        "concurrency": config.agent.concurrency,
        "prompt_timeout": JUDGE_PATIENCE_S if minutes is None else 60 * minutes,
        **options("judge.params", params, JUDGING, strict=True),
    }
    return _bound(config, "judge.params", backend, values, environment)


def learner_binding(config: TrainingConfig, environment: Mapping[str, str]) -> Binding | None:
    """How the learner's `llm` tool asks models; null where no model is configured.

    For a built-in learner ``evolver.params.model`` counts most, for others the key `llm`.

    Raises:
        UsageFault: as `agent_binding`.
    """
    params, built_in = config.evolver.params, config.evolver.name in LEARNERS
    own = _model(config, "evolver", environment, strict=built_in)
    llm: dict[str, Any] = config.llm if isinstance(config.llm, dict) else {"model": config.llm}
    if own is not None and (built_in or not llm.get("model")):
        backend = backend_of(own, "evolver.params.model", config.backends, environment)
    elif llm.get("base_url"):
        backend = ad_hoc_backend(llm)
    else:
        ref = llm.get("model") or config.model
        if ref is None:
            if built_in:
                hint = "set model, llm, or evolver.params.model: BACKEND/MODEL"
                raise UsageFault(f"evolver.name: {config.evolver.name} needs a model", hint)
            return None
        where = "llm" if llm.get("model") else "model"
        backend = backend_of(ref, where, config.backends, environment)
    asking = options("evolver.params", params, ASKING if built_in else OWN, strict=built_in)
    extra = {**(llm.get("extra_body") or {}), **asking.pop("extra_body", {})}
    given = {"max_tokens": llm["max_tokens"]} if llm.get("max_tokens") is not None else {}
    values = {
        "max_turns": LEARNER_CALLS,
        "toolsets": [],
        "concurrency": LEARNER_CONNECTIONS,
        "request_timeout": LONG_REQUEST_S,
        "prompt_timeout": 60 * config.trainer.call_timeout_min,
        **given,
        **asking,
        "extra_body": extra,
    }
    return _bound(config, "evolver.params" if built_in else "llm", backend, values, environment)


def _model(config: TrainingConfig, part: str, environment: Mapping[str, str], *, strict: bool) -> str | None:
    """A part's parameter `model`. In those of the user's own code it may be anything, and evrun's or not."""
    value = getattr(config, part).params.get("model")
    if not isinstance(value, str) or not value:
        if value is not None and strict:
            raise UsageFault(f"{part}.params.model: expected BACKEND/MODEL, found {value!r}")
        return None
    return value if strict or names_a_model(value, config.backends, environment) else None


def _bound(
    config: TrainingConfig,
    where: str,
    backend: Backend,
    values: dict[str, Any],
    environment: Mapping[str, str],
) -> Binding:
    local = backend.base_url is None
    if backend.base_url is not None:
        with _told_by_key(where, backend):
            Endpoint(backend.base_url).url("")
    extra = {**backend.extra_body, **(values.pop("extra_body", None) or {})}
    defaults = {"request_timeout": LONG_REQUEST_S if local else REQUEST_S}
    settings = msgspec.convert(
        {
            "dataset": "",
            "model": backend.model,
            "base_url": backend.base_url,
            "api_key_env": _key_variable(backend, environment),
            "prices": [*backend.prices, *_named_here(config.prices, backend)],
            "unknown_price": config.unknown_price,
            "extra_body": extra or None,
            **defaults,
            **values,
        },
        Settings,
    )
    _check(settings, where, backend)
    return Binding(settings, prices_of(settings))


def _key_variable(backend: Backend, environment: Mapping[str, str]) -> str:
    """The variable that holds the key; empty where there is none, and none is needed.

    Raises:
        UsageFault: the key is needed, and not there.
    """
    name = backend.api_key_env
    if name and environment.get(name):
        return name
    if backend.base_url is None or backend.key_required is False:
        return ""
    if backend.key_required or not Endpoint(backend.base_url).is_loopback:
        if not name:
            raise UsageFault(
                f"{backend.where}.api_key_env is missing", "name the variable, or set key_required: false"
            )
        raise UsageFault(
            f"{backend.where}: no API key: the environment variable {name} is not set",
            f"export {name}=…, name another variable with api_key_env, or set key_required: false",
        )
    return ""


def _named_here(prices: list[str], backend: Backend) -> list[str]:
    """Prices under the model's own name, where the reference with its backend was written."""
    name = backend.where.rpartition(".")[2]
    whole = f"{name}/{backend.model}="
    return [price.removeprefix(f"{name}/") if price.startswith(whole) else price for price in prices]


def _check(settings: Settings, where: str, backend: Backend) -> None:
    if settings.model == LOCAL_MODEL:
        missing = explain_missing()
        if missing is not None:
            raise UsageFault(missing)
        if settings.reasoning_effort not in {None, "none"}:
            raise UsageFault(f"{where}.reasoning_effort: the embedded model cannot reason", "leave it out")
    _check_ranges(settings, where)
    with _told_by_key(where, backend):
        check_wire(settings)


def _check_ranges(settings: Settings, where: str) -> None:
    lowest = {"max_turns": 1, "max_tokens": 1, "temperature": 0, "top_p": 0}
    for name, low in lowest.items():
        value = getattr(settings, name)
        if value is not None and value < low:
            raise UsageFault(f"{where}.{name}: expected {low} or more, found {value}")
    if settings.request_timeout <= 0:
        raise UsageFault(f"{where}.request_timeout: expected seconds, more than 0")
    if settings.reasoning_effort is not None and settings.reasoning_effort not in REASONING_EFFORTS:
        raise UsageFault(
            f"{where}.reasoning_effort: expected one of {', '.join(REASONING_EFFORTS)}, "
            f"found {settings.reasoning_effort!r}"
        )


@contextmanager
def _told_by_key(where: str, backend: Backend) -> Iterator[None]:
    """Messages about options of `evrun run`, with the keys that say the same here."""

    def as_keys(text: str) -> str:
        for option in ("base-url", "api-key-env"):
            text = text.replace(f"--{option}", f"{backend.where}.{option.replace('-', '_')}")
        return _OPTION.sub(lambda found: f"{where}.{found[1].replace('-', '_')}", text)

    try:
        yield
    except UsageFault as error:
        raise UsageFault(as_keys(str(error)), error.hint and as_keys(error.hint)) from error
