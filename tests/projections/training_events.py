"""Events of training runs, as the trainer writes them, commit by commit."""

import hashlib
import json

from eventlog.events import (
    BlobStored,
    CandidateChecked,
    CandidateRepaired,
    CommitMade,
    EpochStarted,
    EvaluationAttemptJudged,
    EvaluationFinished,
    EvaluationStarted,
    Event,
    EvolverReturned,
    EvolverStarted,
    FileEntry,
    FinalSelected,
    HistoryStored,
    InputDigest,
    Issue,
    RolloutFinished,
    RolloutJudged,
    RolloutStarted,
    RunFinished,
    RunStarted,
    SessionClosed,
    SessionOpened,
    StepCommitted,
    StepStarted,
)
from projections import evaluation_unit, learner_unit, rollout_unit

SETTINGS = {
    "data.step_size": 2,
    "data.val": None,
    "template": "prompt-only@1.0",
    "evolver.name": "/home/me/learner.py:Learner",
    "evolver.params": {"rate": 1e-05},
    "trainer.epochs": 2,
    "trainer.tree_dir": "/home/me/runs/trees/prompt-only",
}


def digest(data: bytes) -> bytes:
    """SHA-256."""
    return hashlib.sha256(data).digest()


def stored(*contents: bytes) -> list[Event]:
    """The contents, as they come into the log."""
    return [BlobStored(digest(data), data) for data in contents]


def entries(files: dict[str, bytes]) -> list[FileEntry]:
    """Files by digest; those below ``bin/`` may be run."""
    return [
        FileEntry(path, digest(data), len(data), path.startswith("bin/"))
        for path, data in sorted(files.items())
    ]


def row_of(task: str) -> bytes:
    """A task's row."""
    return json.dumps({"id": task, "prompt": f"question {task} \u2028 ä"}).encode()


ROOT = {"ADAPTER.md": b"Be brief.\n", "adapter.yaml": b"id: prompt-only\n", "bin/look": b"#!/bin/sh\n"}


