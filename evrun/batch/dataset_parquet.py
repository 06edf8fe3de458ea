"""Parquet datasets: rows in bounded portions, as JSON can hold them."""

from collections import Counter
from collections.abc import Collection, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

from ..errors import UsageFault
from .dataset_files import unreadable

PORTION_BYTES = 4 << 20
"""About so much is turned into rows at once; a single row may be larger."""
MOST_ROWS = 1024
_TURNS = ("messages", "conversations", "body")


def read_parquet(path: Path, asked: Collection[str]) -> Iterator[tuple[int, dict[str, Any] | str]]:
    """The rows of a parquet file, numbered from 1; a text is what is wrong with one.

    Columns that are `asked` must not hold bytes, which would be sent as base64 text. What is null inside
    messages is left out, because parquet has no other way to say that a field is not there.

    Raises:
        UsageFault: no such file, not parquet, damaged; or pyarrow is not installed.
    """
    pa, pq = _pyarrow(path)
    number = 0
    try:
        # Nothing is read ahead: a row group may hold the whole file.
        with pq.ParquetFile(path, pre_buffer=False, buffer_size=1 << 20) as file:
            _check_columns(file.schema_arrow.names, path)
            for batch in file.iter_batches(_rows_at_once(file.metadata), use_threads=False):
                for row in _rows(_milder_batch(pa, batch)):
                    number += 1
                    yield number, row if isinstance(row, str) else _usable(row, asked)
    except (OSError, pa.ArrowException) as error:
        raise unreadable(path, error) from error


def _pyarrow(path: Path) -> tuple[Any, Any]:
    try:
        # An extra, loaded only where it is needed.
        return import_module("pyarrow"), import_module("pyarrow.parquet")
    except ImportError as error:
        raise UsageFault(
            f"dataset {path}: reading parquet needs pyarrow, which is not installed",
            hint="pip install 'evrun[parquet]'",
        ) from error


def _check_columns(names: list[str], path: Path) -> None:
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise UsageFault(f"dataset {path}: two columns are named {twice[0]!r}", hint="name each column once")


def _rows_at_once(metadata: Any) -> int:
    """So many rows as make a portion where the rows of a group are largest."""
    groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
    sizes: list[int] = [group.total_byte_size // group.num_rows for group in groups if group.num_rows]
    return max(1, min(MOST_ROWS, PORTION_BYTES // max([1, *sizes])))


def _rows(batch: Any) -> Iterator[dict[str, Any] | str]:
    try:
        yield from batch.to_pylist()
    except UnicodeDecodeError:
        for place in range(batch.num_rows):
            try:
                yield from batch.slice(place, 1).to_pylist()
            except UnicodeDecodeError as error:
                yield f"bad UTF-8 at byte {error.start} of a text"


def _usable(row: dict[str, Any], asked: Collection[str]) -> dict[str, Any] | str:
    for name in asked:
        if isinstance(row.get(name), bytes):
            return f"{name} is not a string: found bytes"
    for name in _TURNS:
        if isinstance(row.get(name), list | dict):
            row[name] = _without_nulls(row[name])
    return row


def _without_nulls(value: Any) -> Any:
    """What is there of a struct. A content that is null says something: the answer was a tool call alone."""
    if isinstance(value, list):
        return [_without_nulls(item) for item in value]
    if isinstance(value, dict):
        return {k: _without_nulls(item) for k, item in value.items() if item is not None or k == "content"}
    return value


def _milder_batch(pa: Any, batch: Any) -> Any:
    """Moments to the microsecond: Python has none that are finer."""
    fields = list(batch.schema)
    types = [_milder(pa, field.type) for field in fields]
    if all(field.type == kind for field, kind in zip(fields, types, strict=True)):
        return batch
    columns = [column.cast(kind, safe=False) for column, kind in zip(batch.columns, types, strict=True)]
    return pa.RecordBatch.from_arrays(columns, names=[field.name for field in fields])


def _milder(pa: Any, kind: Any) -> Any:
    if pa.types.is_timestamp(kind) and kind.unit == "ns":
        return pa.timestamp("us", kind.tz)
    if pa.types.is_time64(kind) and kind.unit == "ns":
        return pa.time64("us")
    if pa.types.is_duration(kind) and kind.unit == "ns":
        return pa.duration("us")
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(f.name, _milder(pa, f.type), f.nullable) for f in kind])
    if pa.types.is_large_list(kind):
        return pa.large_list(_milder(pa, kind.value_type))
    if pa.types.is_list(kind):
        return pa.list_(_milder(pa, kind.value_type))
    return kind
