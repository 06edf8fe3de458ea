"""Which models a run's parts ask, where, and at what price."""

from collections.abc import Callable, Mapping
from typing import NamedTuple

from ..batch.settings import Settings
from ..prices import Price
from .config import TrainingConfig


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
    raise NotImplementedError


def judge_binding(config: TrainingConfig, environment: Mapping[str, str]) -> Binding | None:
    """How the built-in judge `llm` asks its model; null for every other judge."""
    raise NotImplementedError


def learner_binding(config: TrainingConfig, environment: Mapping[str, str]) -> Binding | None:
    """How the learner's `llm` tool asks models; null where no model is configured."""
    raise NotImplementedError
