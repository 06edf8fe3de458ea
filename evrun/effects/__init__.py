"""Everything that touches the world: endpoints, processes, clocks."""

from .clock import monotonic, random_bytes
from .processes_stop import Stopping, stop_holder

__all__ = ["Stopping", "monotonic", "random_bytes", "stop_holder"]
