"""Which views a training run has, and what is in each: from its state, and contents that its log holds."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import NamedTuple

from .render_config import render_config
from .render_evaluation import (
    attempts_of,
    by_directory,
    finished_of,
    render_evaluation,
    result_lines,
)
from .render_material import README_TEXT, Material, index_line, material_tree, materials
from .render_steps import render_step
from .render_summary import render_summary
from .state import RunState
from .training import TrainingState
from .training_checkout import checkout_tree
from .training_contents import Contents
from .training_facts import Evaluation, StepRecord
from .training_trees import Tree, step_tree
from .training_views import (
    CHECKOUT,
    CONFIG,
    CURRENT,
    EVALUATIONS,
    INDEX,
    MATERIAL,
    README,
    RESULTS,
    STEPS,
    SUMMARY,
    step_directory,
    summary_name,
)


class Document(NamedTuple):
    """A file that is written whole."""

    path: str
    render: Callable[[], bytes]


class Lines(NamedTuple):
    """A file that grows at its end."""

    path: str
    lines: Callable[[], Iterator[bytes]]


class Directory(NamedTuple):
    """A directory, with all that is in it; its path ends in a slash.

    `whole`: it comes into being complete, and does not change any more.
    """

    path: str
    tree: Callable[[], Tree]
    whole: bool = True


class Link(NamedTuple):
    """A symbolic link to something beside it."""

    path: str
    target: str


View = Document | Lines | Directory | Link


class Layout:
    """The views of a run. `contents` looks up what the state does not hold."""

    def __init__(self, state: RunState, contents: Contents) -> None:
        self._state = state
        self._contents = contents

    @property
    def _training(self) -> TrainingState:
        return self._state.training

    def all(self) -> Iterator[View]:
        """Every view that there ought to be: what a line tells of comes before the line."""
        if self._training.told:
            yield self.config()
            yield self.readme()
        yield from self._steps()
        if self._training.history_complete:
            yield self.checkout()
        if self._training.standing_final is not None:
            yield self.summary()
        yield from self._evaluations()

    def _steps(self) -> Iterator[View]:
        newest: Material | None = None
        for newest in materials(self._training):
            yield self.material(newest)
        for record in self._training.steps:
            yield self.step(record)
        if newest is not None:
            yield self.current(newest.step)
            yield self.index()
        if self._training.steps:
            yield Lines(STEPS, self.step_lines)

    def _evaluations(self) -> Iterator[View]:
        for name, evaluations in by_directory(self._training).items():
            if any(one.attempts for one in evaluations):
                yield Lines(f"{EVALUATIONS}/{name}/{RESULTS}", partial(self.results, name))
            yield from self.evaluation_summaries(name, evaluations)

    def config(self) -> Document:
        """config.yaml."""
        return Document(CONFIG, lambda: render_config(self._state))

    def readme(self) -> Document:
        """What explains the learning material."""
        return Document(f"{MATERIAL}/{README}", README_TEXT.encode)

    def material(self, material: Material) -> Directory:
        """A step's learning material."""
        path = f"{MATERIAL}/{step_directory(material.step)}/"
        return Directory(path, lambda: material_tree(self._contents, material))

    def current(self, step: int) -> Link:
        """The way to the newest material."""
        return Link(f"{MATERIAL}/{CURRENT}", step_directory(step))

    def index(self) -> Lines:
        """A line for each step's material."""
        return Lines(f"{MATERIAL}/{INDEX}", lambda: map(index_line, materials(self._training)))

    def step(self, record: StepRecord) -> Directory:
        """A step's record."""
        return Directory(f"{step_directory(record.step)}/", lambda: step_tree(self._contents, record))

    def step_lines(self) -> Iterator[bytes]:
        """The lines of steps.jsonl."""
        return map(render_step, self._training.steps)

    def checkout(self) -> Directory:
        """The adapter now."""
        finished = finished_of(list(self._training.evaluations.values()))
        return Directory(f"{CHECKOUT}/", lambda: checkout_tree(self._state, finished), whole=False)

    def summary(self) -> Document:
        """How training ended; it did."""
        return Document(SUMMARY, lambda: render_summary(self._state))

    def results(self, name: str, last: int | None = None) -> Iterator[bytes]:
        """The lines of results.jsonl of the evaluations with this directory, up to the event `last`."""
        attempts = attempts_of(by_directory(self._training)[name])
        wanted = [one for one in attempts if last is None or one[3].judged <= last]
        return result_lines(self._contents, wanted)

    def evaluation_summaries(self, name: str, evaluations: list[Evaluation]) -> Iterator[Document]:
        """What each finished one came to, and the newest of them."""
        finished = finished_of(evaluations)
        for one in finished:
            path = f"{EVALUATIONS}/{name}/{summary_name(one.number)}"
            yield Document(path, partial(render_evaluation, one))
        if finished:
            yield Document(f"{EVALUATIONS}/{name}/{SUMMARY}", partial(render_evaluation, finished[-1]))
