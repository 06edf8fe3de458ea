"""What a run directory of Hermit says, as the events of a training run, with the times at which it was so."""

from collections.abc import Callable, Iterator
from datetime import timezone
from functools import partial
from typing import NamedTuple

from eventlog.events import (
    EpochStarted,
    Event,
    EvolverStarted,
    FileEntry,
    HistoryStored,
    RolloutJudged,
    StepStarted,
)
from projections import GitObject, learner_unit, rollout_unit

from ..training.blobs import LARGEST_COMMIT, Content, Files
from ..training.config import TrainingConfig
from ..training.planning import checkpoint_tags
from .attempts import OK, Attempt, Judged, attempt_facts, score_facts
from .contents import Contents
from .lines import MaterialPart, ResultPart, SpentPart, StepLine, TaskFile
from .money import ROLES, Amounts, Books, Payer, between, booked_in, known_nano
from .reading import as_json
from .step_facts import call_of, check_facts, committed, returned, setup_facts
from .survey import MATERIAL, Survey, objects_of
from .timing import moment_ns, span_ns, zone_of

Order = Callable[[int], list[str]]
"""The tasks of an epoch as split and seed give them."""

Step = StepLine | MaterialPart
"""A step that was ended, or one of which there is only what the learner was to read."""

TaskFiles = dict[str, TaskFile]


class Moment(NamedTuple):
    """Events and when they happened."""

    time_ns: int
    events: list[Event]


