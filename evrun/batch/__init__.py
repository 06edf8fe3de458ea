"""Batch runs: prompts in, trajectories out."""

from .dataset import spool_stdin
from .options import Options
from .session import run_batch, run_batch_sync
from .work import Result, Ui

__all__ = ["Options", "Result", "Ui", "run_batch", "run_batch_sync", "spool_stdin"]
