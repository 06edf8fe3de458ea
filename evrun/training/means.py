"""What a session of a training run works with."""

from collections.abc import Callable
from typing import NamedTuple

from projections import RunState, TrainingState, TrainingViews

from ..batch.control import Control
from ..effects.git import Tree
from ..journal import Journal
from .blobs import Blobs
from .committing import Committer
from .learning import LearnerCalls
from .opening import Prepared
from .places import Places
from .rollouts import RolloutRunner


class Means(NamedTuple):
    """Everything that the parts of a session share."""

    prepared: Prepared
    journal: Journal
    control: Control
    views: TrainingViews
    tree: Tree
    blobs: Blobs
    places: Places
    rollouts: RolloutRunner
    learner: LearnerCalls
    committer: Committer
    active_ns: Callable[[], int]
    note: Callable[[str], None]

    @property
    def state(self) -> TrainingState:
        """What is recorded of the training."""
        return self.journal.state.training

    @property
    def run_state(self) -> RunState:
        """All that is recorded."""
        return self.journal.state
