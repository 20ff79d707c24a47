"""Traces to an OpenTelemetry collector. Needs the packages of the extra `otel`."""

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import (
    NonRecordingSpan,
    SpanContext,
    StatusCode,
    TraceFlags,
    set_span_in_context,
)

from agent_memory.kernel.tracing import Span, TraceContext

EXPORT_SECONDS = 2
_GOOD = frozenset({"ok", "refused"})
_SERVER_ERROR = 500  # the first HTTP status that is the server's fault


class OtelSpans:
    """Sends spans in batches from a thread of its own. Recording never waits."""

    def __init__(self, endpoint: str, version: str) -> None:
        resource = Resource.create({"service.name": "agent-memory", "service.version": version})
        self._provider = TracerProvider(resource=resource, shutdown_on_exit=False)
        exporter = OTLPSpanExporter(endpoint=endpoint, timeout=EXPORT_SECONDS)
        self._provider.add_span_processor(BatchSpanProcessor(exporter))
        self._tracer = self._provider.get_tracer("agent_memory", version)

    def record(self, span: Span, /) -> None:
        made = self._tracer.start_span(
            f"{span.interface} {span.operation}",
            context=None if span.trace is None else set_span_in_context(_parent(span.trace)),
            start_time=span.started_ns,
            attributes={
                "agent_memory.interface": span.interface.value,
                "agent_memory.operation": span.operation,
                "agent_memory.outcome": span.outcome,
            },
        )
        if not (
            span.outcome in _GOOD or (span.outcome.isdigit() and int(span.outcome) < _SERVER_ERROR)
        ):
            made.set_status(StatusCode.ERROR, span.outcome)
        made.end(end_time=span.ended_ns)

    def close(self) -> None:
        self._provider.shutdown()


def _parent(trace: TraceContext) -> NonRecordingSpan:
    return NonRecordingSpan(
        SpanContext(
            trace_id=int(trace.trace_id, 16),
            span_id=int(trace.parent_id, 16),
            is_remote=True,
            trace_flags=TraceFlags(TraceFlags.SAMPLED),
        )
    )
