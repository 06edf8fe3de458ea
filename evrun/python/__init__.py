"""evrun from Python: what `import evrun` gives."""

from .opened import Run
from .opening import open_run
from .progress import LineProgress
from .running import RunResult, run, run_async
from .training import EvaluationResult, TrainResult, evaluate, evaluate_async, train, train_async
from .training_run import TrainingRun

__all__ = [
    "EvaluationResult",
    "LineProgress",
    "Run",
    "RunResult",
    "TrainResult",
    "TrainingRun",
    "evaluate",
    "evaluate_async",
    "open_run",
    "run",
    "run_async",
    "train",
    "train_async",
]
