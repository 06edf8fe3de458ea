"""Everything that touches the world: endpoints, processes, clocks."""

import sys

from .clock import monotonic, random_bytes
from .processes_stop import Stopping, stop_holder

# httpx loads a command line of its own, with rich and pygments, wherever it finds them: a tenth of the time
# that a run takes to start. What is null here counts as not installed, and httpx does without.
sys.modules.setdefault("httpx._main", None)  # type: ignore[arg-type]

__all__ = ["Stopping", "monotonic", "random_bytes", "stop_holder"]
