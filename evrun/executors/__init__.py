"""Where sessions run: in this process, or on the nodes of a cluster. The driver is always the one writer."""

from .base import Cluster, Executor, Lost, Place, Session

__all__ = ["Cluster", "Executor", "Lost", "Place", "Session"]
