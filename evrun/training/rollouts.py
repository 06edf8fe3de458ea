"""Rollouts: an agent works on a task, a judge scores what came of it; every attempt durable, tried again."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from eventlog.events import Event
from projections import Rollout

from ..batch.control import Control
from ..batch.sending import Services
from ..batch.settings import Settings
from ..budget import Budget
from ..effects.clock import CallIds
from ..effects.secrets import Redactor
from ..journal import Journal
from ..rates import Price
from .agents import TrainingAgent
from .blobs import Blobs
from .config import TrainingConfig
from .judges import TrainingJudge


class Job(NamedTuple):
    """What is to be worked on. `adapter` is its directory (null: none), `adapter_name` what it is.

    `role` is what it is for: rollout, evaluation, learner.
    """

    unit: str
    task_id: str
    task: dict[str, Any]
    adapter: Path | None
    adapter_name: str
    role: str = "rollout"


Conclude = Callable[[Job, int, float | None, str | None, bytes | None, str | None, int], Event]
"""Makes the event that ends a job: (job, attempt, score, feedback, extra as JSON, error, wall_ms)."""


class JudgeModel(NamedTuple):
    """Where a judge that is a model is asked."""

    services: Services
    settings: Settings
    price_of: Callable[[str], Price | None]


def rollout_ended(rollout: Rollout | None, retries: int) -> bool:
    """Whether nothing more is to be done: it was judged, or failed once more often than it is tried again."""
    return rollout is not None and (bool(rollout.judged) or rollout.failures > retries)


class RolloutRunner:
    """Brings jobs to their end. `services` is null where no model is configured.

    `settings` are those of the agent's binding: its model, and `prompt_timeout`, which is the agent's time.
    `agent` and `judge` are open (`async with`). `work` is where attempts have their private directories.
    """

    def __init__(
        self,
        services: Services | None,
        settings: Settings,
        agent: TrainingAgent,
        judge: TrainingJudge,
        *,
        config: TrainingConfig,
        blobs: Blobs,
        journal: Journal,
        control: Control,
        budget: Budget,
        redactor: Redactor,
        work: Path,
        marker: str,
        ids: CallIds,
        judge_model: JudgeModel | None = None,
    ) -> None:
        raise NotImplementedError

    async def run(self, job: Job, conclude: Conclude) -> None:
        """Bring a job to its end (`rollout_ended`), or return when the run is ending.

        `conclude` is asked for an "ok" attempt's judgement; for the role evaluation also where the last try
        failed.

        Raises:
            RunFailed, AppendError: the run cannot go on.
        """
        raise NotImplementedError
