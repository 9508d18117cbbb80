"""What a run measures and the bound each figure must keep."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

from tests.benchmarks import data
from tests.benchmarks.load import Figures, drive, http_request
from tests.benchmarks.stack import Stack


@dataclass(frozen=True)
class Line:
    """One line of the report."""

    name: str
    value: float
    unit: str
    bound: float | None = None
    at_most: bool = True
    note: str = ""
    reason: str = ""
    "Why there is no value; empty when there is one."

    @property
    def kept(self) -> bool | None:
        """Whether the bound holds; None where there is none, or no value."""
        if self.bound is None or math.isnan(self.value):
            return None
        return self.value <= self.bound if self.at_most else self.value >= self.bound


def echo_lines(port: int, label: str, connections: int = 32) -> tuple[Figures, Figures, list[Line]]:
    """Measure an echo: at rest and under load."""
    request = http_request("GET", "/echo/abc", port=port)
    rest = drive([request], port=port, connections=1, seconds=3)
    load = drive([request], port=port, connections=connections, seconds=4)
    return rest, load, [
        Line(f"{label}: p50 at rest", rest.p50_ms, "ms"),
        Line(f"{label}: throughput at {connections}", load.per_second, "/s", note=f"p99 {load.p99_ms:.1f} ms"),
    ]  # fmt: skip


def foundation(stack: Stack, rest: Figures, load: Figures) -> list[tuple[str, Callable[[], Iterator[Line]]]]:
    """Name the parts that measure the foundation's endpoints beside the echo of this run, in their order.

    `rest` and `load` are the bare echo's figures.
    """
    return [
        ("start and rest", partial(_start, stack)),
        ("filling the shop", partial(_fill, stack)),
        ("stored user", partial(_reads, stack, rest, load)),
        ("recommendations", partial(_recommendations, stack, rest, load)),
        ("interactions", partial(_interactions, stack, load)),
        ("uploads", partial(_uploads, stack)),
    ]


def _start(stack: Stack) -> Iterator[Line]:
    yield Line("start to first good answer", stack.start_s, "s", 60)
    time.sleep(5)
    yield Line("whole stack idle, PSS", stack.pss_mb() / 1024, "GiB", 2.5)


def _fill(stack: Stack) -> Iterator[Line]:
    began = time.monotonic()
    task = ""
    made = data.products(10_000)
    for start in range(0, len(made), 200):
        task = stack.call("POST", "/v1/products", {"data": made[start : start + 200]})["data"]["task_id"]
    _finished(stack, "products", task)
    task = stack.call("POST", "/v1/users", {"data": data.users(500)})["data"]["task_id"]
    _finished(stack, "users", task)
    seen = data.interactions(20_000, users=500, catalog=10_000)
    for start in range(0, len(seen), 1000):
        stack.call("POST", "/v1/interactions", {"data": seen[start : start + 1000]})
    yield Line("filling the shop", time.monotonic() - began, "s", note="10,000 products, 20,000 events")
    time.sleep(3)


def _finished(stack: Stack, noun: str, task: str) -> float:
    begin = time.monotonic()
    while stack.call("GET", f"/v1/{noun}/_status/{task}")["code"] == 202:
        if time.monotonic() - begin > 60:
            raise RuntimeError(f"upload task {task} did not end within 60 s")
        time.sleep(0.05)
    return time.monotonic() - begin


def _measure(stack: Stack, requests: list[bytes], name: str) -> tuple[Figures, Figures]:
    at_rest = drive(requests, port=stack.port, connections=1, seconds=3)
    loaded = drive(requests, port=stack.port, connections=32, seconds=4)
    if at_rest.failures or loaded.failures:
        raise RuntimeError(f"{name}: answers failed: {at_rest} {loaded}")
    return at_rest, loaded


def _reads(stack: Stack, rest: Figures, load: Figures) -> Iterator[Line]:
    requests = [
        http_request("GET", f"/v1/users/u{number}", headers=stack.headers, port=stack.port)
        for number in range(500)
    ]
    at_rest, loaded = _measure(stack, requests, "stored user")
    yield Line("stored user: p50 at rest", at_rest.p50_ms, "ms")
    yield Line("stored user: p50 at rest / echo", at_rest.p50_ms / rest.p50_ms, "x", 3.0)
    yield Line("stored user: throughput", loaded.per_second, "/s", note=f"p99 {loaded.p99_ms:.1f} ms")
    yield Line(
        "stored user: throughput / echo", loaded.per_second / load.per_second, "x", 0.45, at_most=False
    )


def _recommendations(stack: Stack, rest: Figures, load: Figures) -> Iterator[Line]:
    endpoints: dict[str, Callable[[int], dict[str, object]]] = {
        "user_to_products": lambda n: {"user_id": f"u{n}", "rows": 10},
        "user_to_trending": lambda n: {"user_id": f"u{n}", "rows": 5},
    }
    for name, body in endpoints.items():
        requests = [
            http_request(
                "POST",
                f"/v1/recommendation/{name}",
                body=json.dumps(body(number)).encode(),
                headers={"X-API-KEY": stack.secret_key},
                port=stack.port,
            )
            for number in range(500)
        ]
        at_rest, loaded = _measure(stack, requests, name)
        bound = 1.5 if name == "user_to_products" else None
        yield Line(f"{name}, 10,000 products: p50 at rest", at_rest.p50_ms, "ms", bound)
        yield Line(f"{name}: throughput", loaded.per_second, "/s", note=f"p99 {loaded.p99_ms:.1f} ms")
        yield Line(f"{name}: throughput / echo", loaded.per_second / load.per_second, "x")


def _interactions(stack: Stack, load: Figures) -> Iterator[Line]:
    def batches(size: int, count: int) -> list[bytes]:
        made = data.interactions(size * count, users=500, catalog=10_000, seed=size)
        return [
            http_request(
                "POST",
                "/v1/interactions",
                body=json.dumps({"data": made[start : start + size]}).encode(),
                headers={"X-API-KEY": stack.secret_key},
                port=stack.port,
            )
            for start in range(0, size * count, size)
        ]

    _, single = _measure(stack, batches(1, 500), "one interaction")
    yield Line(
        "one interaction per call: throughput", single.per_second, "/s", note=f"p99 {single.p99_ms:.1f} ms"
    )
    yield Line(
        "one interaction per call / echo", single.per_second / load.per_second, "x", 0.2, at_most=False
    )
    hundred = drive(batches(100, 50), port=stack.port, connections=16, seconds=5)
    if hundred.failures:
        raise RuntimeError(f"interactions: answers failed: {hundred}")
    yield Line("100 interactions per call: events", hundred.per_second * 100, "/s", 15_000, at_most=False)
    time.sleep(5)


def _uploads(stack: Stack) -> Iterator[Line]:
    def upload(prefix: str) -> bytes:
        return http_request(
            "POST",
            "/v1/users",
            body=json.dumps({"data": data.users(100, prefix)}).encode(),
            headers={"X-API-KEY": stack.secret_key},
            port=stack.port,
        )

    at_rest = drive([upload(f"r{n}-") for n in range(20)], port=stack.port, connections=1, seconds=3)
    yield Line("upload of 100 users: ack p50 at rest", at_rest.p50_ms, "ms", 15)
    _drained(stack)
    # The fair figure is what is stored and readable, so the clock runs until the last record reads back.
    begin = time.monotonic()
    loaded = drive([upload(f"l{n}-") for n in range(100)], port=stack.port, connections=8, seconds=5)
    _drained(stack)
    stored = time.monotonic() - begin
    if at_rest.failures or loaded.failures:
        raise RuntimeError(f"user uploads failed: {at_rest} {loaded}")
    total = (loaded.requests + loaded.per_second * 0.5) * 100
    yield Line("upload of 100 users: records accepted", loaded.per_second * 100, "/s", 8_000, at_most=False)
    yield Line("upload of 100 users: records stored", total / stored, "/s")
    begin = time.monotonic()
    stack.call("POST", "/v1/users", {"data": data.users(100, "fresh-")})
    yield Line("upload of 100 users: readable after", _readable(stack, "fresh-99", begin), "s", 1.0)


def _drained(stack: Stack) -> None:
    name = f"mark-{time.monotonic_ns()}"
    task = stack.call("POST", "/v1/users", {"data": [{"user_id": name}]})["data"]["task_id"]
    _finished(stack, "users", task)


def _readable(stack: Stack, user_id: str, begin: float) -> float:
    import urllib.error

    while time.monotonic() - begin < 30:
        try:
            stack.call("GET", f"/v1/users/{user_id}")
        except urllib.error.HTTPError:
            time.sleep(0.01)
        else:
            return time.monotonic() - begin
    raise RuntimeError("an uploaded user was not readable within 30 s")