class TrainingRun:
    """A training run's events, appended to `commits` one moment after the other."""

    def __init__(self, run: str = "r", **settings) -> None:
        self.commits: list[list[Event]] = []
        self.run, self.head, self.step, self.number = run, "c0", 0, 0
        self.parent = self.head
        self.files = dict(ROOT)
        self.settings = SETTINGS | settings
        self.tasks: list[str] = []
        self.epoch = 0
        self.session = 1

    def add(self, *events: Event) -> None:
        """One commit."""
        self.commits.append(list(events))

    def begin(self) -> "TrainingRun":
        """The run, its first session, and where it starts."""
        inputs = [InputDigest("data.tasks", "ab" * 32, 7, "/home/me/tasks.jsonl")]
        started = RunStarted("training", self.run, self.settings, {}, {"evrun": "0", "python": "3"}, inputs)
        root = entries(ROOT)
        self.add(
            started,
            SessionOpened(1, 1, "host", "0"),
            *stored(*ROOT.values()),
            HistoryStored("c0", "c0", [("commit", b"tree")], complete=True, files=root, root_files=root),
        )
        return self

    def start_epoch(self, *tasks: str) -> None:
        """An epoch of these tasks."""
        self.epoch += 1
        self.add(EpochStarted(self.epoch, list(tasks)))

    def start_step(self, *tasks: str) -> None:
        """A step of these tasks."""
        self.step += 1
        self.parent, self.tasks = self.head, list(tasks)
        rows = [row_of(task) for task in tasks]
        started = StepStarted(self.step, max(1, self.epoch), self.tasks, self.head, [*map(digest, rows)])
        self.add(*stored(*rows), started)

    def unit(self, task: str) -> str:
        """The rollout of a task in the open step."""
        return rollout_unit(self.step, task)

    def rollout(
        self,
        task: str,
        score: float | None = 0.5,
        *,
        attempt: int = 1,
        status: str = "ok",
        feedback: str = "hm",
    ) -> None:
        """A rollout from its start to its end; judged if it ended ok. No score: the judge failed."""
        unit = self.unit(task)
        self.add(RolloutStarted(unit, attempt, task, self.head))
        self.add(*rolled_out(unit, attempt, task, status))
        if status == "ok":
            error = "the judge fell over" if score is None else None
            self.add(RolloutJudged(unit, attempt, score, "hm", b'{"why":"so"}', error, 3))

    def start_learner(self, attempt: int = 1, *, carried: bool = False) -> None:
        """The learner is called."""
        self.add(EvolverStarted(self.learner, attempt, "step", self.step, carried))

    @property
    def learner(self) -> str:
        """The learner's unit in the open step."""
        return learner_unit("step", self.step)

    def learn(self, files: dict[str, bytes] | None = None, *, status: str = "done") -> None:
        """The learner is called, and gives back these changes of the adapter."""
        self.start_learner()
        candidate = self.files | (files or {})
        state = {"memory.json": b"[%d]" % self.step}
        output = {"report.md": b"Step %d.\n" % self.step, "more/notes.txt": b""}
        self.add(
            *stored(*candidate.values(), *state.values(), *output.values()),
            EvolverReturned(
                self.learner, 1, "step", self.step, status, "changed a word", "because", "handle", [],
                b'{"tried":1}', None, 9, entries(candidate), entries(state), entries(output),
            ),
        )  # fmt: skip
        self.candidate, self.state = candidate, state

    def commit(self, *, status: str = "done", repaired: bool = False, tags: tuple[str, ...] = ()) -> None:
        """The boundary: the candidate becomes the adapter."""
        made, events = [], []
        if status == "done" and self.candidate != self.files:
            made.append(self._commit(self.candidate))
            events.append(CandidateChecked(self.step, not repaired, _issues() if repaired else []))
            if repaired:
                fixed = self.candidate | {"adapter.yaml": ROOT["adapter.yaml"]}
                made.append(self._commit(fixed))
                events += [
                    CandidateRepaired(self.step, "adapter.yaml", "root", "a fixed file was changed"),
                    CandidateChecked(self.step, passed=True, issues=[], after_repair=True),
                ]
                self.candidate = fixed
            self.files = self.candidate
        self.add(*events, self.committed(made, status, None, entries(self.state), tags))

    def skip(self) -> None:
        """The boundary of a step whose learner is not called."""
        self.add(self.committed([], "failed", "2 of 2 tasks have no score", [], ()))

    def committed(self, made, status, note, state, tags) -> StepCommitted:
        """The boundary itself."""
        return StepCommitted(
            self.step, max(1, self.epoch), status, note, self.parent, made, state, "handle", list(tags),
            10**9 * self.step,
        )  # fmt: skip

    def _commit(self, files: dict[str, bytes]) -> CommitMade:
        self.number += 1
        sha, parent = f"c{self.number}", self.head
        self.head = sha
        return CommitMade(sha, parent, f"step {self.step}\n", 1_790_000_000, entries(files))

    def whole_step(self, *tasks: str, **commit) -> None:
        """A step from its start to its boundary, in which the adapter changes."""
        self.start_step(*tasks)
        for number, task in enumerate(tasks):
            self.rollout(task, number / 2)
        self.learn({"ADAPTER.md": b"Be brief, %d times.\n" % self.step})
        self.commit(**commit)

    def finish(self, card: bytes = b"# card\n", reason: str = "completed all epochs") -> None:
        """The final adapter, and the end."""
        commit = self._commit(self.files | {"CARD.md": card})
        self.head = commit.parent
        final = FinalSelected(
            self.step, self.head, "last", None, "It helps to be brief.", reason, commit, "r/final"
        )
        self.add(*stored(card), final)

    def close(self) -> None:
        """Nothing is left to do."""
        self.add(RunFinished({}), SessionClosed(self.session, "finished", None, 10**9))

    def start_evaluation(self, number: int, *tasks: str, selector: str = "final", repeats: int = 1) -> None:
        """An evaluation begins."""
        self.add(EvaluationStarted(number, selector, "cf", None, list(tasks), repeats))

    def evaluate(
        self, number: int, task: str, score: float | None, *, repeat: int = 1, selector: str = "final"
    ) -> None:
        """An attempt of it; without a score it ended with an error."""
        unit = evaluation_unit(selector, number, task, repeat)
        status = "ok" if score is not None else "error"
        error = None if score is not None else "no answer"
        self.add(RolloutStarted(unit, 1, task, "cf"))
        self.add(*rolled_out(unit, 1, task, status))
        self.add(EvaluationAttemptJudged(number, repeat, task, unit, 1, score, "hm", None, error))

    def end_evaluation(self, number: int) -> None:
        """It is over."""
        self.add(EvaluationFinished(number))


def rolled_out(unit: str, attempt: int, task: str, status: str = "ok") -> list[Event]:
    """A rollout ended; it left a trajectory."""
    log = f"log of {unit} {attempt}".encode()
    if status != "ok":
        ended = RolloutFinished(
            unit, attempt, status, None, "Broken", "it broke", "line 1", None, None, 5, [], None, None
        )
        return [ended]
    messages = json.dumps([{"role": "user", "content": task}]).encode()
    return [
        *stored(log),
        RolloutFinished(
            unit, attempt, "ok", json.dumps(f"answer {task}").encode(), None, None, None, None, None, 1500,
            entries({"log.txt": log}), messages, b'{"seen":true}',
        ),
    ]  # fmt: skip


def _issues() -> list[Issue]:
    return [Issue("adapter.yaml", 1, "a fixed file was changed")]


def trained(steps=2):
    """A run of so many steps, trained to its end, and evaluated."""
    run = TrainingRun().begin()
    run.start_epoch(*"abcdef"[: 2 * steps])
    for step in range(steps):
        run.whole_step(
            *"abcdef"[2 * step : 2 * step + 2], repaired=step == 0, tags=(f"ckpt-step-{step + 1}",)
        )
    run.finish()
    run.close()
    run.start_evaluation(1, "x", "y")
    run.evaluate(1, "x", 1.0)
    run.evaluate(1, "y", None)
    run.end_evaluation(1)
    return run
