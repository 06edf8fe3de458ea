"""Spans on their way to a collector, by OTLP over HTTP; through OpenTelemetry's own exporter."""

import logging
from collections.abc import Sequence
from importlib.util import find_spec
from urllib.parse import urlsplit

from projections import Span

from ..errors import RunFailed, UsageFault
from ..versions import versions

TIMEOUT_S = 10.0
_PATH = "/v1/traces"


class CollectorDown(RunFailed):
    """The collector did not take the spans; they are in the log, and can be sent later."""


def traces_url(given: str) -> str:
    """Where spans go: an address as OTEL_EXPORTER_OTLP_ENDPOINT has it, with the path for traces.

    Raises:
        UsageFault: it is no address.
    """
    parts = urlsplit(given)
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise UsageFault(f"--otel {given}: expected an address of a collector", "http://127.0.0.1:4318")
    if parts.username is not None or parts.password is not None:
        raise UsageFault(
            f"--otel holds a user name or password for {parts.hostname}",
            "give them as OTEL_EXPORTER_OTLP_HEADERS in the environment",
        )
    return given if parts.path.rstrip("/").endswith(_PATH) else given.rstrip("/") + _PATH


def check_collector(given: str | None) -> None:
    """Refuse a collector to which nothing could be sent.

    Raises:
        UsageFault: it is no address, or OpenTelemetry is not installed.
    """
    if given is not None:
        traces_url(given)
        if find_spec("opentelemetry") is None or find_spec("opentelemetry.exporter") is None:
            raise UsageFault("--otel: OpenTelemetry is not installed", "pip install 'evrun[otel]'")


class Sender:
    """Sends spans to one collector. Headers and certificates are taken from OpenTelemetry's variables.

    Raises:
        UsageFault: the extra is not installed.
    """

    def __init__(self, url: str) -> None:
        self.url = url
        try:
            from opentelemetry.exporter.otlp.proto.http.trace_exporter import (  # noqa: PLC0415 (an extra)
                OTLPSpanExporter,
            )
        except ImportError as error:
            raise UsageFault("--otel: OpenTelemetry is not installed", "pip install 'evrun[otel]'") from error
        # It tells of every try; one line of ours says what it comes to.
        logging.getLogger("opentelemetry").setLevel(logging.CRITICAL)
        self._exporter = OTLPSpanExporter(endpoint=url, timeout=TIMEOUT_S)

    def send(self, spans: Sequence[Span]) -> None:
        """Send spans and return when the collector has them.

        Raises:
            CollectorDown: it did not take them.
        """
        from opentelemetry.sdk.trace.export import SpanExportResult  # noqa: PLC0415 (an extra)

        from .readable import readable  # noqa: PLC0415 (likewise)

        try:
            result = self._exporter.export([readable(span, versions()["evrun"]) for span in spans])
        except Exception as error:
            raise CollectorDown(f"the collector {self.url}: {error}") from error
        if result is not SpanExportResult.SUCCESS:
            raise CollectorDown(f"the collector {self.url} did not take {len(spans)} spans")

    def close(self) -> None:
        """Let go of connections."""
        self._exporter.shutdown()  # type: ignore[no-untyped-call]  # theirs has no types