class Told:
    """Tells a run from its beginning to its last step. `order` is null where the split is not known."""

    def __init__(self, found: Survey, config: TrainingConfig, books: Books, order: Order | None) -> None:
        self._found = found
        self._config = config
        self._books = books
        self._order = order
        self._zone: timezone = zone_of(found.tree.read(found.root)[1])
        self._spent = SpentPart()
        self._session: str | None = None
        self._epochs: set[int] = set()
        self.contents = Contents(found.tree)
        self.state: list[FileEntry] = []
        self.notes: dict[str, None] = {}

    def beginning(self) -> Iterator[Event]:
        """What the run starts from, and every object of its commits."""
        blobs, files = self.contents.of_commit(self._found.start)
        more, root_files = self.contents.of_commit(self._found.root)
        yield from (*blobs, *more)
        *parts, last = _parts(objects_of(self._found))
        for part in parts:
            yield self._history(part, None, None)
        yield self._history(last, files, root_files)

    def _history(
        self, part: list[GitObject], files: list[FileEntry] | None, root_files: list[FileEntry] | None
    ) -> HistoryStored:
        """A part of the history; the last one tells the files."""
        start, root = self._found.start, self._found.root
        return HistoryStored(start, root, part, files is not None, files or [], root_files or [])

    def first_ns(self) -> int | None:
        """When the first step began; null where no step was ended."""
        first = self._found.steps[0] if self._found.steps else None
        return None if first is None else self._began_ns(first)

    def steps(self) -> Iterator[Moment]:
        """Every step that was ended, and the rollouts of the one that was open."""
        for number, line in enumerate(self._found.steps):
            if not number:
                yield Moment(self._began_ns(line), setup_facts())
            yield from self._step(line)
        opened = self._found.open
        if opened is not None:
            now = self.last_ns()
            files = self._task_files(opened)
            yield Moment(now, self._started(opened, opened.adapter_commit, files))
            yield Moment(now + span_ns(opened.wall_s), self._rollouts(opened, opened.adapter_commit, files))

    def last_ns(self) -> int:
        """When the last step was ended; 0 where none was."""
        return self._ended_ns(self._found.steps[-1]) if self._found.steps else 0

    def spent_besides(self) -> list[Event]:
        """What Hermit's account holds beyond its steps: a step that a cap cut short was thrown away."""
        booked: list[Event] = []
        if self._found.summary is not None:
            for part, role in ROLES.items():
                rest = between(self._spent, self._found.summary.spending, part)
                booked += self._books.rest(Payer("imported", 1, role), rest)
        return booked

    def _step(self, line: StepLine) -> Iterator[Moment]:
        for commit in line.commits:
            self._zone = zone_of(self._found.tree.read(commit)[1])
        called, call = self._called_ns(line), call_of(line)
        if not line.bootstrap:
            files = self._task_files(line)
            yield Moment(self._began_ns(line), self._started(line, line.parent, files))
            yield Moment(called, [*self._rollouts(line, line.parent, files), *self._rest(line, files)])
        yield Moment(called, [EvolverStarted(learner_unit(call, line.step), 1, call, line.step)])
        self._session = line.session or self._session
        yield Moment(self._ended_ns(line), self._boundary(line))
        self._spent = line.budget_after

    def _started(self, step: Step, parent: str, files: TaskFiles) -> list[Event]:
        known = {task: {"id": task} if one.input is None else one.input for task, one in files.items()}
        rows = {task: Content(as_json(known.get(task, {"id": task})) or b"") for task in step.tasks}
        blobs, entries = self.contents.store(rows)
        digests = {entry.path: entry.digest for entry in entries}
        started = StepStarted(
            step.step, step.epoch, step.tasks, parent, [digests[task] for task in step.tasks]
        )
        order = self._tasks_of(step.epoch) if step.epoch not in self._epochs else None
        self._epochs.add(step.epoch)
        return [*([] if order is None else [EpochStarted(step.epoch, order)]), *blobs, started]

    def _tasks_of(self, epoch: int) -> list[str] | None:
        """An epoch's tasks: those that were taken, then those to come; null where these are not known."""
        opened = self._found.open
        steps: list[Step] = [*self._found.steps, *([opened] if opened else [])]
        taken = list(dict.fromkeys(task for one in steps if one.epoch == epoch for task in one.tasks))
        if self._order is None:
            is_over = any(one.epoch > epoch for one in steps)
            return taken if is_over else None
        order = self._order(epoch)
        if order[: len(taken)] != taken:
            self._note(f"epoch {epoch}: its steps took other tasks than data.train and the seed give now")
        known = set(taken)
        return [*taken, *(task for task in order if task not in known)]

    def _rollouts(self, step: Step, adapter: str, files: TaskFiles) -> list[Event]:
        events: list[Event] = []
        for task in step.tasks:
            payer = Payer(rollout_unit(step.step, task), 1, "rollout")
            attempt = Attempt(payer, task, adapter, partial(_rollout_judged, payer.unit))
            if task in files:
                kept = self.contents.store(self._trajectory(step, files[task]))
                events += attempt_facts(attempt, files[task], self._books, kept)
            else:
                scores = step.rollout.scores if isinstance(step, StepLine) else {}
                events += score_facts(attempt, scores.get(task))
        failed = sum(one.status != OK for one in files.values())
        if failed:
            self._note(f"step {step.step}: {failed} of its tasks failed: 0.0 in Hermit, without a score here")
        return events

    def _rest(self, line: StepLine, files: TaskFiles) -> list[Event]:
        """What the rollouts of a step cost beyond those that are known one by one."""
        lost = [task for task in line.tasks if task not in files]
        if not lost:
            return []
        self._note(f"step {line.step}: only scores are left of {', '.join(lost[:5])}")
        known = Amounts(
            sum(known_nano(one.cost_usd) or 0 for one in files.values()),
            sum(one.tokens or 0 for one in files.values()),
        )
        rest = between(self._spent, line.budget_after, "rollout").without(known)
        return self._books.rest(Payer(f"step:{line.step}/rollouts", 1, "rollout"), rest)

    def _trajectory(self, step: Step, one: TaskFile) -> Files:
        if not one.trajectory:
            return {}
        return self._found.source.files(f"{_material(step)}/{one.trajectory}")

    def _task_files(self, step: Step) -> TaskFiles:
        source, folder = self._found.source, f"{_material(step)}/tasks"
        names = [name for name in source.names(folder) if name.endswith(".json")]
        files = [source.object(f"{folder}/{name}", TaskFile) for name in names]
        return {one.id: one for one in files if one is not None and one.id in step.tasks}

    def _boundary(self, line: StepLine) -> list[Event]:
        """From the learner's answer to the step's end."""
        source, folder = self._found.source, f"step_{line.step:04d}"
        payer = Payer(learner_unit(call_of(line), line.step), 1, "learner")
        booked = self._books.usages(payer, [*line.evolver.usage, *line.evolver.metered_tool_usage])
        rest = between(self._spent, line.budget_after, "evolver").without(booked_in(booked))
        booked += self._books.rest(payer, rest)
        blobs, self.state = self.contents.store(source.files(f"{folder}/state"))
        more, output = self.contents.store(source.files(f"{folder}/output"))
        some, commits = self.contents.commits(line.commits)
        others, parent = self.contents.of_commit(line.parent)
        said = source.object(f"{folder}/step_result.json", ResultPart)
        adapter = commits[0].files if commits else parent
        return [
            *booked, *blobs, *more, *some, *others,
            returned(line, said, adapter, self.state, output), *check_facts(line),
            committed(line, commits, self.state, self._session, self._tags(line)),
        ]  # fmt: skip

    def _note(self, text: str) -> None:
        self.notes.setdefault(text)

    def _tags(self, line: StepLine) -> list[str]:
        """The tags of the step and, after its last one, of its epoch: that are there, or are due."""
        mine = [one for one in self._found.steps if one.epoch == line.epoch]
        there = self._found.tags.get(line.commit, [])
        wanted = [f"ckpt-step-{line.step}", *(["bootstrap"] if line.bootstrap else [])]
        ends, is_over = mine[-1].step == line.step, False
        if ends:
            wanted.append(f"ckpt-epoch-{line.epoch}")
            done = {task for one in mine for task in one.tasks}
            is_over = self._order is not None and done.issuperset(self._order(line.epoch))
        due = checkpoint_tags(line.step, line.epoch, self._config, ends=is_over)
        return [tag for tag in wanted if tag in there or tag in due]

    def _began_ns(self, line: StepLine) -> int:
        return self._called_ns(line) - span_ns(line.rollout.wall_s)

    def _called_ns(self, line: StepLine) -> int:
        return self._ended_ns(line) - span_ns(line.evolver.wall_s)

    def _ended_ns(self, line: StepLine) -> int:
        found = moment_ns(line.time, self._zone)
        return self._found.tree.commit(line.commit).time_s * 10**9 if found is None else found


def _material(step: Step) -> str:
    return f"{MATERIAL}/step_{step.step:04d}"


def _rollout_judged(unit: str, judged: Judged) -> RolloutJudged:
    return RolloutJudged(unit, 1, judged.score, judged.feedback, judged.extra, judged.error, 0)


def _parts(objects: list[GitObject]) -> list[list[GitObject]]:
    parts: list[list[GitObject]] = [[]]
    size = 0
    for kind, data in objects:
        if parts[-1] and size + len(data) > LARGEST_COMMIT:
            parts.append([])
            size = 0
        parts[-1].append((kind, data))
        size += len(data)
    return parts
