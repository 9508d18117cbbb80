"""The values of a meter on a port of loopback, as Ray's agent exports them, for components without Ray."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, start_http_server

from cluster.runtime.meter import BOUNDS_MS, Numbers, RayMeter, Tags

EVERY_S = 1.0


class Endpoint:
    """An `Export` with the names and buckets of `RayMetricExporter`."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._made: dict[str, Any] = {}

    def __call__(self, numbers: Numbers) -> None:
        """Take the values since the last export."""
        for (name, tags), by in numbers.counts.items():
            self._find(Counter, name, tags).inc(by)
        for (name, tags), value in numbers.gauges.items():
            self._find(Gauge, name, tags).set(value)
        for (name, tags), samples in numbers.times.items():
            for sample in samples:
                self._find(Histogram, name, tags, buckets=BOUNDS_MS).observe(sample)

    def _find(self, kind: Any, name: str, tags: Tags, **more: Any) -> Any:
        labels = dict(tags)
        if name not in self._made:
            exported = "ray_" + name.removesuffix("_total")
            self._made[name] = kind(exported, name, list(labels), registry=self.registry, **more)
        metric = self._made[name]
        return metric.labels(**labels) if labels else metric


@contextmanager
def metered() -> Iterator[tuple[RayMeter, str]]:
    """Give the meter that a component counts with, and the address where Prometheus reads it."""
    endpoint = Endpoint()
    meter = RayMeter(export=endpoint, every_s=EVERY_S)
    server, thread = start_http_server(0, "127.0.0.1", endpoint.registry)
    try:
        yield meter, f"127.0.0.1:{server.server_port}"
    finally:
        meter.close()
        server.shutdown()
        server.server_close()
        thread.join()
