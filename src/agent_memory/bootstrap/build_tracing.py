"""Build the exporter of trace spans, if one is set."""

from typing import TYPE_CHECKING

from agent_memory import __version__
from agent_memory.config import Settings
from agent_memory.kernel.errors import ConfigError, FeatureUnavailable

if TYPE_CHECKING:
    from agent_memory.features.monitoring.adapters.otel import OtelSpans


def build_span_exporter(settings: Settings) -> "OtelSpans | None":
    endpoint = settings.telemetry.otlp_endpoint
    if not endpoint:
        return None
    if not endpoint.startswith(("http://", "https://")):
        raise ConfigError(
            f"telemetry.otlp_endpoint is {endpoint!r}: give an address as"
            " http://localhost:4318/v1/traces"
        )
    try:
        from agent_memory.features.monitoring.adapters.otel import OtelSpans
    except ImportError as exc:
        raise FeatureUnavailable(
            "telemetry.otlp_endpoint is set, and OpenTelemetry is not installed:"
            " pip install 'agent-memory[otel]'"
        ) from exc
    return OtelSpans(endpoint, __version__)
