"""A canary in a running installation, over HTTP and commands; one command, and nothing of them is left anywhere."""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from cluster.artifacts.snapshots import FOLDER, MANIFEST
from cluster.paths import InstallationPaths
from cluster.store.connect import open_stores
from tests.cluster.installed import Installed
from tests.fakes.request_handler import BROWSER
from tests.suites.canary import (
    CITY,
    MAIL,
    NEEDLES,
    QUERY,
    QUESTION,
    SECOND,
    TITLE,
    USER,
    VISITOR,
    traces_in_files,
    traces_in_redis,
)

pytestmark = [pytest.mark.ray, pytest.mark.redis, pytest.mark.timeout(520)]
WITH, WITHOUT = "with-canary", "without-canary"
USERS, EVENTS, ITEMS = 60, 20, 90
SETTLED_S = 33.0
"Seconds until all logs of what was sent stand in the artifact store; a training waits for interactions only."
AT = "2026-03-{day:02d}T09:{minute:02d}:30.250Z"


class Callers:
    """Two apps of one installation as their servers call them."""

    def __init__(self, installed: Installed, api_url: str, keys: dict[str, str]) -> None:
        self.installed = installed
        self.keys = keys
        self._http = httpx.Client(base_url=api_url, timeout=30)

    def call(self, app: str, method: str, path: str, body: Any = None, **headers: str) -> Any:
        """Send one request until there is room for it."""
        for _ in range(60):
            reply = self._http.request(
                method,
                path,
                json=body,
                headers={"X-API-KEY": self.keys[app], "User-Agent": BROWSER, **headers},
            )
            if reply.status_code not in (429, 503):
                return reply.json()
            time.sleep(1)
        raise AssertionError(reply.text)

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def snapshot(self, app: str, version: str) -> dict[str, bytes]:
        """All files of a version but its manifest."""
        folder = self.installed.places.data_dir / "shelf" / FOLDER / app / "default" / version
        files = [path for path in sorted(folder.rglob("*")) if path.is_file() and path.name != MANIFEST]
        return {str(path.relative_to(folder)): path.read_bytes() for path in files}

    def trained(self, app: str) -> str:
        """Train, and let it serve."""
        run = self.installed.run_json("train", app, "--recipe", "fast", "--promote")
        return str(run["version"])


@pytest.fixture(scope="module")
def callers(installed: Installed, up: dict[str, Any]) -> Iterator[Callers]:
    keys = {app_id: installed.create_app(app_id) for app_id in (WITH, WITHOUT)}
    callers = Callers(installed, up["api_url"], keys)
    yield callers
    callers.close()


def fill(callers: Callers, app: str) -> None:
    """Fill an app; both get the same."""
    chosen = random.Random(7)
    products = [{"product_id": f"p{n}", "title": f"Thing {n}", "type": "book"} for n in range(ITEMS)]
    callers.call(app, "POST", "/v1/products", {"data": products})
    people = [{"user_id": f"reader-{n}", "city": f"City {n % 3}"} for n in range(USERS)]
    callers.call(app, "POST", "/v1/users", {"data": people})
    for n in range(EVENTS):
        events = [
            {
                "type": ("product_detail_page_view", "add_to_cart", "click")[(n + user) % 3],
                "user_id": f"reader-{user}",
                "product_ids": [f"p{chosen.randrange(user % 3, ITEMS, 3)}"],
                "timestamp": AT.format(day=1 + n, minute=user),
            }
            for user in range(USERS)
        ]
        assert callers.call(app, "POST", "/v1/interactions", {"data": events})["message"] == "success"


