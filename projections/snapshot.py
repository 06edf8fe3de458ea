"""A run's state as bytes, and back: what a fold needs to go on from where it stood.

A state that was thawed goes on exactly as the one that was frozen would have. Only the files that hold these
bytes know whether they fit a log: `materialize.snapshots`.
"""

from collections.abc import Mapping

from .snapshot_batch import batch_of_parts, batch_parts
from .snapshot_ledger import ledger_of_parts, ledger_parts
from .state import RunState

PROJECTION = "run"
"""Which fold a snapshot is of."""

Parts = Mapping[str, bytes | memoryview]
"""Named pieces of bytes."""


class CannotFreeze(Exception):
    """The state holds something that has no bytes, such as a number of more than 64 bits."""


def freeze(state: RunState) -> dict[str, bytes]:
    """The state of a run of prompts, as it is now: what comes back shares nothing with it.

    Raises:
        CannotFreeze: there can be no snapshot of this state. Only the whole log says it.
    """
    if state.is_training:
        raise CannotFreeze("a training run is folded from its whole log")
    try:
        return {**batch_parts(state.batch), **ledger_parts(state.ledger)}
    except (OverflowError, TypeError, UnicodeEncodeError) as error:
        raise CannotFreeze(str(error)) from error


def thaw(parts: Parts) -> RunState:
    """The state that was frozen.

    Raises:
        KeyError, ValueError: these are not the parts of a frozen state.
    """
    state = RunState()
    state.batch = batch_of_parts(parts)
    state.ledger = ledger_of_parts(parts)
    return state
