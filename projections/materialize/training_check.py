"""The views of a training run compared with its log, writing nothing."""

import re
import stat
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import msgspec

from eventlog.events import FileEntry, StepCommitted

from ..load import Log, fold_log
from ..render_card import render_standing_card
from ..render_config import HEAD
from ..render_evaluation import by_directory, finished_of, render_evaluation
from ..render_material import index_line, material_of
from ..state import RunState
from ..training_contents import Contents
from ..training_layout import Directory, Document, Layout, Lines, View
from ..training_views import CARD, CHECKOUT, CONFIG, EVALUATIONS, INDEX, MATERIAL, SUMMARY, step_directory
from .training_disk import compare_file, compare_tree, digest_of
from .training_files import unwanted
from .window import FileCheck, Why, Window

_HEAD = re.compile(f"{re.escape(HEAD)}([0-9]+)\n".encode())


def check_training(reader: Log, directory: Path, to_sequence: int | None = None) -> list[FileCheck]:
    """Compare every view in `directory` with the events up to a sequence (the durable end without one).

    A directory that is as it ought to be is one entry; of another each file that is not.

    Raises:
        EventLogError: the log cannot be read, or a newer evrun wrote it.
    """
    return _Comparison(reader, directory, fold_log(reader, to_sequence)).all()


_Version = tuple[str, bytes, bool]
"""A file's path, the digest of its content, and whether it may be run."""


class _Stamp(msgspec.Struct):
    sequence: int


class _Comparison:
    def __init__(self, log: Log, directory: Path, state: RunState) -> None:
        self._directory = directory
        self._state = state
        self._contents = Contents(log, state.training)
        self._layout = Layout(state, self._contents)

    def all(self) -> list[FileCheck]:
        views = {view.path: view for view in self._layout.all()}
        found = [check for view in views.values() for check in self._of(view)]
        others = [path for path in unwanted(self._directory, views) if not self._is_open_material(path)]
        return found + [_check(path, self._left_over(path)) for path in others]

    def _of(self, view: View) -> Iterator[FileCheck]:
        path = self._directory / view.path
        if isinstance(view, Document):
            why = compare_file(path, view.render())
            if why == "differs" and self._is_behind(view.path, path):
                why = "behind"
            yield _check(view.path, why)
        elif isinstance(view, Lines):
            yield _check(view.path, self._lines(view, path))
        elif isinstance(view, Directory):
            yield from self._directory_of(view, path)
        else:
            yield _check(view.path, self._link(path, view.target))

    def _lines(self, view: Lines, path: Path) -> Why:
        why = _window(path, view.lines)
        if why == "differs" and view.path == f"{MATERIAL}/{INDEX}":
            # The open step's material is written before the learner's call is recorded.
            return _window(path, lambda: self._with_open(view))
        return why

    def _with_open(self, view: Lines) -> Iterator[bytes]:
        yield from view.lines()
        training = self._state.training
        if training.current is not None:
            yield index_line(material_of(training.current, training.steps[-1] if training.steps else None))

    def _directory_of(self, view: Directory, path: Path) -> Iterator[FileCheck]:
        if not path.is_dir():
            yield _check(view.path, "missing")
            return
        wrong = list(compare_tree(path, view.tree()))
        if not wrong:
            yield _check(view.path, None)
        earlier: set[_Version] | None = None
        for name, why in wrong:
            if why == "differs" and view.path == f"{CHECKOUT}/":
                earlier = self._earlier_files() if earlier is None else earlier
                if self._was_right(name, path / name, earlier):
                    why = "behind"  # noqa: PLW2901 (the verdict, made milder)
            yield _check(f"{view.path}{name}", why)

    def _link(self, path: Path, target: str) -> Why:
        if not path.is_symlink():
            return "differs" if path.exists() else "missing"
        found = str(path.readlink())
        training = self._state.training
        open_one = "" if training.current is None else step_directory(training.current.step)
        if found in {target, open_one}:
            return None
        earlier = {step_directory(record.step) for record in training.steps}
        return "behind" if found in earlier else "differs"

    def _is_behind(self, name: str, path: Path) -> bool:
        """Whether a document is what it once was rightly; its own word is taken for that."""
        data = path.read_bytes() if path.is_file() else b""
        if name == CONFIG:
            head = _HEAD.match(data)
            return head is not None and int(head[1]) < self._state.training.told
        if name == SUMMARY:
            return _stamp(data) < self._state.training.final_sequence
        if name.startswith(f"{EVALUATIONS}/"):
            group = by_directory(self._state.training)[name.split("/")[1]]
            return any(render_evaluation(one) == data for one in finished_of(group))
        return False

    def _earlier_files(self) -> set[_Version]:
        """All files of all commits of the run, and of where it began."""
        found = _versions(self._state.training.root_files)
        for record in self._state.training.steps:
            for commit in self._contents.event(record.sequence, StepCommitted).commits:
                found |= _versions(commit.files)
        final = self._state.training.final
        if final is not None:
            found |= _versions(final.commit.files)
        return found

    def _was_right(self, name: str, path: Path, earlier: set[_Version]) -> bool:
        if not path.is_file() or path.is_symlink():
            return False
        training = self._state.training
        if name == CARD and training.final is not None:
            if training.standing_final is None:
                return True
            finished = finished_of(list(training.evaluations.values()))
            cards = (
                render_standing_card(self._state, finished[:count]) for count in range(len(finished) + 1)
            )
            if path.read_bytes() in cards:
                return True
        runs = bool(path.stat().st_mode & stat.S_IXUSR)
        return (name, digest_of(path), runs) in earlier

    def _is_open_material(self, path: str) -> bool:
        current = self._state.training.current
        if current is None:
            return False
        return path in {f"{MATERIAL}/{step_directory(current.step)}", f"{MATERIAL}/{INDEX}"}

    def _left_over(self, path: str) -> Why:
        """A summary of a stop that was gone on from was right once."""
        if path == SUMMARY and _stamp((self._directory / path).read_bytes()) <= self._state.sequence:
            return "behind"
        return "differs"


def _versions(files: Iterable[FileEntry]) -> set[_Version]:
    return {(entry.path, entry.digest, entry.executable) for entry in files}


def _check(path: str, why: Why) -> FileCheck:
    return FileCheck(path, why is None, why)


def _window(path: Path, lines: Callable[[], Iterator[bytes]]) -> Why:
    window = Window(path)
    for line in lines():
        window.take(line)
    return window.why()


def _stamp(data: bytes) -> float:
    """The sequence that a document names as its own; infinity where it names none."""
    try:
        return msgspec.json.decode(data, type=_Stamp).sequence
    except msgspec.DecodeError:
        return float("inf")
