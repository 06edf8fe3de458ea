"""A dataset directory that `datasets.load_from_disk` reads, saved by the `datasets` package itself."""

from collections.abc import Iterable
from importlib import import_module
from pathlib import Path
from typing import Any

from ..errors import UsageFault
from .tables import arrow_schema, tables

_ROWS = "rows.arrow"


def need_datasets() -> tuple[Any, Any]:
    """`pyarrow` and `datasets`.

    Raises:
        UsageFault: one is not installed.
    """
    try:
        return import_module("pyarrow"), import_module("datasets")
    except ImportError as error:
        raise UsageFault(
            "--format hf needs the datasets package, which is not installed", hint="pip install 'evrun[hf]'"
        ) from error


def save_dataset(
    rows: Iterable[tuple[list[Any], int]], directory: Path, fingerprint: str, description: str
) -> None:
    """Fill an empty directory. The rows go through a file in it, which is mapped, never read whole.

    `fingerprint` is what the package knows the dataset by: the same one for the same rows, so that what its
    users derive from the dataset is found again in their caches.
    """
    pa, datasets = need_datasets()
    schema = arrow_schema(pa)
    spooled = directory.with_name(f"{directory.name}.{_ROWS}")
    try:
        with pa.OSFile(str(spooled), "wb") as file, pa.ipc.new_stream(file, schema) as writer:
            for table in tables(pa, schema, rows):
                writer.write_table(table)
        _save(datasets, spooled, directory, fingerprint, description)
    finally:
        spooled.unlink(missing_ok=True)


def _save(datasets: Any, spooled: Path, directory: Path, fingerprint: str, description: str) -> None:
    bars = datasets.are_progress_bars_disabled()
    datasets.disable_progress_bars()
    try:
        table = datasets.table.MemoryMappedTable.from_file(str(spooled))
        info = datasets.DatasetInfo(description=description)
        dataset = datasets.Dataset(table, info=info, fingerprint=fingerprint)
        # Unless it is told, the package saves a dataset without rows so that it cannot be loaded.
        dataset.save_to_disk(str(directory), num_shards=None if dataset.num_rows else 1)
    finally:
        if not bars:
            datasets.enable_progress_bars()
