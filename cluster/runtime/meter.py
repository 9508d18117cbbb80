"""A meter that Ray exports for Prometheus: values are summed in this process and exported every few seconds.

A request costs only an addition under a lock; a thread exports to Ray. A killed process loses the
values of its last seconds.

Each export repeats the last value of every gauge, because Ray drops a series without a new value for two of
its export intervals. A gauge is valid until its owner sets another value or removes it, or until the process
ends.

    every process with Ray in it -> RayMeter -> Ray's agent on the node -> Prometheus

Names become `ray_<name>`; Ray adds the node, and `_total` to counters.
"""

from __future__ import annotations

import atexit
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import structlog

EVERY_S = 5.0
MOST_SAMPLES = 64
"Durations kept for each name and tags between exports: enough for percentiles; counters are exact."
BOUNDS_MS = (0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 30_000, 120_000)

Tags = tuple[tuple[str, str], ...]


@dataclass(slots=True)
class Numbers:
    """Counts and times since the last export, and the last value of each gauge, by name and tags."""

    counts: dict[tuple[str, Tags], float] = field(default_factory=dict)
    gauges: dict[tuple[str, Tags], float] = field(default_factory=dict)
    times: dict[tuple[str, Tags], list[float]] = field(default_factory=dict)


class Export(Protocol):
    """The destination of the values."""

    def __call__(self, numbers: Numbers) -> None: ...


class RayMeter:
    """`Meter` over Ray's metrics."""

    def __init__(self, *, export: Export | None = None, every_s: float = EVERY_S) -> None:
        self._export = RayMetricExporter() if export is None else export
        self._every_s = every_s
        self._numbers = Numbers()
        self._gauges: dict[tuple[str, Tags], float] = {}
        self._lock = threading.Lock()
        self._stop = threading.Event()
        threading.Thread(target=self._live, name="meter", daemon=True).start()
        # The thread is a daemon, so the values since its last export would be lost at the end.
        atexit.register(self.close)

    def count(self, name: str, by: float = 1, **tags: str) -> None:
        place = name, _sorted(tags)
        with self._lock:
            self._numbers.counts[place] = self._numbers.counts.get(place, 0.0) + by

    def time(self, name: str, ms: float, **tags: str) -> None:
        place = name, _sorted(tags)
        with self._lock:
            samples = self._numbers.times.setdefault(place, [])
            # The first ones and not a random choice: a request pays for a comparison only.
            if len(samples) < MOST_SAMPLES:
                samples.append(ms)

    def gauge(self, name: str, value: float, **tags: str) -> None:
        with self._lock:
            self._gauges[name, _sorted(tags)] = value

    def remove_gauge(self, name: str, **tags: str) -> None:
        with self._lock:
            self._gauges.pop((name, _sorted(tags)), None)

    def flush(self) -> None:
        """Export the values since the last export, and all gauges."""
        with self._lock:
            # Swapped under the lock and exported outside it, so that no request waits for Ray.
            numbers = self._numbers
            self._numbers = Numbers()
            numbers.gauges = dict(self._gauges)
        try:
            self._export(numbers)
        except Exception as error:  # noqa: BLE001 - a failure of metrics must never stop the work
            structlog.get_logger().warning("metrics_not_exported", kind=type(error).__name__)

    def close(self) -> None:
        """Export the rest and stop."""
        if not self._stop.is_set():
            self._stop.set()
            self.flush()

    def _live(self) -> None:
        while not self._stop.wait(self._every_s):
            self.flush()


class RayMetricExporter:
    """Exports values to Ray; a metric is created with the tags of its first value."""

    def __init__(self) -> None:
        self._made: dict[str, tuple[Any, tuple[str, ...]]] = {}

    def __call__(self, numbers: Numbers) -> None:
        """Export the values."""
        from ray.util.metrics import Counter, Gauge, Histogram

        for (name, tags), by in numbers.counts.items():
            # Ray's counter raises an error for zero.
            if by > 0:
                metric, given = self._metric(Counter, name, tags)
                metric.inc(by, tags=given)
        for (name, tags), value in numbers.gauges.items():
            metric, given = self._metric(Gauge, name, tags)
            metric.set(value, tags=given)
        for (name, tags), samples in numbers.times.items():
            metric, given = self._metric(Histogram, name, tags, boundaries=BOUNDS_MS)
            for sample in samples:
                metric.observe(sample, tags=given)

    def _metric(
        self, kind: Any, name: str, tags: Tags, *, boundaries: Sequence[float] = ()
    ) -> tuple[Any, Mapping[str, str]]:
        # The tags of a metric are fixed when it is made.
        if name not in self._made:
            keys = tuple(key for key, _ in tags)
            more = {"boundaries": list(boundaries)} if boundaries else {}
            self._made[name] = (
                # The exporter appends `_total` to the name of every counter.
                kind(name.removesuffix("_total"), description=name, tag_keys=keys, **more),
                keys,
            )
        metric, keys = self._made[name]
        given = dict(tags)
        # Ray refuses a value that lacks one of the metric's tags.
        return metric, {key: given.get(key, "") for key in keys}


def _sorted(tags: Mapping[str, str]) -> Tags:
    return tuple(sorted(tags.items())) if tags else ()
