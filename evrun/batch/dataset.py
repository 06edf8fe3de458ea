"""Datasets: lines in, rows or precise complaints out. Reading is streaming; no row is kept."""

import codecs
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ..errors import DatasetFault
from .dataset_csv import read_csv
from .dataset_files import form_of, opened_lines, spool_stdin
from .dataset_parquet import read_parquet
from .dataset_rows import BadLine, Row, RowReader
from .dataset_terms import Terms, terms_of

__all__ = ["BadLine", "Row", "Terms", "read_dataset", "refuse_bad_lines", "spool_stdin", "terms_of"]

_PLAIN = Terms()


def read_dataset(path: Path, terms: Terms = _PLAIN) -> Iterator[Row | BadLine]:
    """The rows of a dataset: JSONL or CSV (plain, .gz or .zst), or parquet; blank lines left out.

    Numbers are those of lines, in a parquet file those of rows, from 1.

    Raises:
        UsageFault: no such file, or a form that evrun does not read.
        DatasetFault: the header of a CSV file cannot be used.
    """
    form, rows = form_of(path), RowReader(terms)
    if form == "parquet":
        yield from _of_table(read_parquet(path, terms.fields | {"prompt"}), rows)
        return
    with opened_lines(path) as lines:
        if form == "csv":
            yield from _of_table(read_csv(lines, path), rows)
            return
        for number, line in enumerate(lines, 1):
            if number == 1:
                line = line.removeprefix(codecs.BOM_UTF8)  # noqa: PLW2901 (the mark belongs to the file, not to the row)
            text = line.strip(b" \t\r\n")
            if text:
                yield rows.of_text(number, text)


def refuse_bad_lines(bad: list[BadLine], dataset: str) -> None:
    """Say all that is wrong with a dataset at once.

    Raises:
        DatasetFault: there is at least one bad line.
    """
    if bad:
        listing = "\n".join(f"line {line}: {found}" for line, found in bad)
        nameless = any(found.startswith('no "prompt"') for _, found in bad)
        ways = ["mend these lines", *(["name their fields with --template"] if nameless else [])]
        raise DatasetFault(
            f"{dataset}: lines that cannot be used: {len(bad)}; nothing was run\n{listing}",
            lines=list(bad),
            hint=f"{', '.join(ways)}, or leave them out with --skip-bad-rows",
        )


def _of_table(cells: Iterator[tuple[int, dict[str, Any] | str]], rows: RowReader) -> Iterator[Row | BadLine]:
    for number, found in cells:
        yield BadLine(number, found) if isinstance(found, str) else rows.of_cells(number, found)