def live(callers: Callers, folder: Path) -> None:
    """Do everything a person can do."""
    call, at = callers.call, AT.format(day=11, minute=17)
    profile = {"user_id": USER, "name": "Canary", "city": CITY, "custom_attributes": {"mail": MAIL}}
    assert call(WITH, "POST", "/v1/users", {"data": [profile]}, **{"Idempotency-Key": f"key-{USER}"})["data"]
    both = {"user_id": USER, "anonymous_id": VISITOR, "timestamp": at}
    events = [
        {"type": "click", "anonymous_id": VISITOR, "product_ids": ["p1", "p4"], "timestamp": at},
        {"type": "add_to_cart", "product_ids": ["p3"], **both},
        {"type": "search", "search": {"keywords": QUERY}, **both},
        {"type": "click", "user_id": USER, "anonymous_id": SECOND, "product_ids": ["p5"], "timestamp": at},
    ]
    assert call(WITH, "POST", "/v1/interactions", {"data": events})["message"] == "success"
    for body in ({"q": QUERY, "user_id": USER}, {"q": QUERY, "anonymous_id": VISITOR}):
        assert "data" in call(WITH, "POST", "/v1/search/search", body)
    question_id = call(
        WITH, "POST", "/v1/ask/questions", {"question": QUESTION, "user_id": USER, "anonymous_id": VISITOR},
        **{"Idempotency-Key": "ask-1"},
    )["data"]["question_id"]  # fmt: skip
    history = "/v1/ask/user_history/"
    for path, more in (("thread/rename", {"title": TITLE}), ("thread/updates/subscribe", {})):
        call(
            WITH,
            "POST",
            history + path,
            {"user_id": USER, "thread_id": question_id, **more},
            **{"Idempotency-Key": path},
        )
    page = {"user_id": USER, "pagination_id": "page-1", "size": 3}
    call(WITH, "POST", "/v1/recommendation/user_to_products", page)
    variants = [{"name": "Now"}, {"name": "Blue"}]
    call(
        WITH,
        "POST",
        "/v1/experiments",
        {"name": "Blue buttons", "reports_exposure": True, "variants": variants},
    )
    call(WITH, "POST", "/v1/experiments/blue-buttons/start")
    met = call(
        WITH, "POST", "/v1/experiments/blue-buttons/events", {"user_id": USER, "anonymous_id": VISITOR}
    )
    assert met["in_experiment"]
    call(
        WITH,
        "POST",
        "/v1/bulk",
        {"requests": [{"api_name": "search/search", "body": {"q": QUERY, "user_id": USER}}]},
    )
    refused = [
        {"user_id": USER, "nonsense": {"a": 1}, "custom_attributes": {"mail": MAIL}},
        {"user_id": "x", "zip": 5},
    ]
    path = folder / "people.jsonl"
    path.write_bytes(b"\n".join(json.dumps(row).encode() for row in refused))
    callers.installed.kiosk("ingest", str(path), "--noun", "user", "--app", WITH, check=False)
    path.unlink()


async def list_traces(places: InstallationPaths) -> list[str]:
    """Search Redis, every file of the installation, and the folder of its sockets and of Ray's logs."""
    url = places.redis_url.read_text().strip()
    async with open_stores(url, hot_s=5.0, slow_s=20.0) as stores:
        await stores.server.execute_slow(
            "CONFIG", "SET", "rdbcompression", "no"
        )  # else DUMP packs what is searched for
        traces = await traces_in_redis(stores)
    return [*traces, *traces_in_files(places.data_dir), *traces_in_files(places.run_dir)]


def test_one_command_and_nothing_of_a_person_is_left(callers: Callers, tmp_path: Path) -> None:
    installed = callers.installed
    for app in (WITH, WITHOUT):
        fill(callers, app)
    live(callers, tmp_path)
    settled_s = time.monotonic() + SETTLED_S
    before = callers.trained(WITH)
    time.sleep(max(0.0, settled_s - time.monotonic()))
    traces = asyncio.run(list_traces(installed.places))
    for needle in NEEDLES:
        assert any(needle in trace for trace in traces), f"{needle} was never there"

    began_s = time.monotonic()
    done = installed.kiosk("forget", WITH, "--user", USER, "--json", check=False)
    took_s = time.monotonic() - began_s
    receipt = json.loads(done.stdout)
    left = {place["place"]: place for place in receipt["places"] if place["left"]}
    print(f"\nforgotten in {took_s:.1f} s: { ({p['place']: p['found'] for p in receipt['places']}) }")

    assert asyncio.run(list_traces(installed.places)) == []
    assert (done.returncode, receipt["status"], set(left)) == (1, "finished", {"model snapshots"})
    (engine,) = [
        engine
        for engine in installed.run_json("engines", "list", WITH)["engines"]
        if engine["engine_id"] == "default"
    ]
    assert (engine["snapshot"], engine["erased_since"] > 0) == (before, True)
    doctor = json.loads(installed.kiosk("doctor", "--json", check=False).stdout)["findings"]
    assert [finding["level"] for finding in doctor if finding["check"] == "erasures"] == ["warning"]

    after, never = callers.trained(WITH), callers.trained(WITHOUT)
    assert callers.snapshot(WITH, after) == callers.snapshot(WITHOUT, never) != {}
    assert installed.kiosk("forget", WITH, "--user", USER).returncode == 0
    assert asyncio.run(list_traces(installed.places)) == []
    _over_http(callers)


def _over_http(callers: Callers) -> None:
    """Order the same over HTTP, and read the receipt until it is complete."""
    erasure = callers.call(WITH, "DELETE", f"/v1/users/{USER}?everything=true")["data"]
    for _ in range(300):
        receipt = callers.call(WITH, "GET", erasure["receipt"])["data"]
        if receipt["status"] == "finished":
            break
        time.sleep(0.2)
    assert (receipt["status"], receipt["left"], receipt["by"]) == ("finished", 0, "api")
    status = callers.call(WITH, "GET", f"/v1/users/_status/{erasure['task_id']}")
    assert status["data"]["status"] == "finished"
