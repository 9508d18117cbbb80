"""An installation whose engines are moved, loaded and hurt: seeded products, commands as a person gives them."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil

from cluster.process.free_ports import free_ports
from tests.benchmarks.data import interactions, products
from tests.benchmarks.load import http_request
from tests.benchmarks.stack import KIOSK, ROOT, Stack, kiosk
from tests.drills.journal import call, processes

APP = "development"
SCALING = ("--target", "2", "--up-after", "3", "--down-after", "12", "--look-back", "4")
"Autoscaling in a hurry, so that a drill takes minutes and not a quarter of an hour."
NO_DASHBOARD = {"KIOSK_DASHBOARD": "false"}
"For tests that ask nothing of Ray's dashboard: Ray starts its ten processes before anything else."


@contextmanager
def installed(*, below: Path | None = None, **settings: str) -> Iterator[Stack]:
    """Run a fresh installation with settings of its own, and its data below a folder."""
    before = {name: os.environ.get(name) for name in settings}
    os.environ.update(settings)
    try:
        with kiosk(free_ports(1)[0], below) as running:
            yield running
    finally:
        for name, value in before.items():
            os.environ.pop(name, None) if value is None else os.environ.update({name: value})


def say(stack: Stack, *words: str, check: bool = True) -> Any:
    """Give one command and read its JSON."""
    done = subprocess.run(
        [*KIOSK, *words, "--json"],
        env={**os.environ, "KIOSK_DATA_DIR": str(stack.data_dir)},
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    assert not check or done.returncode == 0, (words, done.stdout, done.stderr)
    return json.loads(done.stdout)


def engine(stack: Stack, engine_id: str = "default") -> dict[str, Any]:
    """Look at one engine."""
    (matching,) = [
        engine for engine in say(stack, "engines", "list", APP)["engines"] if engine["engine_id"] == engine_id
    ]
    return dict(matching)


def seed(stack: Stack, count: int = 2_000, events: int = 4_000) -> None:
    """Upload products and interactions and wait until they are recommended."""
    records, clicks = products(count), interactions(events, 200, count)
    task = ""
    for at in range(0, count, 500):
        reply = stack.call("POST", "/v1/products", {"data": records[at : at + 500]})
        task = reply["data"]["task_id"]
    for at in range(0, events, 500):
        stack.call("POST", "/v1/interactions", {"data": clicks[at : at + 500]})
    until = time.monotonic() + 60
    while stack.call("GET", f"/v1/products/_status/{task}")["code"] != 200:
        assert time.monotonic() < until, "the upload did not end"
        time.sleep(0.1)
    while call(stack, "POST", "/v1/recommendation/user_to_products", {"user_id": "u1"}).status != 200:
        assert time.monotonic() < until, "nothing is recommended"
        time.sleep(0.1)


def asking(stack: Stack, engine_id: str = "default", *, kind: str = "user_to_products") -> list[bytes]:
    """Make requests of many readers to one engine."""
    path = f"/v1/recommendation/{kind}"
    bodies = [{"user_id": f"u{number}", "rows": 10, "engine_id": engine_id} for number in range(100)]
    headers = {"X-API-KEY": stack.secret_key}
    return [
        http_request("POST", path, body=json.dumps(body).encode(), headers=headers, port=stack.port)
        for body in bodies
    ]


def writing(stack: Stack) -> list[bytes]:
    """Make clicks of many readers."""
    headers = {"X-API-KEY": stack.secret_key}
    clicks = [{"data": [{"type": "click", "user_id": f"u{n}", "product_ids": [f"p{n}"]}]} for n in range(100)]
    return [
        http_request(
            "POST", "/v1/interactions", body=json.dumps(body).encode(), headers=headers, port=stack.port
        )
        for body in clicks
    ]


def replicas(stack: Stack, what: str = "api") -> list[psutil.Process]:
    """Find replica processes: `api`, or an engine's application."""
    return processes(stack, f"ServeReplica:{what}")


def in_turn(*lists: Sequence[bytes]) -> list[bytes]:
    """Mix requests evenly."""
    return [request for together in zip(*lists, strict=False) for request in together]
