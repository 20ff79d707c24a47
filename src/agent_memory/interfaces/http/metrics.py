"""`/metrics`, for Prometheus."""

from collections.abc import Iterator, Mapping

from fastapi import APIRouter, Response
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from agent_memory.features.monitoring.services.metrics import Metrics
from agent_memory.interfaces.bridge import Bridge
from agent_memory.interfaces.observing import BUCKETS, Observer


def build_router(bridge: Bridge, observer: Observer, figures: Metrics) -> APIRouter:
    routes = APIRouter(tags=["status"])
    registry = CollectorRegistry()
    registry.register(_Collector(observer, figures))

    @routes.get("/metrics", summary="Metrics for Prometheus", response_class=Response)
    async def metrics() -> Response:
        body = await bridge.run(lambda: generate_latest(registry))
        return Response(body, media_type=CONTENT_TYPE_LATEST)

    return routes


class _Collector(Collector):
    """Reads the counters on each scrape."""

    def __init__(self, observer: Observer, figures: Metrics) -> None:
        self._observer = observer
        self._metrics = figures

    def describe(self) -> Iterator[Metric]:
        yield from ()  # else registering would collect

    def collect(self) -> Iterator[Metric]:
        yield from self._operations()
        writable = GaugeMetricFamily(
            "agent_memory_store_writable", "1 if the store takes writes, 0 if it is failing"
        )
        writable.add_metric([], int(self._metrics.get_health().writable))
        yield writable
        yield _gauges(
            "queue_depth", "Items waiting in each queue", "queue", self._metrics.count_pending()
        )
        yield _gauges("stored", "Stored records and bytes", "what", self._metrics.sizes())
        failures = CounterMetricFamily(
            "agent_memory_job_failures", "Failures of each background job", labels=["job"]
        )
        for job in self._metrics.list_jobs():
            failures.add_metric([job.name], job.state.error_count)
        yield failures

    def _operations(self) -> Iterator[Metric]:
        labels = ["interface", "operation", "outcome"]
        counts = CounterMetricFamily(
            "agent_memory_operations", "Operations, by interface and outcome", labels=labels
        )
        seconds = HistogramMetricFamily(
            "agent_memory_operation_seconds", "Duration of operations", labels=labels
        )
        bounds = [*(str(bound) for bound in BUCKETS), "+Inf"]
        for operation, tally in self._observer.snapshot().items():
            counts.add_metric(list(operation), tally.count)
            total, buckets = 0, []
            for bound, count in zip(bounds, tally.buckets, strict=True):
                total += count
                buckets.append((bound, float(total)))
            seconds.add_metric(list(operation), buckets, tally.seconds)
        yield counts
        yield seconds


def _gauges(name: str, text: str, label: str, values: Mapping[str, int]) -> Metric:
    family = GaugeMetricFamily(f"agent_memory_{name}", text, labels=[label])
    for each, value in values.items():
        family.add_metric([each], value)
    return family
