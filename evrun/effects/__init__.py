"""Everything that touches the world: endpoints, processes, clocks."""

from .clock import monotonic

__all__ = ["monotonic"]
