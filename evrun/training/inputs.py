"""The inputs of a run by digest: what a resume compares with the record."""

from eventlog.events import InputDigest

from .blobs import Files
from .config import TrainingConfig


def input_digests(config: TrainingConfig, template_files: Files) -> list[InputDigest]:
    """Digests of tasks, splits, task_info, template, and of the user's code.

    Raises:
        UsageFault: a file cannot be read.
    """
    raise NotImplementedError
