"""The views of a training run in its directory: put right at once, or one after the other as events come."""

import itertools
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

from eventlog.events import Recorded

from ..load import Log
from ..render_evaluation import Attempt, by_directory, result_lines
from ..render_material import Material, index_line, material_of, materials
from ..render_steps import render_step
from ..state import RunState
from ..training import TrainingState
from ..training_contents import Contents
from ..training_layout import Directory, Document, Layout, Lines, View
from ..training_views import (
    EVALUATIONS,
    INDEX,
    MATERIAL,
    RESULTS,
    STEPS,
    SUMMARY,
    is_evaluation_file,
    selector_directory,
    step_directory,
    step_of_directory,
)
from .training_disk import (
    Growing,
    bring_file,
    bring_link,
    bring_tree,
    remove,
    remove_empty,
    sweep_trees,
)


class TrainingFiles:
    """Writes the views of `state` into `directory`. Errors of the disk are raised.

    Every method may be called again: what is right stays as it is.
    """

    def __init__(self, directory: Path, log: Log, state: RunState) -> None:
        self._directory = directory
        self._state = state
        self._contents = Contents(log, state.training)
        self._layout = Layout(state, self._contents)
        self._growing: dict[str, Growing] = {}
        self._shown: Material | None = None

    @property
    def _training(self) -> TrainingState:
        return self._state.training

    def put_right(self, *, deep: bool) -> list[str]:
        """Let every view be what the state says, and none be there that ought not to; the views' names.

        Not `deep`: directories of steps that are there count as right, since they come into being whole.
        """
        self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        for place in (self._directory, self._directory / MATERIAL):
            sweep_trees(place)
        views = {view.path: view for view in self._layout.all()}
        # What is beside a log in which no run has begun is somebody else's.
        for path in unwanted(self._directory, views) if self._training.told else ():
            remove(self._directory / path)
            self._growing.pop(path, None)
            if path.startswith(f"{EVALUATIONS}/"):
                remove_empty(self._directory / EVALUATIONS, (self._directory / path).parent)
        for view in views.values():
            self._bring(view, deep=deep)
        self._shown = next(reversed(list(materials(self._training))), None)
        return list(views)

    def _bring(self, view: View, *, deep: bool = True) -> None:
        path = self._directory / view.path
        if isinstance(view, Document):
            bring_file(path, view.render())
        elif isinstance(view, Lines):
            self._grown(view.path).put_right(view.lines)
        elif not isinstance(view, Directory):
            bring_link(path, view.target)
        elif deep or not view.whole or not path.is_dir():
            bring_tree(path, view.tree(), self._contents)

    def see(self, record: Recorded) -> None:
        """An event came that the files may soon be made of."""
        self._contents.keep(record)

    def config(self) -> None:
        """What the run was told."""
        if self._training.told:
            self._bring(self._layout.config())
            self._bring(self._layout.readme())

    def material(self, material: Material) -> None:
        """The learning material of the newest step: its directory, its line in the index, `current`."""
        place = self._directory / MATERIAL / step_directory(material.step)
        if material == self._shown and place.is_dir():
            return
        self._bring(self._layout.material(material))
        again = self._shown is not None and self._shown.step == material.step
        self._shown = material
        index = self._grown(f"{MATERIAL}/{INDEX}")
        if again:
            index.put_right(self._index_lines)
        else:
            index.add(index_line(material), self._index_lines)
        self._bring(self._layout.current(material.step))

    def _index_lines(self) -> Iterator[bytes]:
        """Those of all material up to what was shown last, which may be still to be recorded."""
        shown = self._shown
        if shown is not None:
            earlier = itertools.takewhile(lambda one: one.step < shown.step, materials(self._training))
            yield from map(index_line, earlier)
            yield index_line(shown)

    def step(self, position: int) -> None:
        """All that the committed step at a position of `steps` brings about; its line comes last."""
        steps = self._training.steps
        record, before = steps[position], steps[position - 1] if position else None
        if record.step > 0:
            self.material(material_of(record, before))
        self._bring(self._layout.step(record))
        self.checkout()
        self._grown(STEPS).add(render_step(record), lambda: map(render_step, steps[: position + 1]))

    def checkout(self) -> None:
        """The adapter now."""
        if self._training.history_complete:
            self._bring(self._layout.checkout())

    def end(self) -> None:
        """How training ended, or that it has not."""
        if self._training.standing_final is None:
            remove(self._directory / SUMMARY)
        else:
            self._bring(self._layout.summary())
        self.checkout()

    def results(self, attempts: Sequence[Attempt]) -> None:
        """Attempts of evaluations that have ended since the last time, in the order of the log."""
        by_name: dict[str, list[Attempt]] = {}
        for attempt in attempts:
            by_name.setdefault(selector_directory(attempt[0].selector), []).append(attempt)
        for name, new in by_name.items():
            lines = b"".join(result_lines(self._contents, new))
            whole = partial(self._layout.results, name, new[-1][3].judged)
            self._grown(f"{EVALUATIONS}/{name}/{RESULTS}").add(lines, whole)

    def summaries(self) -> None:
        """What the finished evaluations came to; the final adapter's card tells of them too."""
        for name, evaluations in by_directory(self._training).items():
            for view in self._layout.evaluation_summaries(name, evaluations):
                self._bring(view)
        self.checkout()

    def _grown(self, path: str) -> Growing:
        return self._growing.setdefault(path, Growing(self._directory / path))


def unwanted(directory: Path, views: dict[str, View]) -> list[str]:
    """What is there by our names and ought not to be, by path."""
    found = []
    for place in ("", f"{MATERIAL}/"):
        names = _names(directory / place)
        found += [f"{place}{name}" for name in names if step_of_directory(name) is not None]
    found += [name for name in (STEPS, SUMMARY, f"{MATERIAL}/{INDEX}") if (directory / name).exists()]
    for group in _names(directory / EVALUATIONS):
        names = _names(directory / EVALUATIONS / group)
        found += [f"{EVALUATIONS}/{group}/{name}" for name in names if is_evaluation_file(name)]
    return [path for path in found if path not in views and f"{path}/" not in views]


def _names(directory: Path) -> list[str]:
    try:
        return sorted(entry.name for entry in directory.iterdir())
    except (FileNotFoundError, NotADirectoryError):
        return []
