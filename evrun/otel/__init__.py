"""Spans of a run for OpenTelemetry, read from its log: what a collector missed is sent later."""

from .cursor import Cursor, read_cursor
from .sending import CollectorDown, Sender, traces_url
from .tracing import LiveTracing, live_tracing, send_run

__all__ = [
    "CollectorDown",
    "Cursor",
    "LiveTracing",
    "Sender",
    "live_tracing",
    "read_cursor",
    "send_run",
    "traces_url",
]
