"""Private directories under `work/`: a session has its own for each attempt; nobody old writes into them."""

import hashlib
import shutil
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any
from urllib.parse import quote

import msgspec

from projections import TrainingState

from .authoring import Workspace
from .blobs import Files, write_files

LONGEST_NAME = 100
MATERIAL = "learning_material"


class Places:
    """Where a session of a training run works. `directory` is the run's."""

    def __init__(self, directory: Path, session: int) -> None:
        self._run = directory.resolve()
        self._session = session
        self._made: set[str] = set()
        self._kept: dict[tuple[str, int], Path] = {}
        self.work = self._run / "work"

    @property
    def material(self) -> Path:
        """What learners read: a view of the run, made from the log."""
        return self._run / MATERIAL

    def attempt(self, unit: str, attempt: int) -> Path:
        """The directory of an attempt at a unit in this session."""
        kept = self._kept.get((unit, attempt))
        return self._named(unit, attempt, self._session) if kept is None else kept

    def keep(self, state: TrainingState) -> None:
        """Go on in the directories of rollouts that were left open after their tools had worked there.

        What these gave is fed back, and not made again.
        """
        for unit, attempt in state.open.items():
            if unit in state.rollouts and attempt.own is not None and attempt.own.tools:
                place = self._named(unit, attempt.attempt, attempt.session)
                self._kept[unit, attempt.attempt] = place

    def adapter(self, name: str, files: Files) -> Path:
        """A copy of an adapter for rollouts, made once a session."""
        place = self.work / f"adapter-{name}-s{self._session}"
        if name not in self._made:
            self._room()
            write_files(place, files)
            self._made.add(name)
        return place

    def validation(self, rows: Iterable[dict[str, Any]]) -> Path:
        """The validation tasks as a file, whole rows, one a line."""
        file = self.work / f"validation-s{self._session}" / "tasks.jsonl"
        self._room()
        file.parent.mkdir(mode=0o700, exist_ok=True)
        file.write_bytes(b"".join(msgspec.json.encode(row) + b"\n" for row in rows))
        return file

    def workspace(
        self, unit: str, attempt: int, adapter: Files, state: Files, history: Callable[[Path], None]
    ) -> Workspace:
        """A fresh workspace for a call of the learner: the adapter as it is, its state, the history."""
        root = self.attempt(unit, attempt)
        shutil.rmtree(root, ignore_errors=True)
        self._room()
        root.mkdir(mode=0o700)
        places = {name: root / name for name in ("adapter", "state", "output", "scratch", "history")}
        for place in places.values():
            place.mkdir(mode=0o700)
        write_files(places["adapter"], adapter)
        write_files(places["state"], state)
        history(places["history"])
        return Workspace(root=root, learning_material=self.material, **places)

    def _room(self) -> None:
        """`work/` itself; a mode goes to the last directory of a path alone."""
        self.work.mkdir(mode=0o700, exist_ok=True)

    def clear(self) -> None:
        """Remove all of it: what is worth keeping is in the log."""
        shutil.rmtree(self.work, ignore_errors=True)

    def clear_old(self) -> None:
        """Remove what earlier sessions left."""
        mine, kept = f"-s{self._session}", {place.name for place in self._kept.values()}
        for entry in self.work.iterdir() if self.work.is_dir() else ():
            if not entry.name.endswith(mine) and entry.name not in kept:
                shutil.rmtree(entry, ignore_errors=True)

    def _named(self, unit: str, attempt: int, session: int) -> Path:
        return self.work / f"{_file_name(unit)}-a{attempt}-s{session}"

    def drop(self, prefix: str) -> None:
        """Remove the directories of a part of the run whose name begins like this (``step:3/``)."""
        begins = _file_name(prefix)
        for entry in self.work.iterdir() if self.work.is_dir() else ():
            if entry.name.startswith(begins):
                shutil.rmtree(entry, ignore_errors=True)
        self._made.clear()


def _file_name(unit: str) -> str:
    """A unit as a file's name: letters, digits and a few signs as they are, others as ``%XX``."""
    name = quote(unit, safe=" +=@,")
    if len(name) <= LONGEST_NAME:
        return name
    return f"{name[:LONGEST_NAME]}-{hashlib.sha256(unit.encode()).hexdigest()[:12]}"
