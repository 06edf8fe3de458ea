"""Rows as Arrow tables, and these as a parquet file. The only module that knows pyarrow's types."""

import io
from collections.abc import Iterable, Iterator
from importlib import import_module
from typing import Any

from projections import EXPORT_COLUMNS

from ..errors import UsageFault

GROUP_BYTES = 16 << 20
GROUP_ROWS = 8192
"""A table holds no more: so much is in memory at once, but for a single row that is larger."""


def need_pyarrow() -> tuple[Any, Any]:
    """`pyarrow` and `pyarrow.parquet`.

    Raises:
        UsageFault: it is not installed.
    """
    try:
        return import_module("pyarrow"), import_module("pyarrow.parquet")
    except ImportError as error:
        raise UsageFault(
            "--format parquet needs pyarrow, which is not installed", hint="pip install 'evrun[parquet]'"
        ) from error


def arrow_schema(pa: Any, metadata: dict[str, str] | None = None) -> Any:
    """The columns as an Arrow schema; `metadata` says what the rows were made from."""
    text, whole, yes_no = pa.string(), pa.int64(), pa.bool_()
    usage = [(name, whole) for name in ("input_tokens", "cached_input_tokens", "output_tokens")]
    types = {
        "text": text,
        "json": text,
        "int": whole,
        "float": pa.float64(),
        "bool": yes_no,
        "texts": pa.list_(text),
        "turns": pa.list_(pa.struct([("from", text), ("value", text)])),
        "usage": pa.struct([*usage, ("reasoning_tokens", whole)]),
        "error": pa.struct([("class", text), ("message", text), ("status", whole), ("retryable", yes_no)]),
    }
    fields = [
        pa.field(column.name, types[column.kind], metadata={"description": column.says})
        for column in EXPORT_COLUMNS
    ]
    return pa.schema(fields, metadata=metadata)


def tables(pa: Any, schema: Any, rows: Iterable[tuple[list[Any], int]]) -> Iterator[Any]:
    """Rows, each with about how many bytes it has, as tables of a bounded size."""
    held: list[list[Any]] = []
    size = 0
    for values, length in rows:
        if held and (size + length > GROUP_BYTES or len(held) == GROUP_ROWS):
            yield _table(pa, schema, held)
            held, size = [], 0
        held.append(values)
        size += length
    if held:
        yield _table(pa, schema, held)


def _table(pa: Any, schema: Any, rows: list[list[Any]]) -> Any:
    columns = zip(*rows, strict=True)
    arrays = [pa.array(list(column), field.type) for column, field in zip(columns, schema, strict=True)]
    return pa.table(arrays, schema=schema)


def parquet_chunks(rows: Iterable[tuple[list[Any], int]], metadata: dict[str, str]) -> Iterator[bytes]:
    """The bytes of a parquet file, a row group at a time, compressed with zstandard."""
    pa, pq = need_pyarrow()
    schema = arrow_schema(pa, metadata)
    sink = _Sink()
    with pq.ParquetWriter(sink, schema, compression="zstd") as writer:
        for table in tables(pa, schema, rows):
            writer.write_table(table)
            yield sink.taken()
    yield sink.taken()


class _Sink(io.RawIOBase):
    """A file that is only written, whose bytes are taken away as they come."""

    def __init__(self) -> None:
        super().__init__()
        self._held: list[bytes] = []
        self._size = 0

    def writable(self) -> bool:
        """It is."""
        return True

    def tell(self) -> int:
        """How many bytes were written so far."""
        return self._size

    def write(self, data: Any) -> int:
        """Take all of `data`."""
        held = bytes(data)
        self._held.append(held)
        self._size += len(held)
        return len(held)

    def close(self) -> None:
        """There is nothing to close; what was written last is still to be taken."""

    def taken(self) -> bytes:
        """The bytes since the last time."""
        data = b"".join(self._held)
        self._held.clear()
        return data
