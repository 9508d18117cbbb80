"""Live figures of an API replica for the console: counts and durations between two reports, added up in the store.

    requests  errors  refused      requests; those with status 500 and more; those with 400 to 499
    ms:<n>                         requests whose duration is in the n-th class
    served:<level>                 answers by what served them: personal, trending ...

A class is a fifth of a doubling wide, so a percentile is exact to 15 %. A replica keeps up to 32 durations for each
endpoint and status between two reports, each of which stands for its share of the requests.
"""

from __future__ import annotations

import contextlib
import math
from collections import Counter
from collections.abc import Mapping
from typing import Protocol

from cluster.errors import KioskError
from cluster.meter import Meter

CLASSES_PER_DOUBLING = 5
LEAST_MS = 0.05
_REQUESTS = "kiosk_requests"
_REQUEST_MS = "kiosk_request_ms"
_ANSWERS = "kiosk_answers_total"


class FigureStore(Protocol):
    """Where counts of all replicas are added up."""

    async def add(self, counts: Mapping[str, int], now_ms: int) -> None: ...


class LiveMeter:
    """A meter in front of another one that also counts for the console.

    Cost: 0.1 microseconds for each value, 0.3 for one that counts.
    """

    def __init__(self, meter: Meter) -> None:
        self._meter = meter
        self._counts: Counter[str] = Counter()
        self._requests: dict[tuple[str, str], int] = {}
        self._samples: dict[tuple[str, str], list[float]] = {}

    def count(self, name: str, by: float = 1, **tags: str) -> None:
        self._meter.count(name, by, **tags)
        if name == _ANSWERS:
            self._counts[f"served:{tags.get('served_by', '')}"] += int(by)
        elif name == _REQUESTS:
            place = tags.get("endpoint", ""), tags.get("status", "")
            self._requests[place] = self._requests.get(place, 0) + int(by)

    def time(self, name: str, ms: float, **tags: str) -> None:
        self._meter.time(name, ms, **tags)
        if name == _REQUEST_MS:
            place = tags.get("endpoint", ""), tags.get("status", "")
            self._samples.setdefault(place, []).append(ms)

    def gauge(self, name: str, value: float, **tags: str) -> None:
        self._meter.gauge(name, value, **tags)

    def remove_gauge(self, name: str, **tags: str) -> None:
        self._meter.remove_gauge(name, **tags)

    def take(self) -> dict[str, int]:
        """Return the counts since the last call."""
        counts = self._counts
        self._counts = Counter()
        requests = self._requests
        self._requests = {}
        samples = self._samples
        self._samples = {}
        for place, count in requests.items():
            counts["requests"] += count
            status = place[1]
            # All statuses have three digits, so texts compare as numbers.
            if status >= "500":
                counts["errors"] += count
            elif status >= "400":
                counts["refused"] += count
            taken = samples.get(place, ())
            for at, ms in enumerate(taken):
                # Whole shares whose sum is exactly the count.
                share = count * (at + 1) // len(taken) - count * at // len(taken)
                if share:
                    counts[f"ms:{duration_class(ms)}"] += share
        return dict(counts)

    async def report(self, store: FigureStore, now_ms: int) -> None:
        """Add the counts since the last report to the store; they are lost while it is unavailable."""
        # Taken before the write: after a lost reply the same counts would be added twice.
        counts = self.take()
        with contextlib.suppress(KioskError):
            await store.add(counts, now_ms)


def duration_class(ms: float) -> int:
    """Return the class of a duration; a class is a fifth of a doubling wide."""
    return max(0, round(math.log2(max(ms, LEAST_MS) / LEAST_MS) * CLASSES_PER_DOUBLING))


def duration_of_class(number: int) -> float:
    """Return the middle of a class of durations in milliseconds."""
    return float(LEAST_MS * 2.0 ** (number / CLASSES_PER_DOUBLING))
