"""Training runs: tasks in, a better adapter out; every step an event."""

from .config import TrainingConfig
from .config_file import load_config
from .trainer import (
    newest_evaluation,
    run_evaluation,
    run_evaluation_sync,
    run_training,
    run_training_sync,
)

__all__ = [
    "TrainingConfig",
    "load_config",
    "newest_evaluation",
    "run_evaluation",
    "run_evaluation_sync",
    "run_training",
    "run_training_sync",
]
