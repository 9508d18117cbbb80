"""Checks of an installation over HTTP, with the standard library only."""

from __future__ import annotations

import asyncio
import http.client
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from cluster.errors import Fault
from cluster.process.start_progress import StallTimer

EVERY_S = 0.1


@dataclass(frozen=True, slots=True)
class ProbeResult:
    """The result of a check."""

    is_good: bool
    message: str
    "The observation, for the operator."


def send_request(
    host: str, port: int, method: str, path: str, *, key: str = "", body: object = None, within_s: float = 5.0
) -> tuple[int, bytes]:
    """Send one request and return its status and body.

    Errors:
        OSError: no server answers, or not in HTTP
    """
    # An address that means all interfaces can be listened on, but not called everywhere.
    reachable = {"0.0.0.0": "127.0.0.1", "::": "::1", "*": "127.0.0.1", "": "127.0.0.1"}.get(host, host)
    line = http.client.HTTPConnection(reachable, port, timeout=within_s)
    try:
        headers = {"Connection": "close", **({"X-API-KEY": key} if key else {})}
        data = None if body is None else json.dumps(body).encode()
        line.request(method, path, body=data, headers=headers)
        reply = line.getresponse()
        return reply.status, reply.read()
    except http.client.HTTPException as error:
        raise OSError(f"no HTTP answer ({type(error).__name__})") from error
    finally:
        line.close()


def is_healthy(host: str, port: int, within_s: float = 5.0) -> ProbeResult:
    """Check whether at least one replica accepts requests."""
    try:
        status, _ = send_request(host, port, "GET", "/-/healthz", within_s=within_s)
    except OSError as error:
        return ProbeResult(False, f"nobody answers on port {port} ({error})")
    return ProbeResult(status == 200, f"health check answered {status}")


def probe_recommendations(host: str, port: int, key: str, user_ids: Sequence[str]) -> ProbeResult:
    """Check whether one of these users gets recommendations."""
    seen = ProbeResult(False, "nobody was asked")
    for user_id in user_ids:
        try:
            status, body = send_request(
                host, port, "POST", "/v1/recommendation/user_to_products", key=key, body={"user_id": user_id}
            )
        except OSError as error:
            return ProbeResult(False, f"nobody answers on port {port} ({error})")
        if status != 200:
            return ProbeResult(
                False, f"a recommendation answered {status}: {body[:200].decode('utf-8', 'replace')}"
            )
        if has_results(body):
            return ProbeResult(True, "recommendations come")
        seen = ProbeResult(False, "recommendations are empty")
    return seen


def has_results(body: bytes) -> bool:
    """Return whether the body of a recommendation contains at least one product."""
    data = json.loads(body).get("data", {})
    return isinstance(data, dict) and any(isinstance(value, list) and value for value in data.values())


async def wait_until(
    look: Callable[[], ProbeResult], within_s: float, report: Callable[[str], None] = lambda words: None
) -> None:
    """Repeat a check until it succeeds, as long as its observations change; each change is reported.

    Errors:
        Fault: it did not succeed, and nothing changed for so long
    """
    patience = StallTimer(within_s)
    while True:
        seen = await asyncio.to_thread(look)
        if seen.is_good:
            return
        if patience.record(seen.message):
            report(seen.message)
        if patience.is_over:
            raise Fault(f"no good answer within {within_s:.0f} s: {seen.message}")
        await asyncio.sleep(EVERY_S)
