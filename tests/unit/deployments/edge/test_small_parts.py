from __future__ import annotations

import json
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest
import structlog

from deployments.edge.http import replies
from deployments.edge.http.request_log import RequestLog, request_id_from


class Notes:
    """A meter that remembers."""

    def __init__(self) -> None:
        self.counts: dict[tuple[str, str], float] = {}
        self.times: list[float] = []

    def count(self, name: str, by: float = 1, **tags: str) -> None:
        self.counts[tags["endpoint"], tags["status"]] = by

    def time(self, name: str, ms: float, **tags: str) -> None:
        self.times.append(ms)

    def gauge(self, name: str, value: float, **tags: str) -> None:
        raise AssertionError(name)

    def remove_gauge(self, name: str, **tags: str) -> None:
        raise AssertionError(name)


@pytest.mark.parametrize("given", [b"", b"a b", b"x\r\nset-cookie: a", b"a" * 65, b"\xff", b"a:b", None])
def test_a_request_id_that_could_write_into_a_log_is_replaced(given: bytes | None) -> None:
    assert request_id_from(given, lambda: "minted") == "minted"


def test_a_harmless_request_id_is_kept() -> None:
    assert request_id_from(b"edge-7f.3_A", lambda: "minted") == "edge-7f.3_A"
    assert len(request_id_from(None)) == 16


def test_access_lines_are_a_sample_but_failures_are_all_there() -> None:
    log = RequestLog(0.1, Random(3))
    with structlog.testing.capture_logs() as lines:
        for _ in range(1000):
            log.record("r", "users.read", 200, 1.234567)
        log.record("bad", "users.read", 500, 1.0, app="shop")
    assert 60 < len(lines) - 1 < 150
    assert lines[-1] == {
        "event": "request_answered", "log_level": "info", "request_id": "bad", "endpoint": "users.read",
        "status": 500, "took_ms": 1.0, "app": "shop",
    }  # fmt: skip


def test_a_tally_counts_everything_and_keeps_a_sample_of_times() -> None:
    tally, notes = RequestLog(), Notes()
    for at in range(100):
        tally.record("r", "users.read", 200, float(at))
    tally.record("r", "users.read", 404, 1.0)
    tally.flush(notes)
    assert notes.counts == {("users.read", "200"): 100, ("users.read", "404"): 1}
    assert len(notes.times) == 33
    tally.flush(notes)
    assert len(notes.times) == 33


def answered_in_4_ms(alias: str) -> Any:
    """Return what `result` reads of a request."""
    app = SimpleNamespace(settings=SimpleNamespace(service_id_response_alias=alias))
    return SimpleNamespace(credential=SimpleNamespace(app=app), took_ms=lambda: 4)


def test_a_result_carries_took_and_service_id_and_repeats_it_under_an_alias() -> None:
    plain = replies.result(answered_in_4_ms(""), "s-1", "products", b"[]")
    assert json.loads(plain.body) == {
        "message": "success", "data": {"took": 4, "service_id": "s-1", "products": []},
    }  # fmt: skip
    doubled = replies.result(answered_in_4_ms('other"id'), "s-1", "products", b"[]")
    assert json.loads(doubled.body)["data"]['other"id'] == "s-1"
