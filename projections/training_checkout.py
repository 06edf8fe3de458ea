"""checkout/: the adapter as it is now."""

from collections.abc import Sequence

from eventlog.events import FileEntry

from .render_card import render_standing_card
from .state import RunState
from .training_facts import Evaluation
from .training_trees import Tree
from .training_views import CARD


def checkout_tree(state: RunState, evaluations: Sequence[Evaluation]) -> Tree:
    """The final adapter if it was chosen after the last step, else the branch's.

    The final one's card tells of these evaluations too, which may have come after its commit.
    """
    training = state.training
    final = training.standing_final
    entries = training.files if final is None else final.commit.files
    files: dict[str, bytes | FileEntry] = {entry.path: entry for entry in entries}
    card = render_standing_card(state, evaluations)
    if card is not None:
        files[CARD] = card
    return Tree(files)
