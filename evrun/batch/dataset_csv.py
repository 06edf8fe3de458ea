"""CSV datasets: the header names the fields, each further record is a row, and all cells are text."""

import codecs
import csv
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

from ..errors import DatasetFault, UsageFault

LARGEST_CELL = 250 << 20
"""In letters; a quote that is never closed would make the rest of a file one cell."""
_UNDECODED = re.compile("[\udc80-\udcff]")


class _Lines:
    """Lines as text, counted. What is no UTF-8 is kept as surrogates, for the complaint to find."""

    def __init__(self, lines: Iterable[bytes]) -> None:
        self._lines = iter(lines)
        self.number = 0

    def __iter__(self) -> "_Lines":
        return self

    def __next__(self) -> str:
        line = next(self._lines)
        self.number += 1
        if self.number == 1:
            line = line.removeprefix(codecs.BOM_UTF8)
        return line.decode("utf-8", "surrogateescape")


def read_csv(lines: Iterable[bytes], path: Path) -> Iterator[tuple[int, dict[str, str] | str]]:
    """The rows of a CSV file, each with the line where it begins; a text is what is wrong with it.

    Raises:
        DatasetFault: the header cannot be used.
        UsageFault: a cell without end.
    """
    header: list[str] | None = None
    for number, cells in _records(lines, path):
        if isinstance(cells, str):
            if header is None:
                raise _bad_header(path, number, cells)
            yield number, cells
        elif header is None:
            header = _checked_header(path, number, cells)
        elif len(cells) != len(header):
            yield number, f"{_counted(len(cells))}, and the header names {len(header)}"
        else:
            yield number, _row(header, cells)


def _records(lines: Iterable[bytes], path: Path) -> Iterator[tuple[int, list[str] | str]]:
    """Records that are not blank, with the number of their first line."""
    # The limit is the module's, for the whole process; nothing else here reads CSV.
    csv.field_size_limit(LARGEST_CELL)
    counted = _Lines(lines)
    reader = csv.reader(counted, strict=True)
    while True:
        number = counted.number + 1
        try:
            cells = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            yield number, _complaint(error, number, counted.number, path)
            continue
        if cells:
            yield number, cells


def _complaint(error: csv.Error, first: int, last: int, path: Path) -> str:
    if "field limit" in str(error):
        raise UsageFault(
            f"dataset {path}: line {first}: a cell of more than {LARGEST_CELL} letters",
            hint="perhaps a quote is opened there that is never closed",
        ) from error
    if "unexpected end" in str(error):
        return f"bad CSV: a quote is opened here and never closed; the file ends at line {last}"
    return f"bad CSV: {error}; a quote inside a cell is written twice"


def _row(header: list[str], cells: list[str]) -> dict[str, str] | str:
    bad = [name for name, cell in zip(header, cells, strict=True) if _undecoded(cell)]
    return f"bad UTF-8 in column {bad[0]!r}" if bad else dict(zip(header, cells, strict=True))


def _checked_header(path: Path, number: int, names: list[str]) -> list[str]:
    if any(map(_undecoded, names)):
        raise _bad_header(path, number, "bad UTF-8 in the header")
    if len(names) == 1 and (found := next((mark for mark in ";\t|" if mark in names[0]), None)):
        raise _bad_header(path, number, f"expected commas between the names, found {found!r}")
    blank = [str(place) for place, name in enumerate(names, 1) if not name.strip()]
    if blank:
        raise _bad_header(path, number, f"column {', '.join(blank)} has no name")
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        places = [str(place) for place, name in enumerate(names, 1) if name == twice[0]]
        raise _bad_header(path, number, f"columns {', '.join(places)} are all named {twice[0]!r}")
    return names


def _bad_header(path: Path, number: int, found: str) -> DatasetFault:
    return DatasetFault(
        f"{path}: the header cannot be used; nothing was run\nline {number}: {found}",
        lines=[(number, found)],
        hint="the first line names the columns, each once, with commas between",
    )


def _undecoded(text: str) -> bool:
    return not text.isascii() and _UNDECODED.search(text) is not None


def _counted(cells: int) -> str:
    return "1 cell" if cells == 1 else f"{cells} cells"
