"""A training run as Python reads it: beside events, state and accounts its steps, evaluations and adapter."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, NoReturn

import msgspec

from projections import FileCheck, evaluation_report, render_step, render_summary

from ..errors import UsageFault
from ..training.blobs import Blobs, Content
from ..training.replaying import check_training_run, rebuild_training_run
from .opened import Outcome, Run


class TrainingRun(Run):
    """A training run in a directory, which may be going on; reading takes no lock and changes nothing."""

    def __repr__(self) -> str:
        return f"TrainingRun({str(self.directory)!r})"

    def steps(self) -> Iterator[dict[str, Any]]:
        """The committed steps, as steps.jsonl has them, made from the log."""
        for record in self.state().training.steps:
            yield msgspec.json.decode(render_step(record))

    def evaluations(self) -> list[dict[str, Any]]:
        """Every evaluation that was begun, oldest first, as its summary.json has it."""
        return [evaluation_report(one) for one in self.state().training.evaluations.values()]

    def summary(self) -> dict[str, Any] | None:
        """What summary.json holds; null until a final adapter was chosen."""
        state = self.state()
        if state.training.final is None:
            return None
        found: dict[str, Any] = msgspec.json.decode(render_summary(state))
        return found

    def adapter(self) -> dict[str, bytes]:
        """The files of the adapter now: the final one with its card, else that of the newest step."""
        with closing(self._reader()) as reader:
            training = self.state(reader.end.sequence).training
            final = training.final
            last = training.steps[-1].sequence if training.steps else 0
            chosen = final is not None and training.final_sequence > last
            entries = final.commit.files if final is not None and chosen else training.files
            files: dict[str, Content] = Blobs(training, reader).files(entries)
        return {path: content.data for path, content in files.items()}

    def replay(self, out: str | Path | None = None) -> list[str]:
        """Make every view again from the log, and what is missing of the run in its git tree.

        With `out` the views go there, and the versions into a tree of their own below it.
        """
        target = self.directory if out is None else Path(out)
        with closing(self._reader()) as reader:
            return rebuild_training_run(reader, target, reader.end.sequence, own=out is None)

    def check(self) -> list[FileCheck]:
        """Compare every view, and refs and commits of the git tree, with the log; writes nothing."""
        with closing(self._reader()) as reader:
            return check_training_run(reader, self.directory, reader.end.sequence, own=True)

    def trajectories(self, outcome: Outcome = "kept") -> Iterator[dict[str, Any]]:
        """Rows are a batch run's."""
        del outcome
        self._refuse("trajectories()", "steps() has its steps")

    def show(self, unit: str | int, attempt: int | None = None) -> dict[str, Any]:
        """Prompts are a batch run's."""
        del unit, attempt
        self._refuse("show()", "events() has all that is recorded of a unit")

    def stats(self) -> dict[str, Any]:
        """Statistics of rows are a batch run's."""
        self._refuse("stats()", "steps() and audit() have its numbers")

    def _refuse(self, what: str, instead: str) -> NoReturn:
        raise UsageFault(f"{what}: {self.name} is a training run", hint=instead)
