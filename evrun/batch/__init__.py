"""Batch runs: prompts in, trajectories out."""

from ..caps import CAP_OPTIONS, parse_cap
from .dataset import spool_stdin
from .options import Options
from .session import run_batch, run_batch_sync
from .settling import parse_settlements, settle_calls
from .work import Result, Ui

__all__ = [
    "CAP_OPTIONS",
    "Options",
    "Result",
    "Ui",
    "parse_cap",
    "parse_settlements",
    "run_batch",
    "run_batch_sync",
    "settle_calls",
    "spool_stdin",
]
