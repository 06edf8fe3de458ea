"""Views compared with the log, writing nothing."""

import os
from collections.abc import Iterable
from pathlib import Path

import msgspec

from ..load import Log, kind_of
from ..render_statistics import render_statistics
from ..row_stream import RowStream
from ..state import TRAINING, RunState
from ..view_names import CHECKPOINT, STATISTICS, TRAJECTORIES, batch_number, row_file_order
from .documents import checkpoint_chunks
from .passes import pour, unwanted
from .regions import Regions, batch_regions
from .row_files import RowBuffer, batch_files, size_of
from .training_check import check_training
from .window import FileCheck, Stretch, Why, Window, Windows

_END = b"\n]}\n"
"""How a whole checkpoint ends."""
_LARGEST_HEAD = 1 << 20


class _Comparison(RowBuffer):
    """Compares rows with the row files of a directory, and with their places in trajectories.jsonl."""

    def __init__(self, directory: Path, regions: Regions | None) -> None:
        super().__init__()
        self._joined = regions is not None
        places = regions or Regions()
        self.files = Windows(lambda name: Stretch(directory / name))
        self.places = Windows(lambda name: Stretch(directory / TRAJECTORIES, *places.get(name)))

    def take(self, name: str, lines: list[bytes]) -> None:
        data = b"".join(lines)
        self.files.take(name, data)
        if self._joined and batch_number(name) is not None:
            self.places.take(name, data)


def check(reader: Log, directory: Path, to_sequence: int | None = None) -> list[FileCheck]:
    """Compare every view in `directory` with the events up to a sequence (the durable end without one).

    Memory does not grow with the rows. A file by the name of a batch that the run does not have is not ours.

    Raises:
        EventLogError: the log cannot be read, or a newer evrun wrote it.
    """
    if kind_of(reader) == TRAINING:
        return check_training(reader, directory, to_sequence)
    regions = batch_regions(directory / TRAJECTORIES)
    stream, grown = RowStream(reader), _Comparison(directory, regions)
    pour(reader, stream, grown, to_sequence)
    state, revised = stream.state, stream.stale
    final = _Comparison(directory, regions)
    if revised:
        pour(reader, RowStream(reader, final=state.batch), final, state.sequence, revised)
    verdicts = {name: grown.files.why(name) for name in grown.files if name not in revised}
    verdicts |= {name: _revised(name, final.files, grown.files) for name in final.files}
    wanted = batch_files(verdicts)
    for name in unwanted(directory, state.batch, verdicts):
        verdicts[name] = _gone(grown.files.get(name))
    found = [_file_check(name, verdicts[name]) for name in sorted(verdicts, key=row_file_order)]
    there = (directory / TRAJECTORIES).exists()
    joined = _trajectories(regions, wanted, final, grown) if there else "missing"
    found.append(_file_check(TRAJECTORIES, joined))
    return found + _documents(reader, directory, state)


def _file_check(name: str, why: Why) -> FileCheck:
    return FileCheck(name, why is None, why)


def _revised(name: str, final: Windows, grown: Windows) -> Why:
    """A revised file that still shows what it showed before the revision is behind."""
    why = final.why(name)
    return _gone(grown.get(name)) if why == "differs" else why


def _gone(grown: Window | None) -> Why:
    """A file that should be otherwise, or not at all: behind if it once was right, as far as it goes."""
    return "behind" if grown is not None and grown.why() in {None, "behind"} else "differs"


def _trajectories(regions: Regions | None, wanted: list[str], final: _Comparison, grown: _Comparison) -> Why:
    if regions is None:
        return "differs"
    whys = {_place(name, final.places, grown.places) for name in wanted}
    there = set(wanted)
    whys |= {_gone(grown.places.get(name)) for name in regions if name not in there}
    return "differs" if "differs" in whys else "behind" if "behind" in whys else None


def _place(name: str, final: Windows, grown: Windows) -> Why:
    return _revised(name, final, grown) if name in final else grown.why(name)


def _documents(reader: Log, directory: Path, state: RunState) -> list[FileCheck]:
    documents = (
        (CHECKPOINT, checkpoint_chunks(reader, state.batch)),
        (STATISTICS, [render_statistics(state)]),
    )
    return [
        _file_check(name, _document(directory / name, chunks, state.sequence)) for name, chunks in documents
    ]


class _Stamp(msgspec.Struct):
    sequence: int


def _document(path: Path, chunks: Iterable[bytes], sequence: int) -> Why:
    """A document for an earlier sequence is behind; its own word is taken for that."""
    window = Window(path)
    for chunk in chunks:
        window.take(chunk)
    why = window.why()
    if why in {None, "missing"}:
        return why
    try:
        stamp = msgspec.json.decode(_head(path), type=_Stamp)
    except (msgspec.DecodeError, FileNotFoundError):
        return "differs"
    return "behind" if stamp.sequence < sequence else "differs"


def _head(path: Path) -> bytes:
    """A document without what a checkpoint lists, which may be long."""
    if path.name != CHECKPOINT:
        return path.read_bytes()
    with path.open("rb") as file:
        first = file.readline(_LARGEST_HEAD)
        file.seek(-min(len(_END), size_of(path)), os.SEEK_END)
        return first + _END if file.read() == _END else b""
