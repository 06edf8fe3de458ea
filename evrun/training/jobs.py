"""So many rollouts at once, and the events that end them."""

from collections.abc import Iterator, Sequence

import anyio

from eventlog.events import Event, RolloutJudged

from ..batch.control import Control
from .config import TrainingConfig
from .rollouts import Conclude, RolloutRunner
from .working import Job


async def run_jobs(
    config: TrainingConfig,
    control: Control,
    rollouts: RolloutRunner,
    jobs: Sequence[Job],
    conclude: Conclude,
) -> None:
    """Run jobs, `agent.concurrency` at once, until each has ended or the run is stopping."""
    queue: Iterator[Job] = iter(jobs)

    async def worker() -> None:
        for job in queue:
            if control.stopping:
                return
            await rollouts.run(job, conclude)

    async with anyio.create_task_group() as group:
        for _ in range(min(config.agent.concurrency, len(jobs))):
            group.start_soon(worker)


def judged_in_step(  # noqa: PLR0917 (a `Conclude`)
    job: Job,
    attempt: int,
    score: float | None,
    feedback: str | None,
    extra: bytes | None,
    error: str | None,
    wall_ms: int,
) -> Event:
    """The event that says what the judge said, of a rollout of a step or for its learner."""
    return RolloutJudged(job.unit, attempt, score, feedback, extra, error, wall_ms)
