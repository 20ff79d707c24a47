"""What monitoring needs: where traces go."""

from typing import Protocol

from agent_memory.kernel.tracing import Span


class SpanExporter(Protocol):
    """Exports traces of requests. Never blocks."""

    def record(self, span: Span, /) -> None: ...

    def close(self) -> None: ...
