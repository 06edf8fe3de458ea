"""Batch runs: prompts in, trajectories out."""

from ..caps import CAP_OPTIONS, parse_cap
from .dataset import spool_stdin
from .options import Options
from .session import run_batch, run_batch_sync
from .work import Result, Ui

__all__ = [
    "CAP_OPTIONS",
    "Options",
    "Result",
    "Ui",
    "parse_cap",
    "run_batch",
    "run_batch_sync",
    "spool_stdin",
]
