"""A world for the learner `gepa`: scores and rewritings that follow from the texts alone, and a run of it.

As a program (``python -m tests.training.gepa_world DIR FIRST LAST``) it makes steps in a directory whose run
an earlier process began.
"""

import hashlib
import re
import sys
from pathlib import Path

from evrun.training.gepa_evolver import Gepa
from tests.training.learner_stand import Stand

TRAIN = [f"t{number}" for number in range(6)]
VAL = [f"v{number}" for number in range(4)]


def chance(*parts):
    """A number that looks drawn, the same in every process."""
    return int(hashlib.sha256("\n".join(parts).encode()).hexdigest()[:8], 16)


def judged(text, task):
    """Any text is better or worse for a task by chance."""
    return chance(text, task) % 5 / 4, f"feedback for {task}"


def answer(messages):
    """A rewriting that follows from the instructions and the tasks shown."""
    prompt = messages[0]["content"]
    now = prompt.split("```")[1].strip()
    tasks = sorted(set(re.findall(r"output of \w+", prompt)))
    return f"Here you are:\n```\nRule {chance(now, *tasks)}.\n```"


def minibatch(step):
    """Three tasks a step."""
    return [TRAIN[(3 * step + place) % len(TRAIN)] for place in range(3)]


def world(root, rule=judged):
    """A stand in an empty directory."""
    stand = Stand(root, rule, answer)
    stand.val = VAL
    return stand


def go(stand, first, last):
    """Make the steps from first to last."""
    for step in range(first, last + 1):
        stand.step(Gepa(), step, minibatch(step))


def files(place):
    """All files below a directory, by their contents."""
    return {
        path.relative_to(place).as_posix(): path.read_bytes() for path in place.rglob("*") if path.is_file()
    }


if __name__ == "__main__":
    went_on = Stand.again(Path(sys.argv[1]), judged, answer)
    went_on.val = VAL
    go(went_on, int(sys.argv[2]), int(sys.argv[3]))
