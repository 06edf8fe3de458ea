"""What training may cost at most: the caps of `trainer.budget`, and whether they can be held."""

from collections.abc import Mapping

from .bindings import Bindings
from .config import TrainingConfig
from .tasks import Tasks

CAP_KEYS: dict[str, str] = {
    name: f"trainer.budget.{name}"
    for name in (
        "usd", "tokens", "calls", "hours", "step_usd", "role_usd.rollout", "role_usd.judge",
        "role_usd.learner", "role_usd.evaluation", "finalize_reserve_usd",
    )
}  # fmt: skip
"""Each cap with the key that sets it, for messages."""


def caps_of(config: TrainingConfig) -> dict[str, int]:
    """The caps as integers: USD in nano-USD, hours in nanoseconds; none where the key is null."""
    raise NotImplementedError


def check_caps_hold(config: TrainingConfig, caps: Mapping[str, int], bindings: Bindings) -> None:
    """Refuse caps that could not be held, before anything is spent.

    Raises:
        UsageFault: a price, an output cap or a bound is missing; the key that gives it is named.
    """
    raise NotImplementedError


def steps_afforded(
    config: TrainingConfig, caps: Mapping[str, int], bindings: Bindings, tasks: Tasks
) -> tuple[int, int] | None:
    """How many steps the cap can surely pay for, of how many; null where nobody can say."""
    raise NotImplementedError
