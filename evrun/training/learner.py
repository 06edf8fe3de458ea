"""The learner that a configuration names, and what its callers need."""

from ..errors import UsageFault
from .config import TrainingConfig
from .learner_base import Learner, LearnerCall, LearnerTools, Place, Returned
from .learner_command import CommandLearner
from .learner_process import PythonLearner

__all__ = ["Learner", "LearnerCall", "LearnerTools", "Place", "Returned", "load_learner"]

COMMAND = "command:"
BUILT_IN = {
    "reflect": "evrun.training.reflect:Reflect",
    "gepa": "evrun.training.gepa_evolver:Gepa",
}


def load_learner(config: TrainingConfig, place: Place) -> Learner:
    """The learner that ``evolver.name`` names, not yet started.

    Raises:
        UsageFault: the name is of no form that there is.
    """
    name = config.evolver.name
    if name.startswith(COMMAND):
        return CommandLearner(name.removeprefix(COMMAND), config.evolver.params, place)
    name = BUILT_IN.get(name, name)
    if ":" not in name:
        raise UsageFault(
            f"evolver.name {name}: there is no such learner",
            hint=f"{', '.join(sorted(BUILT_IN))}, FILE.py:CLASS, MODULE:CLASS or command:CMD",
        )
    return PythonLearner(name, place)
