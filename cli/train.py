"""`evrun train`: train an adapter step by step, or go on with an unfinished run of the same name."""

from evrun.training import load_config, run_training_sync

from . import output
from .config import environment
from .output import JsonFlag
from .training import (
    AcceptChanges,
    ConfigPath,
    Executor,
    Overrides,
    Quiet,
    RayAddress,
    TrainingProgress,
    last_word,
    typed,
)


def train_command(
    config: ConfigPath,
    overrides: Overrides = None,
    *,
    accept_changes: AcceptChanges = False,
    executor: Executor = None,
    ray_address: RayAddress = None,
    quiet: Quiet = False,
    json: JsonFlag = False,
) -> int:
    """Train an adapter step by step, or go on with an unfinished run of the same name.

    RUN.YAML names tasks, agent, judge, template and learner (docs/training.md). A run that was interrupted,
    or stopped by a cap that is higher now, goes on by itself with the same command. A finished one is
    refused: choose another trainer.run_name.

    Exit codes: 0 done, 1 could not go on, 2 wrong input, 3 done but some tasks have no score, 4 paused by a
    cap or a quota, 5 the log is damaged, 6 in use, 130 and 143 ended by a signal.
    """
    told = load_config(config, typed(overrides, executor, ray_address))
    with TrainingProgress(quiet=quiet) as progress:
        result = run_training_sync(told, environment(), progress, accept_changes=accept_changes)
        progress.progress(result.state)
    last_word(result, told, json=json)
    if not json and result.exit_code not in {0, 3}:
        output.line(f"go on with: evrun train --config {config}")
    return result.exit_code
