"""What traces cost the request handler: its processor time with 1 % of requests traced, against traces off.

python -m tests.benchmarks.tracing                 exits with 1 if a request costs more than 2 % more
python -m tests.benchmarks.tracing --rounds 1000   more rounds, less noise

Short rounds take turns in one process, over a real Redis and a real engine: without traces, with traces that choose no
request, and with traces of every request, whose spans go to a collector afterwards. The best round of each counts, as
other programs only ever add. What a request costs that is traced, and one that is not, add up to the costs of 1 %;
measured directly, they would drown in noise. A replica also reads HTTP and writes it; that is not measured, so the
share of traces in a replica is smaller.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import itertools
import json
import logging
import multiprocessing
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from multiprocessing.connection import Connection
from typing import Any

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace.export import BatchSpanProcessor

from actors.serving.host import EngineHost
from cluster.clock import SystemClock
from cluster.log import set_up_logging
from cluster.meter import SilentMeter
from cluster.process.tracing import OtelTracer, traces_endpoint
from cluster.store.connect import open_stores
from deployments.edge.observation.request_observer import RequestObserver
from tests.benchmarks.data import interactions, products
from tests.benchmarks.request_handler import requests_of
from tests.fakes.asgi import call
from tests.fakes.local_recommender import LocalRecommenderClient
from tests.fakes.request_handler import Corner, open_corner
from tests.suites.redis_process import RedisProcess

SHARE = 0.01
BOUND = 1.02
NAMES = ("read a user", "one interaction", "recommendation")
REQUESTS = 100
"Of a round. All spans of a round fit into one message to the collector."
MOST_SPANS = 2_048


def collect(connection: Connection) -> None:
    """Receive spans until the process is ended; send the port first."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["content-length"]))
            self.send_response(200)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            return None

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    connection.send(server.server_port)
    server.serve_forever()


async def measure(collector: str, redis: str, rounds: int) -> dict[str, Any]:
    """Return microseconds a request without and with traces, and their ratio, for each kind of request."""
    exporter = OTLPSpanExporter(endpoint=traces_endpoint(collector))
    batches = BatchSpanProcessor(
        exporter, schedule_delay_millis=3_600_000, max_queue_size=MOST_SPANS, max_export_batch_size=MOST_SPANS
    )
    tracer = OtelTracer(batches, "bench")
    clock = SystemClock()
    async with open_stores(redis) as stores:
        host = EngineHost(stores, None, clock, SilentMeter())
        corner = await open_corner(clock=clock, stores=stores, client=LocalRecommenderClient(host))
        try:
            await _fill(corner)
            requests = requests_of(corner)
            return {name: await _compare(corner, requests[name], tracer, batches, rounds) for name in NAMES}
        finally:
            await host.close()
            await corner.close()
            tracer.close()


async def _fill(corner: Corner) -> None:
    bodies = {
        "users": [{"user_id": "gina-7", "name": "Gina"}],
        "products": products(1_000),
        "interactions": interactions(2_000, 100, 1_000),
    }
    for path, records in bodies.items():
        answer = await call(
            corner.handler, "POST", f"/v1/{path}", headers=corner.headers(), json={"data": records}
        )
        assert answer.status == 200, answer.body
    await corner.apply()


async def _compare(
    corner: Corner,
    request: tuple[str, bytes, bytes, dict[bytes, bytes]],
    tracer: OtelTracer,
    batches: BatchSpanProcessor,
    rounds: int,
) -> dict[str, float]:
    clock, meter = SystemClock(), SilentMeter()
    observers = (
        RequestObserver(clock, meter),
        RequestObserver(clock, meter, tracer=tracer, share=0.0),
        RequestObserver(clock, meter, tracer=tracer, share=1.0),
    )
    spent: tuple[list[float], ...] = ([], [], [])
    sent = list[float]()
    gc.collect()
    gc.freeze()  # what serves for ever is not looked at again
    for number in range(rounds):
        for kind in itertools.islice(itertools.cycle(range(3)), number % 3, number % 3 + 3):
            corner.handler._observer = observers[kind]
            spent[kind].append(await _round(corner, *request))
            begin = time.process_time()
            batches.force_flush()
            if kind == 2:
                sent.append((time.process_time() - begin) / REQUESTS * 1e6)
    off_us, untraced_us, traced_us = (min(times) for times in spent)
    more_us = traced_us - untraced_us + min(sent)
    added_us = untraced_us - off_us + SHARE * more_us
    return {
        "off_us": round(off_us, 2), "untraced_us": round(untraced_us, 2), "traced_us": round(traced_us, 2),
        "sent_us": round(min(sent), 2), "added_us": round(added_us, 2), "ratio": round(1 + added_us / off_us, 4),
    }  # fmt: skip


async def _round(corner: Corner, method: str, target: bytes, body: bytes, more: dict[bytes, bytes]) -> float:
    headers = {b"host": b"x", b"user-agent": b"bench", b"x-api-key": corner.secret().encode(), **more}
    scope: dict[str, Any] = {
        "type": "http", "method": method, "path": target.decode(), "raw_path": target, "query_string": b"",
        "headers": list(headers.items()), "client": ("192.0.2.7", 40000),
    }  # fmt: skip
    message = {"type": "http.request", "body": body, "more_body": False}

    async def receive() -> dict[str, Any]:
        return message

    async def send(_: Any) -> None:
        return None

    begin = time.thread_time()
    for _ in range(REQUESTS):
        await corner.handler(scope, receive, send)
    return (time.thread_time() - begin) / REQUESTS * 1e6


def main() -> int:
    """Print the figures as JSON; return 1 when the bound is missed."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=300)
    given = parser.parse_args()
    set_up_logging(level=logging.WARNING)
    context = multiprocessing.get_context("spawn")
    receiver, there = context.Pipe()
    collector = context.Process(target=collect, args=(there,), daemon=True)
    collector.start()
    redis = RedisProcess().start()
    try:
        figures = asyncio.run(measure(f"http://127.0.0.1:{receiver.recv()}", redis.url, given.rounds))
    finally:
        redis.stop()
        collector.terminate()
        collector.join()
    is_kept = all(figure["ratio"] <= BOUND for figure in figures.values())
    facts = {"traced": SHARE, "rounds": given.rounds, "requests_a_round": REQUESTS, "bound": BOUND}
    print(json.dumps({**facts, **figures, "kept": is_kept}, indent=1))
    return 0 if is_kept else 1


if __name__ == "__main__":
    sys.exit(main())
