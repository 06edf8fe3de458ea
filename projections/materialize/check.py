"""Views compared with the log, writing nothing."""

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
from .regions import Region, batch_regions
from .row_files import RowBuffer, batch_files
from .training_check import check_training
from .window import FileCheck, Why, Window


class _Comparison(RowBuffer):
    """Compares rows with the row files of a directory, and with their places in trajectories.jsonl."""

    def __init__(self, directory: Path, regions: dict[int, Region] | None) -> None:
        super().__init__()
        self._directory = directory
        self._regions = regions
        self.files: dict[str, Window] = {}
        self.places: dict[str, Window] = {}

    def take(self, name: str, lines: list[bytes]) -> None:
        data = b"".join(lines)
        if name not in self.files:
            self.files[name] = Window(self._directory / name)
            number = batch_number(name)
            if number is not None and self._regions is not None:
                region = self._regions.get(number, Region(0, 0))
                self.places[name] = Window(self._directory / TRAJECTORIES, region.start, region.end)
        self.files[name].take(data)
        if name in self.places:
            self.places[name].take(data)


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
    verdicts = {name: window.why() for name, window in grown.files.items() if name not in revised}
    verdicts |= {name: _revised(name, final.files, grown.files) for name in final.files}
    wanted = list(verdicts)
    for name in unwanted(directory, state.batch, wanted):
        verdicts[name] = _gone(grown.files.get(name))
    found = [_file_check(name, verdicts[name]) for name in sorted(verdicts, key=row_file_order)]
    there = (directory / TRAJECTORIES).exists()
    joined = _trajectories(regions, wanted, final, grown) if there else "missing"
    found.append(_file_check(TRAJECTORIES, joined))
    return found + _documents(reader, directory, state)


def _file_check(name: str, why: Why) -> FileCheck:
    return FileCheck(name, why is None, why)


def _revised(name: str, final: dict[str, Window], grown: dict[str, Window]) -> Why:
    """A revised file that still shows what it showed before the revision is behind."""
    why = final[name].why()
    return _gone(grown.get(name)) if why == "differs" else why


def _gone(grown: Window | None) -> Why:
    """A file that should be otherwise, or not at all: behind if it once was right, as far as it goes."""
    return "behind" if grown is not None and grown.why() in {None, "behind"} else "differs"


def _trajectories(
    regions: dict[int, Region] | None, wanted: Iterable[str], final: _Comparison, grown: _Comparison
) -> Why:
    if regions is None:
        return "differs"
    names = batch_files(wanted)
    whys = {_place(name, final.places, grown.places) for name in names}
    others = regions.keys() - {batch_number(name) for name in names}
    whys |= {_gone(grown.places.get(f"batch_{number}.jsonl")) for number in others}
    return "differs" if "differs" in whys else "behind" if "behind" in whys else None


def _place(name: str, final: dict[str, Window], grown: dict[str, Window]) -> Why:
    return _revised(name, final, grown) if name in final else grown[name].why()


def _documents(reader: Log, directory: Path, state: RunState) -> list[FileCheck]:
    checkpoint = b"".join(checkpoint_chunks(reader, state.batch))
    statistics = render_statistics(state)
    return [
        _file_check(name, _document(directory / name, expected, state.sequence))
        for name, expected in ((CHECKPOINT, checkpoint), (STATISTICS, statistics))
    ]


class _Stamp(msgspec.Struct):
    sequence: int


def _document(path: Path, expected: bytes, sequence: int) -> Why:
    """A document for an earlier sequence is behind; its own word is taken for that."""
    try:
        found = path.read_bytes()
    except FileNotFoundError:
        return "missing"
    if found == expected:
        return None
    try:
        stamp = msgspec.json.decode(found, type=_Stamp)
    except msgspec.DecodeError:
        return "differs"
    return "behind" if stamp.sequence < sequence else "differs"
