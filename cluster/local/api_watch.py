"""The time without an answer of the API replicas, measured without blocking."""

from __future__ import annotations

import threading
import time

from cluster.process import probe

EVERY_S = 1.0


class ApiWatch:
    """Requests a health check once a second in a thread, so that a slow answer does not block the supervisor."""

    def __init__(self, host: str, port: int) -> None:
        self._host = host
        self._port = port
        self._good_at = time.monotonic()
        # The first call is always due: after a boot the monotonic clock is near zero.
        self._probed_at = float("-inf")
        self._asking: threading.Thread | None = None

    @property
    def silent_s(self) -> float:
        """Return the seconds since the last good answer."""
        return time.monotonic() - self._good_at

    def reset(self) -> None:
        """Restart the measurement now."""
        self._good_at = time.monotonic()

    def refresh(self) -> None:
        """Start a health check if it is due; return at once."""
        now = time.monotonic()
        if now - self._probed_at < EVERY_S or (self._asking is not None and self._asking.is_alive()):
            return
        self._probed_at = now
        self._asking = threading.Thread(target=self._ask, daemon=True)
        self._asking.start()

    def _ask(self) -> None:
        if probe.is_healthy(self._host, self._port).is_good:
            self._good_at = time.monotonic()
