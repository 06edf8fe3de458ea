"""What sessions on a training run are for: to train, or to evaluate an adapter."""

from collections.abc import Mapping
from functools import partial

import anyio

from projections import Evaluation

from ..batch.control import Ending, Switch
from ..batch.work import Result, Ui
from ..errors import RunFailed
from .config import TrainingConfig
from .evaluating import Evaluator, choose
from .finishing import COMPLETED, STOPPED, Finisher, hard_budget
from .means import Means
from .session import Told, run_session
from .stepping import Stepper


async def run_training(
    config: TrainingConfig,
    environment: Mapping[str, str],
    ui: Ui,
    switch: Switch | None = None,
    *,
    accept_changes: bool = False,
) -> Result:
    """Begin or continue a training run, and work until it is done or told to end. Errors as `run_session`."""
    return await run_session(Told(config, environment, ui, accept_changes), Training(), switch)


async def run_evaluation(
    config: TrainingConfig,
    selector: str,
    environment: Mapping[str, str],
    ui: Ui,
    switch: Switch | None = None,
    *,
    accept_changes: bool = False,
) -> Result:
    """Evaluate an adapter of a run on the test split. Errors as `run_session`."""
    return await run_session(Told(config, environment, ui, accept_changes), Evaluating(selector), switch)


def run_training_sync(
    config: TrainingConfig, environment: Mapping[str, str], ui: Ui, *, accept_changes: bool = False
) -> Result:
    """`run_training` for a process that does nothing else."""
    work = partial(run_training, accept_changes=accept_changes)
    return anyio.run(work, config, environment, ui)


def run_evaluation_sync(
    config: TrainingConfig,
    selector: str,
    environment: Mapping[str, str],
    ui: Ui,
    *,
    accept_changes: bool = False,
) -> Result:
    """`run_evaluation` for a process that does nothing else."""
    work = partial(run_evaluation, accept_changes=accept_changes)
    return anyio.run(work, config, selector, environment, ui)


def newest_evaluation(result: Result) -> Evaluation:
    """The evaluation that a session worked on."""
    evaluations = result.state.training.evaluations
    return evaluations[max(evaluations)]


class Training:
    """To train until all epochs are over, or the learner says that it is enough."""

    trains = True

    async def work(self, means: Means) -> None:
        """Setup, bootstrap, steps, the end: whatever of it is not recorded yet."""
        stepper = Stepper(means)
        if not await self._set_up(means) or not await self._bootstrap(means, stepper):
            return
        while not self._is_over(means) and await stepper.step():
            pass
        if not means.control.stopping:
            await Finisher(means).finish(STOPPED if self._is_over(means) else COMPLETED)

    async def capped(self, means: Means, cap: str) -> None:
        """A usable adapter, card and summary, so far; a higher cap goes on from the last step."""
        await Finisher(means).finish(hard_budget(cap))

    async def _set_up(self, means: Means) -> bool:
        """Let the learner prepare itself, once in a run; false where the run is stopping."""
        done = means.state.calls.get("setup", (0, ""))[1] == "done"
        if done or "setup" not in means.learner.methods:
            return True
        returned = await means.learner.call("setup", 0, 0, is_epoch_end=False)
        if returned is None:
            return False
        if returned.status != "done":
            raise RunFailed(f"the learner's setup failed: {returned.error or returned.summary}")
        return True

    async def _bootstrap(self, means: Means, stepper: Stepper) -> bool:
        state = means.state
        begun = state.bootstrapped or bool(state.epochs)
        if begun or "bootstrap" not in means.learner.methods:
            return True
        return await stepper.bootstrap()

    def _is_over(self, means: Means) -> bool:
        steps = means.state.steps
        allowed = means.prepared.config.trainer.allow_early_stop
        return allowed and bool(steps) and steps[-1].status == "stop"


class Evaluating:
    """To evaluate one adapter on the test split."""

    trains = False

    def __init__(self, selector: str) -> None:
        self._selector = selector

    async def work(self, means: Means) -> None:
        """Every attempt that is not recorded yet."""
        if not means.prepared.tasks.test:
            means.control.stop(Ending("failed", 2, "there is no data.test: nothing to evaluate on"))
            return
        run = means.prepared.config.trainer.run_name
        await Evaluator(means, choose(self._selector, means.state, means.tree, run, means)).run()

    async def capped(self, means: Means, cap: str) -> None:
        """Nothing: what is recorded is shown, and a higher cap goes on."""
