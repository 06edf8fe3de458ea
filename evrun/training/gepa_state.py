"""What the learner `gepa` remembers: its iterations, and every candidate with what was measured of it.

``gepa.json`` has the iterations, ``candidates/DIGEST.json`` a candidate's texts and scores by task. A score
is measured once for each candidate and task, and never changes: in each step the search is made again from
them.
"""

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from .learner_material import Trial

FILE = "gepa.json"
CANDIDATES = "candidates"


class Iteration(msgspec.Struct, frozen=True, kw_only=True):
    """An iteration: the tasks it looked at, its candidate (empty: there was none), and what became of it.

    `missing` are those (candidate, task) that had no score in it.
    """

    step: int
    tasks: list[str]
    child: str
    accepted: bool
    said: str
    missing: list[tuple[str, str]]


class Search(msgspec.Struct, kw_only=True):
    """All iterations, in order; `seed` is the candidate that it began with, `val` what candidates compete on.

    `begun` counts how often the seed's validation was tried.
    """

    seed: str = ""
    val: list[str] = []
    begun: int = 0
    iterations: list[Iteration] = []


class Measured(msgspec.Struct, frozen=True):
    """How a candidate did a task; texts are cut to what a prompt takes of them."""

    score: float
    output: str
    feedback: str


class Candidate(msgspec.Struct, kw_only=True):
    """Texts by path, and what was measured by task."""

    texts: dict[str, str]
    measured: dict[str, Measured] = {}


class Book:
    """The state of a search, in the learner's state directory. `save` writes what has changed."""

    def __init__(self, state: Path, chars: int) -> None:
        self._state = state
        self._chars = chars
        self._candidates: dict[str, Candidate] = {}
        self._changed: set[str] = set()
        file = state / FILE
        self.search = msgspec.json.decode(file.read_bytes(), type=Search) if file.is_file() else Search()

    def enter(self, texts: Mapping[str, str]) -> str:
        """The digest under which a candidate is known from now on."""
        digest = digest_of(texts)
        if digest not in self._candidates:
            file = self._state / CANDIDATES / f"{digest}.json"
            if file.is_file():
                self._candidates[digest] = msgspec.json.decode(file.read_bytes(), type=Candidate)
            else:
                self._candidates[digest] = Candidate(texts=dict(texts))
                self._changed.add(digest)
        return digest

    def texts(self, digest: str) -> dict[str, str]:
        """A candidate's texts."""
        if digest not in self._candidates:
            file = self._state / CANDIDATES / f"{digest}.json"
            self._candidates[digest] = msgspec.json.decode(file.read_bytes(), type=Candidate)
        return dict(self._candidates[digest].texts)

    def measured(self, digest: str, task: str) -> Measured | None:
        """How a candidate did a task; null where it has no score yet."""
        return self._candidates[digest].measured.get(task)

    def measure(self, digest: str, trials: Sequence[Trial]) -> None:
        """Keep the scores that are new."""
        known = self._candidates[digest].measured
        for trial in trials:
            if trial.score is not None and trial.task not in known:
                known[trial.task] = Measured(trial.score, self._cut(trial.output), self._cut(trial.feedback))
                self._changed.add(digest)

    def save(self) -> None:
        """Write what has changed; a candidate's file only when something was measured."""
        (self._state / CANDIDATES).mkdir(exist_ok=True)
        for digest in sorted(self._changed):
            _write(self._state / CANDIDATES / f"{digest}.json", self._candidates[digest])
        self._changed.clear()
        _write(self._state / FILE, self.search)

    def _cut(self, value: Any) -> str:
        text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
        return text if len(text) <= self._chars else f"{text[: self._chars]}…"


def digest_of(texts: Mapping[str, str]) -> str:
    """What a candidate is known by: the same texts, the same digest."""
    return hashlib.sha256(msgspec.json.encode(dict(texts), order="sorted")).hexdigest()[:16]


def _write(file: Path, value: Any) -> None:
    file.write_bytes(msgspec.json.format(msgspec.json.encode(value), indent=1) + b"\n")
