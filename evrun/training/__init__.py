"""Training runs: tasks in, a better adapter out; every step an event.

Nothing is imported before it is used: a learner's process, and users' code, need the names for authors alone.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .checking import Checkup as Checkup
    from .checking import Finding as Finding
    from .checking import check_training as check_training
    from .checking import check_training_sync as check_training_sync
    from .config import TrainingConfig as TrainingConfig
    from .config_file import load_config as load_config
    from .deploying import HOSTS as HOSTS
    from .deploying import deploy as deploy
    from .diffing import compare_versions as compare_versions
    from .forking import fork_run as fork_run
    from .replaying import check_training_run as check_training_run
    from .replaying import rebuild_training_run as rebuild_training_run
    from .trainer import newest_evaluation as newest_evaluation
    from .trainer import run_evaluation as run_evaluation
    from .trainer import run_evaluation_sync as run_evaluation_sync
    from .trainer import run_training as run_training
    from .trainer import run_training_sync as run_training_sync

_HOMES = {
    "Checkup": "checking",
    "Finding": "checking",
    "HOSTS": "deploying",
    "TrainingConfig": "config",
    "check_training": "checking",
    "check_training_run": "replaying",
    "check_training_sync": "checking",
    "compare_versions": "diffing",
    "deploy": "deploying",
    "fork_run": "forking",
    "load_config": "config_file",
    "newest_evaluation": "trainer",
    "rebuild_training_run": "replaying",
    "run_evaluation": "trainer",
    "run_evaluation_sync": "trainer",
    "run_training": "trainer",
    "run_training_sync": "trainer",
}

__all__ = [
    "HOSTS",
    "Checkup",
    "Finding",
    "TrainingConfig",
    "check_training",
    "check_training_run",
    "check_training_sync",
    "compare_versions",
    "deploy",
    "fork_run",
    "load_config",
    "newest_evaluation",
    "rebuild_training_run",
    "run_evaluation",
    "run_evaluation_sync",
    "run_training",
    "run_training_sync",
]


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'evrun.training' has no attribute {name!r}")
    from importlib import import_module  # noqa: PLC0415 (only when something is asked for)

    return getattr(import_module(f"evrun.training.{home}"), name)
