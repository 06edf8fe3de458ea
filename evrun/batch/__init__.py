"""Batch runs: prompts in, trajectories out."""

from ..caps import CAP_OPTIONS, parse_cap
from ..estimate import REFUSAL_TOKENS, RESULT_TOKENS
from .cap_outlook import CapOutlook
from .control import Switch
from .dataset import spool_stdin
from .dry_run import DryRun, dry_run, dry_run_sync
from .options import Options
from .session import run_batch, run_batch_sync
from .settling import parse_settlements, settle_calls
from .work import Result, Ui, report_of

__all__ = [
    "CAP_OPTIONS",
    "REFUSAL_TOKENS",
    "RESULT_TOKENS",
    "CapOutlook",
    "DryRun",
    "Options",
    "Result",
    "Switch",
    "Ui",
    "dry_run",
    "dry_run_sync",
    "parse_cap",
    "parse_settlements",
    "report_of",
    "run_batch",
    "run_batch_sync",
    "settle_calls",
    "spool_stdin",
]
