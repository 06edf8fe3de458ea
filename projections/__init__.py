"""What it means: pure folds over the events, and the files people look at."""

from .batch import BatchState
from .calls import Call
from .money import usd
from .spend import Ledger
from .state import RunState
from .units import Unit, idempotency_key, unit_name

__all__ = [
    "BatchState",
    "Call",
    "Ledger",
    "RunState",
    "Unit",
    "idempotency_key",
    "unit_name",
    "usd",
]
