"""What the units of a training run are called.

::

    setup/learner  finalize/learner       the learner's calls outside steps
    step:3/task:a                         a rollout of step 3
    step:3/task:a/judge                   the model that judges it
    step:3/learner                        the learner's call of step 3 (step 0: its bootstrap)
    step:3/learner/0a1b2c/task:a.1        a rollout of a candidate that this learner asked for, in its call 1
    eval:final/2/task:a.1                 the second evaluation, of `final`: the first try at a task
"""

import hashlib
from collections.abc import Iterable
from typing import Final, NamedTuple

from eventlog.events import FileEntry

FRAMEWORK_FILES: Final = frozenset({"adapter.yaml", "CARD.md"})
"""Files that are neither learned nor fixed: evrun keeps its own account in them."""
JUDGE: Final = "/judge"
GROUPS: Final = ("setup", "finalize", "eval")


def rollout_unit(step: int, task: str) -> str:
    """A task of a step."""
    return f"step:{step}/task:{task}"


def learner_unit(call: str, step: int) -> str:
    """A call of the learner: "setup", "bootstrap", "step" or "finalize"."""
    return f"{call}/learner" if call in GROUPS else f"step:{step}/learner"


def trial_unit(learner: str, candidate: str, task: str, number: str) -> str:
    """A rollout that the learner `learner` asked for, of a candidate (a digest); `number` is its call's."""
    return f"{learner}/{candidate}/task:{task}.{number}"


def evaluation_unit(selector: str, number: int, task: str, repeat: int) -> str:
    """An attempt of an evaluation; `number` and `repeat` count from 1."""
    return f"eval:{selector}/{number}/task:{task}.{repeat}"


def judge_unit(unit: str) -> str:
    """The model that judges a unit."""
    return f"{unit}{JUDGE}"


def judged_unit(unit: str) -> str:
    """The unit that money spent for `unit` belongs to: a judge's is that of what it judges."""
    return unit.removesuffix(JUDGE)


def group_of(unit: str) -> str:
    """What part of the run a unit belongs to: ``step:3``, ``setup``, ``finalize``, ``eval``; else empty."""
    head = unit.partition("/")[0]
    if head.startswith("eval:"):
        return "eval"
    return head if head in GROUPS or head.startswith("step:") else ""


class Trial(NamedTuple):
    """What a rollout that a learner asked for was of: the candidate's digest, and the task."""

    candidate: str
    task: str


def trial_of(unit: str, task: str) -> Trial | None:
    """The trial that a unit is; null where it is something else."""
    _, slash, rest = unit.partition("/learner/")
    if not slash or not unit.startswith(("step:", *GROUPS[:2])):
        return None
    return Trial(rest.partition("/")[0], task)


def adapter_digest(files: Iterable[FileEntry]) -> str:
    """Sixteen hex digits that stand for an adapter's contents, but for evrun's own account in it."""
    whole = hashlib.sha256()
    for entry in sorted(files, key=lambda entry: entry.path):
        if entry.path not in FRAMEWORK_FILES:
            whole.update(b"%b\0%b%d" % (entry.path.encode(), entry.digest, entry.executable))
    return whole.hexdigest()[:16]
