"""What we do about it: the acting side, which asks models, runs tools and spends money.

From Python::

    import evrun

    result = evrun.run("questions.jsonl", run_name="first", model="m", keep_all=True)
    for row in result.run.trajectories():
        print(row["conversations"][-1]["value"])

See docs/python.md. Nothing is imported before it is used: the command line starts quickly.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .agents import CallRefused as CallRefused
    from .agents import Completion as Completion
    from .agents import Context as Context
    from .batch import Switch as Switch
    from .errors import EvrunError as EvrunError
    from .errors import UsageFault as UsageFault
    from .python import EvaluationResult as EvaluationResult
    from .python import Run as Run
    from .python import RunResult as RunResult
    from .python import TrainingRun as TrainingRun
    from .python import TrainResult as TrainResult
    from .python import evaluate as evaluate
    from .python import evaluate_async as evaluate_async
    from .python import open_run as open_run
    from .python import run as run
    from .python import run_async as run_async
    from .python import train as train
    from .python import train_async as train_async
    from .tools import tool as tool
    from .training.authoring import Evolver as Evolver
    from .training.authoring import FinalResult as FinalResult
    from .training.authoring import JudgeResult as JudgeResult
    from .training.authoring import RunOutput as RunOutput
    from .training.authoring import StepContext as StepContext
    from .training.authoring import StepResult as StepResult
    from .training.authoring import ToolError as ToolError
    from .training.authoring import Usage as Usage

_HOMES = {
    "CallRefused": "agents",
    "Completion": "agents",
    "Context": "agents",
    "EvaluationResult": "python",
    "Evolver": "training.authoring",
    "EvrunError": "errors",
    "FinalResult": "training.authoring",
    "JudgeResult": "training.authoring",
    "Run": "python",
    "RunOutput": "training.authoring",
    "RunResult": "python",
    "StepContext": "training.authoring",
    "StepResult": "training.authoring",
    "Switch": "batch",
    "ToolError": "training.authoring",
    "TrainResult": "python",
    "TrainingRun": "python",
    "Usage": "training.authoring",
    "UsageFault": "errors",
    "evaluate": "python",
    "evaluate_async": "python",
    "open_run": "python",
    "run": "python",
    "run_async": "python",
    "tool": "tools",
    "train": "python",
    "train_async": "python",
}

__all__ = [
    "CallRefused",
    "Completion",
    "Context",
    "EvaluationResult",
    "Evolver",
    "EvrunError",
    "FinalResult",
    "JudgeResult",
    "Run",
    "RunOutput",
    "RunResult",
    "StepContext",
    "StepResult",
    "Switch",
    "ToolError",
    "TrainResult",
    "TrainingRun",
    "Usage",
    "UsageFault",
    "evaluate",
    "evaluate_async",
    "open_run",
    "run",
    "run_async",
    "tool",
    "train",
    "train_async",
]


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'evrun' has no attribute {name!r}")
    from importlib import import_module  # noqa: PLC0415 (only when something is asked for)

    return getattr(import_module(f"evrun.{home}"), name)
