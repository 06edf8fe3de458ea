"""The end of training, or of what a cap allows: the learner's last word, the final adapter, its card."""

from collections.abc import Mapping
from typing import Any

from eventlog.events import (
    CommitMade,
    EvolverReturned,
    FileEntry,
    FinalSelected,
    HistoryStored,
    StepCommitted,
)
from projections import FinalChoice, TrainingState, loads_lenient, render_card

from ..effects.clock import now_ns
from .blobs import Blobs, Content
from .committing import commit_of
from .means import Means
from .planning import choose_final, step_with
from .restoring import show_final

COMPLETED = "completed all epochs"
STOPPED = "the Evolver stopped the run (allow_early_stop)"


def hard_budget(cap: str) -> str:
    """The stop reason of a run that a cap has stopped."""
    return f"hard budget: {cap}"


class Finisher:
    """Chooses the final adapter and commits it with its card."""

    def __init__(self, means: Means) -> None:
        self._m = means

    @property
    def _state(self) -> TrainingState:
        return self._m.state

    def is_chosen(self, stop_reason: str) -> bool:
        """Whether that has been done since the last step, for this reason."""
        final = self._state.final
        last = self._state.steps[-1].sequence if self._state.steps else 0
        return final is not None and self._state.final_sequence > last and final.stop_reason == stop_reason

    async def finish(self, stop_reason: str) -> bool:
        """Choose and commit; false where the run was told to stop before the learner had its say."""
        if self.is_chosen(stop_reason):
            show_final(self._m)
            return True
        said = await self._last_word()
        if said is None and self._m.control.stopping:
            return False
        text, wanted = (None, None) if said is None else self._read(said)
        choice = choose_final(self._state, self._state.start, self._m.prepared.tasks.val, wanted)
        card = FinalChoice(choice.step, choice.how, choice.score, text, stop_reason)
        await self._record(choice.commit, card)
        show_final(self._m)
        return True

    async def _last_word(self) -> EvolverReturned | None:
        """What the learner says at the end; null where it says nothing, or could not be asked."""
        if "finalize" not in self._m.learner.methods:
            return None
        last = self._state.steps[-1].sequence if self._state.steps else 0
        known = self._state.calls.get("finalize", (0, ""))[0]
        if known <= last:
            await self._m.learner.call("finalize", 0, 0, is_epoch_end=False)
            known = self._state.calls.get("finalize", (0, ""))[0]
        if known <= last:
            return None
        event = self._m.blobs.event(known)
        assert isinstance(event, EvolverReturned)
        return event

    def _read(self, said: EvolverReturned) -> tuple[str | None, int | None]:
        """Its text, and the step that it wants; what it says after a failure does not count."""
        if said.status != "done" and not said.summary:
            return None, None
        extra: Any = None if said.extra is None else loads_lenient(said.extra)
        wanted = extra.get("step") if isinstance(extra, Mapping) else None
        if isinstance(extra, Mapping) and "adapter" in extra and said.adapter is not None:
            wanted = step_with(self._state, self._state.start, said.adapter)
            if wanted is None:
                self._m.note("finalize chose an adapter that no step has, so it is not used")
        return said.summary or None, wanted if isinstance(wanted, int) and not isinstance(
            wanted, bool
        ) else None

    async def _record(self, chosen: str, card: FinalChoice) -> None:
        """Commit the chosen adapter with its card."""
        run = self._m.prepared.config.trainer.run_name
        adapter = self._m.blobs.files(files_of(chosen, self._state, self._m.blobs))
        files = {**adapter, "CARD.md": Content(render_card(self._m.run_state, card))}
        commit, objects = commit_of(
            self._state.head, f"final: {run}\n\n{card.stop_reason}\n", now_ns() // 10**9, files
        )
        self._m.tree.add(objects)
        event = FinalSelected(
            card.step, chosen, card.how, card.score, card.finalize, card.stop_reason, commit, f"{run}/final"
        )
        await self._m.journal.record(*self._m.blobs.missing(files), event)


def files_of(commit: str, state: TrainingState, blobs: Blobs) -> list[FileEntry]:
    """The files of a commit that this run made, began at, or chose.

    Raises:
        KeyError: it is none of these.
    """
    if commit == state.head:
        return state.files
    if commit == state.root:
        return state.root_files
    if state.final is not None and state.final.commit.sha == commit:
        return state.final.commit.files
    for record in state.steps:
        if commit in record.commits:
            made = blobs.event(record.sequence)
            assert isinstance(made, StepCommitted)
            return _named(made.commits, commit)
    history = blobs.event(state.history[-1])
    assert isinstance(history, HistoryStored)
    if history.head == commit:
        return history.files
    raise KeyError(commit)


def _named(commits: list[CommitMade], sha: str) -> list[FileEntry]:
    return next(commit.files for commit in commits if commit.sha == sha)
