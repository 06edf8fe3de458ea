"""A span of ours as OpenTelemetry's."""

from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import SpanContext, SpanKind, Status, StatusCode, TraceFlags

from projections import Span


def readable(span: Span, version: str) -> ReadableSpan:
    """The same span, with the resource and scope by which collectors know where it is from."""
    parent = None if span.parent_id is None else _context(span.trace_id, span.parent_id)
    status = Status(StatusCode.OK) if span.error is None else Status(StatusCode.ERROR, span.error)
    return ReadableSpan(
        name=span.name,
        context=_context(span.trace_id, span.span_id),
        parent=parent,
        resource=Resource({"service.name": "evrun", "service.version": version}),
        attributes=span.attributes,
        kind=SpanKind.CLIENT if span.kind == "client" else SpanKind.INTERNAL,
        status=status,
        start_time=span.start_ns,
        end_time=span.end_ns,
        instrumentation_scope=InstrumentationScope("evrun", version),
    )


def _context(trace_id: int, span_id: int) -> SpanContext:
    return SpanContext(trace_id, span_id, is_remote=False, trace_flags=TraceFlags(TraceFlags.SAMPLED))
