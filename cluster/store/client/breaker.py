"""A circuit breaker: while Redis is unreachable, every caller is refused at once and no queue builds up.

    closed --3 commands without a reply in time, half a second of silence, or no server listens--> open
    open   --a reply that proves a working server--> closed

While it is open, the client (see `client`) probes the server every half second; all other calls are refused at once.
"""

from __future__ import annotations

from collections.abc import Callable

import structlog

from cluster.clock import Clock
from cluster.errors import Unavailable
from cluster.meter import Meter

# One or two commands may be slow by themselves, as a script over a large key is.
TIMEOUTS_TO_OPEN = 3
SILENCE_TO_OPEN_S = 0.35
"""Seconds from the first of these time-outs to the last. With the 150 ms of a short command that is half a second: one
slow script of one app, which takes less, must not refuse the requests of all others."""

_log = structlog.get_logger()


class Breaker:
    """Remembers whether the store answers."""

    def __init__(self, clock: Clock, meter: Meter, on_open: Callable[[], None]) -> None:
        self._clock = clock
        self._meter = meter
        self._on_open = on_open
        self._timeouts = 0
        self._first_timeout_s = 0.0
        self._opened_s = 0.0
        self._why = ""
        self.is_open = False

    def check(self) -> None:
        """Refuse at once while the store is unreachable.

        Errors:
            Unavailable: the breaker is open; fact `unsent`
        """
        if self.is_open:
            raise Unavailable(self._why, retry_after_s=1, unsent=True)

    def answered(self) -> None:
        """Record a reply that proves a working server."""
        # Only failures in a row count: any reply proves a working server.
        self._timeouts = 0
        if self.is_open:
            self.is_open = False
            away_ms = round((self._clock.monotonic_s() - self._opened_s) * 1000)
            self._meter.gauge("kiosk_store_away", 0)
            _log.info("store_returned", away_ms=away_ms)

    def timed_out(self, commands: int) -> None:
        """Record commands that passed their deadline."""
        now_s = self._clock.monotonic_s()
        if not self._timeouts:
            self._first_timeout_s = now_s
        self._timeouts += commands
        self._meter.count("kiosk_store_timeouts", commands)
        if self._timeouts >= TIMEOUTS_TO_OPEN and now_s - self._first_timeout_s >= SILENCE_TO_OPEN_S:
            self._open("the store does not answer")

    def bulk_timed_out(self, commands: int) -> None:
        """Record commands with large replies that passed their deadline: they say nothing about the server."""
        self._meter.count("kiosk_store_timeouts", commands)

    def unreachable(self, why: str) -> None:
        """Record a connection that could not be made."""
        self._open(why)

    def _open(self, why: str) -> None:
        self._why = why
        if self.is_open:
            return
        self.is_open = True
        self._opened_s = self._clock.monotonic_s()
        self._meter.count("kiosk_store_outages")
        self._meter.gauge("kiosk_store_away", 1)
        _log.warning("store_went_away", reason=why)
        self._on_open()
