"""Everything that touches the world: endpoints, processes, clocks."""

from .clock import monotonic, random_bytes

__all__ = ["monotonic", "random_bytes"]
