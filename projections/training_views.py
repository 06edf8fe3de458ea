"""The names of a training run's view files, and of the directories they are in."""

import hashlib
import re
from typing import Final

CONFIG: Final = "config.yaml"
STEPS: Final = "steps.jsonl"
SUMMARY: Final = "summary.json"
CHECKOUT: Final = "checkout"
CARD: Final = "CARD.md"
MATERIAL: Final = "learning_material"
README: Final = "README.md"
INDEX: Final = "index.jsonl"
CURRENT: Final = "current"
EVALUATIONS: Final = "eval"
RESULTS: Final = "results.jsonl"

_STEP = re.compile(r"step_([0-9]{4,})")
_EVALUATED = re.compile(r"summary-[1-9][0-9]*\.json")
_LONGEST_NAME = 120
_UNFIT = re.compile(r"[^\w.,=+@ -]|^\.|^-| $", re.ASCII)


def step_directory(step: int) -> str:
    """The directory of a step's record, and of its learning material."""
    return f"step_{step:04d}"


def step_of_directory(name: str) -> int | None:
    """The step whose directory this is; null for any other name."""
    match = _STEP.fullmatch(name)
    if match is None or step_directory(int(match[1])) != name:
        return None
    return int(match[1])


def summary_name(number: int) -> str:
    """The file of one evaluation's summary."""
    return f"summary-{number}.json"


def file_name(name: str) -> str:
    """A name that a file can have, for a task: mostly the task's own id.

    What a file name cannot hold, or not everywhere, is written as in URLs (``%2F``); a long one is cut, with
    a digest of the whole. Two ids never share a name.
    """
    quoted = _UNFIT.sub(lambda match: "".join(f"%{byte:02X}" for byte in match[0].encode()), name)
    if len(quoted) <= _LONGEST_NAME:
        return quoted
    return f"{quoted[:80]}%{hashlib.sha256(name.encode()).hexdigest()[:32]}"


def selector_directory(selector: str) -> str:
    """The directory below ``eval/`` of what was evaluated."""
    return file_name(selector.replace("/", "_"))


def is_evaluation_file(name: str) -> bool:
    """Whether this is the name of a view below ``eval/<selector>/``."""
    return name in {RESULTS, SUMMARY} or _EVALUATED.fullmatch(name) is not None
