"""Stop calls to a provider while it fails.

closed      --5 failures in a row-->  open
open        --20 s-->                 half open: one call may try
half open   --it works--> closed, --it fails--> open again, twice as long, five minutes at most
"""

from __future__ import annotations

import structlog

from cluster.clock import Clock
from cluster.meter import Meter

FAILURES_TO_OPEN = 5

OPEN_S = 20.0

MAX_OPEN_S = 300.0


class LanguageModelBreaker:
    """Counts failures of calls and refuses calls after several."""

    def __init__(self, clock: Clock, meter: Meter) -> None:
        self._clock = clock
        self._meter = meter
        self._failures = 0
        self._open_s = OPEN_S
        self._until_s = 0.0
        self._is_tried = False
        self._log = structlog.get_logger()

    @property
    def state(self) -> str:
        """Return `closed`, `open` or `half open`."""
        if not self._until_s:
            return "closed"
        return "open" if self._clock.monotonic_s() < self._until_s else "half open"

    def can_call(self) -> bool:
        """Return whether a call is allowed. Half open, it allows one call until that call's result is known."""
        if self.state == "closed":
            return True
        if self.state == "open" or self._is_tried:
            return False
        self._is_tried = True
        return True

    def record_success(self) -> None:
        """Record a successful call."""
        if self._until_s:
            self._log.info("model_returned")
            self._meter.gauge("kiosk_model_away", 0)
        self._failures = 0
        self._open_s = OPEN_S
        self._until_s = 0.0
        self._is_tried = False

    def record_failure(self) -> None:
        """Record a failed call."""
        self._failures += 1
        if self._until_s:
            # Doubled only by the one try of a half-open state, not by calls that began before it opened.
            self._open_s = min(MAX_OPEN_S, 2 * self._open_s) if self._is_tried else self._open_s
        elif self._failures < FAILURES_TO_OPEN:
            return
        else:
            self._log.warning("model_went_away", failures=self._failures)
            self._meter.gauge("kiosk_model_away", 1)
        self._until_s = self._clock.monotonic_s() + self._open_s
        self._is_tried = False

    def record_cancelled(self) -> None:
        """Record a call that this process cancelled; it counts neither as success nor as failure."""
        self._is_tried = False
