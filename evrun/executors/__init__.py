"""Where sessions run: in this process, or on the nodes of a cluster. The driver is always the one writer."""

from .base import Executor, Lost, Session

__all__ = ["Executor", "Lost", "Session"]
