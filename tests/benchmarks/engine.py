"""`kiosk bench engine`: recommendations over a large catalog, through HAProxy, keys checked, beside the bare echo.

A generated shop of 100,000 products with vectors of 128 numbers and 1,000,000 interactions of 50,000 users, brought
in by `kiosk ingest`. Every request is another user's.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from tests.benchmarks import bulk
from tests.benchmarks.load import Figures, drive, http_request
from tests.benchmarks.scenarios import Line
from tests.benchmarks.stack import KIOSK, ROOT, Stack
from tests.benchmarks.unmeasured import guarded

ASKERS = 2_000
_LOAD_LIMIT_S = 120
_SETTLE_S = 35
"Interactions settle after half a minute at the latest."
_GROWING_S = 45
"API replicas are added after ten seconds of load, and a new one loads the whole catalog before it serves."

_LOG_ROUNDS = 5
_SWITCH_S = 3
"API replicas follow a switch of an app within a second or two."

ENDPOINTS: dict[str, tuple[str, dict[str, Any]]] = {
    "user_to_products, 10 rows": ("user_to_products", {"rows": 10, "fl": []}),
    "user_to_trending, 5 rows": ("user_to_trending", {"rows": 5, "fl": []}),
    "user_to_categories, 10 x 5, fq and boost": (
        "user_to_categories",
        {
            "rows": 10,
            "products_per_category": 5,
            "fl": ["title", "price"],
            "fq": 'price:[10 TO 150] AND rating:[1 TO *] AND NOT tags:"linen"',
            "boost_fq": "tags:oak",
        },
    ),
}
"What is asked: path, and the body beside the user."


@dataclass(frozen=True)
class Sizes:
    """How much there is."""

    products: int = 100_000
    interactions: int = 1_000_000


def lines(stack: Stack, echo_port: int, sizes: Sizes, *, recipe: str = "fast") -> Iterator[Line]:
    """Fill an installation, train it and measure it, each throughput between two of the bare echo at `echo_port`."""
    yield from _fill(stack, sizes.products, sizes.interactions)
    yield _trained(stack, recipe)
    yield Line("whole stack with this data, PSS", stack.pss_mb() / 1024, "GiB")
    figures: dict[str, Figures] = {}
    for name, (path, body) in ENDPOINTS.items():
        figures[name] = _at_rest(stack, requests(stack, path, body), name)
        yield Line(f"{name}: p50 at rest", figures[name].p50_ms, "ms", _P50[path])
    path, body = ENDPOINTS["user_to_products, 10 rows"]
    drive(requests(stack, path, body), port=stack.port, connections=32, seconds=_GROWING_S)
    for name, (path, body) in ENDPOINTS.items():
        before = _echo(echo_port)
        loaded = _loaded(stack, requests(stack, path, body), name)
        note = f"p99 {loaded.p99_ms:.1f} ms"
        if path == "user_to_categories":
            yield Line(f"{name}: throughput", loaded.per_second, "/s", 400, at_most=False, note=note)
            yield _half_load(stack, path, body, name, loaded.per_second / 2)
            continue
        yield Line(f"{name}: throughput", loaded.per_second, "/s", note=note)
        after = _echo(echo_port)
        share = 2 * loaded.per_second / (before + after)
        note = f"echo {before:,.0f} /s before, {after:,.0f} /s after"
        yield Line(f"{name}: throughput / echo", share, "x", _SHARE[path], at_most=False, note=note)
    yield from guarded("log of answers", partial(_log_lines, stack))
    yield from guarded("dedicated", partial(_dedicated_lines, stack, figures))


_P50 = {"user_to_products": 1.2, "user_to_trending": 0.8, "user_to_categories": 5.0}
_SHARE = {"user_to_products": 0.15, "user_to_trending": 0.25}


def requests(stack: Stack, path: str, body: dict[str, Any]) -> list[bytes]:
    """Make one request a user."""
    return [
        http_request(
            "POST",
            f"/v1/recommendation/{path}",
            body=json.dumps({"user_id": f"u{user * 7}", **body}).encode(),
            headers={"X-API-KEY": stack.secret_key},
            port=stack.port,
        )
        for user in range(ASKERS)
    ]


def _fill(stack: Stack, products: int, interactions: int) -> Iterator[Line]:
    with tempfile.TemporaryDirectory(prefix="kiosk-bulk-") as folder:
        files = Path(folder)
        bulk.write_products(files / "products.jsonl", products)
        newest_ms = int(time.time() * 1000) - 60_000
        bulk.write_interactions(files / "events.parquet", interactions, products, newest_ms)
        ingested = bulk.ingest(stack, files / "products.jsonl", "product")
        yield Line(f"ingest of {products:,} products", ingested.per_second, "/s")
        ingested = bulk.ingest(stack, files / "events.parquet", "interaction")
        yield Line(f"ingest of {interactions:,} interactions", ingested.per_second, "/s")
    began = time.monotonic()
    while not _knows(stack, products):
        if time.monotonic() - began > _LOAD_LIMIT_S:
            raise RuntimeError(f"the engine did not know all products within {_LOAD_LIMIT_S} s")
        time.sleep(0.5)
    time.sleep(3)  # the last lots of events are learned within a second or two
    yield Line("engine knows everything after", time.monotonic() - began, "s")


def _knows(stack: Stack, products: int) -> bool:
    """Is the last product there, and the last events' users' histories?"""
    query = {"fq": f'product_id:"p{products - 1}"', "rows": 1, "fl": []}
    try:
        reply = stack.call("POST", "/v1/recommendation/user_to_trending", query)
    except OSError:  # still loading: 503
        return False
    return bool(reply["data"]["results"] if "results" in reply["data"] else reply["data"])


def _at_rest(stack: Stack, requests_sent: list[bytes], name: str) -> Figures:
    """Ask one at a time, when nothing else goes on: a replica that starts or leaves is no rest."""
    stack.come_to_rest()
    drive(requests_sent, port=stack.port, connections=1, seconds=2)
    return _sound(drive(requests_sent, port=stack.port, connections=1, seconds=4), name)


def _echo(port: int) -> float:
    """Requests a second of the echo now: machines that are shared change their speed from minute to minute."""
    return drive(
        [http_request("GET", "/echo/abc", port=port)], port=port, connections=32, seconds=3
    ).per_second


def _loaded(stack: Stack, requests_sent: list[bytes], name: str) -> Figures:
    drive(requests_sent, port=stack.port, connections=32, seconds=2)
    return _sound(drive(requests_sent, port=stack.port, connections=32, seconds=5), name)


def _sound(figures: Figures, name: str) -> Figures:
    if figures.failures:
        raise RuntimeError(f"{name}: answers failed: {figures}")
    return figures


def _half_load(stack: Stack, path: str, body: dict[str, Any], name: str, rate: float) -> Line:
    half = drive(requests(stack, path, body), port=stack.port, connections=32, seconds=5, rate=rate)
    note = f"{rate:,.0f} requests/s on schedule, {half.failures} failed"
    return Line(f"{name}: p99 at half load", half.p99_ms, "ms", 30, note=note)


def _log_lines(stack: Stack) -> Iterator[Line]:
    """Compare lists with the log of answers on and off, in alternating rounds: medians of their ratios."""
    name = "user_to_products, 10 rows"
    lists = requests(stack, *ENDPOINTS[name])
    rates: dict[str, list[float]] = {"on": [], "off": []}
    medians: dict[str, list[float]] = {"on": [], "off": []}
    for turn in range(_LOG_ROUNDS):
        for mode in ("on", "off") if turn % 2 else ("off", "on"):
            _kiosk(stack, "apps", "switch", "development", f"served_log={mode}")
            time.sleep(_SWITCH_S)
            medians[mode].append(_sound(drive(lists, port=stack.port, connections=1, seconds=3), name).p50_ms)
            rates[mode].append(
                _sound(drive(lists, port=stack.port, connections=32, seconds=4), name).per_second
            )
    share = statistics.median(on / off for on, off in zip(rates["on"], rates["off"], strict=True))
    note = f"{statistics.median(rates['on']):,.0f} /s on, {statistics.median(rates['off']):,.0f} /s off"
    yield Line(f"{name}: throughput, log of answers on / off", share, "x", 0.97, at_most=False, note=note)
    more = statistics.median(on / off for on, off in zip(medians["on"], medians["off"], strict=True))
    note = f"{statistics.median(medians['on']):.3f} ms on, {statistics.median(medians['off']):.3f} ms off"
    yield Line(f"{name}: p50 at rest, log of answers on / off", more, "x", 1.03, note=note)


def _trained(stack: Stack, recipe: str) -> Line:
    """Train on what settled, and let it serve."""
    time.sleep(_SETTLE_S)
    began = time.monotonic()
    _kiosk(stack, "train", "development", "--recipe", recipe, "--promote", "--json")
    took = time.monotonic() - began
    time.sleep(5)  # engines look for their champion every few seconds
    return Line(f"kiosk train --recipe {recipe} --promote", took, "s", note="with starting its process")


def _kiosk(stack: Stack, *arguments: str) -> None:
    done = subprocess.run(
        [*KIOSK, *arguments],
        cwd=ROOT,
        env={**os.environ, "KIOSK_DATA_DIR": str(stack.data_dir)},
        capture_output=True,
        timeout=600,
    )
    if done.returncode:
        raise RuntimeError(
            f"kiosk {' '.join(arguments)} failed: {(done.stderr or done.stdout).decode()[-1500:]}"
        )


def _dedicated_lines(stack: Stack, embedded: dict[str, Figures]) -> Iterator[Line]:
    """Make the engine dedicated and repeat the requests."""
    _kiosk(stack, "engines", "place", "development", "default", "own", "--json")
    name = "user_to_products, 10 rows"
    path, body = ENDPOINTS[name]
    at_rest = _at_rest(stack, requests(stack, path, body), name)
    loaded = _loaded(stack, requests(stack, path, body), name)
    more = at_rest.p50_ms - embedded[name].p50_ms
    yield Line(f"{name}, dedicated: p50 at rest", at_rest.p50_ms, "ms")
    yield Line(f"{name}, dedicated: more than embedded", more, "ms", 1.5)
    yield Line(f"{name}, dedicated: throughput", loaded.per_second, "/s")
