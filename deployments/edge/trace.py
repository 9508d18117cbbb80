"""Request ids and the access line: one id in the reply, the log and every error of a request."""

from __future__ import annotations

import re
from collections.abc import Callable
from random import Random

import structlog

from cluster.ids import new_request_id

HEADER = b"x-request-id"

_FORM = re.compile(rb"[A-Za-z0-9._-]{1,64}")
_log = structlog.get_logger()


def request_id_from(given: bytes | None, mint: Callable[[], str] = new_request_id) -> str:
    """Keep the id a caller or a proxy sent when it is harmless, else mint one.

    Only letters, digits, dot, dash and underscore may pass: the id is written to log lines and headers.
    """
    if given and _FORM.fullmatch(given):
        return given.decode()
    return mint()


class AccessLog:
    """Writes one line for a sample of requests, and for every request that failed on our side.

    A line never holds a query string, a header or an id of a record: only the name of the endpoint.
    """

    def __init__(self, share: float, chance: Random) -> None:
        self._share = share
        self._chance = chance

    def record(self, request_id: str, endpoint: str, status: int, took_ms: float, *, app: str = "") -> None:
        """Write the line if this request is in the sample."""
        if status < 500 and self._chance.random() >= self._share:
            return
        _log.info(
            "request_answered",
            request_id=request_id,
            endpoint=endpoint,
            status=status,
            took_ms=round(took_ms, 2),
            app=app,
        )
