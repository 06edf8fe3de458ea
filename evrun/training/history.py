"""What a learner can read of earlier versions: log.jsonl, newest first, and a patch for each."""

from pathlib import Path

from eventlog.storage import LogReader
from projections import TrainingState

from .blobs import Blobs

NEWEST = 50


class History:
    """The newest versions of a run's adapter; brought up to date step by step, each patch made once."""

    def __init__(self, state: TrainingState, reader: LogReader, blobs: Blobs, newest: int = NEWEST) -> None:
        self._state, self._reader, self._blobs, self._newest = state, reader, blobs, newest

    def write(self, directory: Path) -> None:
        """Put log.jsonl and the patches into a directory, which is made if it is not there."""
        raise NotImplementedError
