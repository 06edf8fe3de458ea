"""CARD.md: what an adapter is, where it came from, and what was measured of it."""

from typing import NamedTuple

from .state import RunState


class FinalChoice(NamedTuple):
    """The adapter that a run chooses at its end: fields as in `FinalSelected`."""

    step: int
    how: str
    score: float | None
    finalize: str | None
    stop_reason: str


def render_card(state: RunState, choice: FinalChoice) -> bytes:
    """The card of the adapter that was chosen, or is about to be: the file CARD.md."""
    return f"# {state.batch.run}\n\nThe adapter of step {choice.step}.\n".encode()
