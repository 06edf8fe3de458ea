"""The views of a training run compared with its log, writing nothing."""

from pathlib import Path

from ..load import Log
from .check import FileCheck


def check_training(reader: Log, directory: Path, to_sequence: int | None = None) -> list[FileCheck]:
    """Compare every view in `directory` with the events up to a sequence (the durable end without one).

    Raises:
        EventLogError: the log cannot be read, or a newer evrun wrote it.
    """
    raise NotImplementedError
