"""One process of one release under load: API, embedded engine, an engine's channel, intake, and changes of records.

Run as `python -m tests.drills.release_process FACTS` with a release first on `PYTHONPATH`. It ends when its standard
input closes, after its last request, and prints one line of JSON: what was acknowledged and what failed.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib.metadata
import itertools
import json
import logging
import os
import sys
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

import structlog

from actors.experiments.lifecycle import ExperimentLifecycle
from actors.history.tracker import ThreadTracker
from actors.intake.compaction import CompactionConfig
from actors.intake.loop import IntakeConfig, IntakeLoop
from actors.language.hashing_embedder import HashingEmbedder
from actors.recommender.messages import RecommendationResult, UserQuery
from actors.serving.client import RemoteRecommenderClient
from actors.serving.engine_messages import answer_message
from actors.serving.host import EngineHost
from cluster.admin.schema import ensure_schema, record_running
from cluster.artifacts.segments import SegmentStore
from cluster.artifacts.storage.artifact_store import ArtifactStore
from cluster.build_info import installed_version
from cluster.clock import SystemClock
from cluster.meter import SilentMeter
from cluster.records.boost_rule import BoostRule
from cluster.records.engine import Engine
from cluster.records.experiment import ExperimentUpdate
from cluster.records.field_types.record_changes import with_changes
from cluster.records.run import Run
from cluster.store.connect import OpenStores, open_stores
from deployments.api.http.application import build_application
from deployments.hosts.local_channel import LocalChannel, LocalChannelPool, LocalChannelServer
from tests.fakes.asgi import call
from tests.fakes.local_recommender import LocalRecommenderClient
from tests.fakes.request_handler import Corner, open_corner

APP, ENGINE, ENGINES = "shop", "default", "engine"
USER = "shared"
IS_NEXT = "colour" in Engine.model_fields
CLOCK = SystemClock()


class OtherProcesses:
    """Finds the channel of another process, and stands for Serve's handle when there is none."""

    def __init__(self, run_dir: Path, host: EngineHost) -> None:
        self._pool = LocalChannelPool(run_dir, ENGINES)
        self._host = host
        self.answer = self
        self.requests = 0

    def find(self) -> LocalChannel | None:
        """Return a channel to another process."""
        self._pool.select()
        our_socket = f"{os.getpid()}.sock"
        channels = [
            channel for name, channel in self._pool._open.items() if name != our_socket and not channel.lost
        ]
        self.requests += bool(channels)
        return channels[0] if channels else None

    async def remote(self, payload: bytes) -> bytes:
        """Answer in this process."""
        return await answer_message(self._host.answer, payload)


class Turns:
    """A recommender that answers here and in the other process by turns."""

    def __init__(self, local: LocalRecommenderClient, remote: RemoteRecommenderClient) -> None:
        self._next = itertools.cycle((local, remote))

    async def answer(self, query: UserQuery) -> RecommendationResult:
        return await next(self._next).answer(query)


class Load:
    """Requests and changes, one after the other, with what was acknowledged."""

    def __init__(self, name: str, stores: OpenStores, corner: Corner) -> None:
        self._name = name
        self._stores = stores
        self._headers = corner.headers(APP)
        self._app = build_application(corner.handler, version=installed_version())
        self._history = ThreadTracker(stores, CLOCK)
        self._experiments = ExperimentLifecycle(stores, CLOCK)
        self.kept: dict[str, Any] = {"users": [], "questions": [], "rules": [], "figure": 0, "colour": ""}
        self.done: Counter[str] = Counter()
        self.failures: list[str] = []

    async def run(self, stop: asyncio.Event) -> None:
        """Send until told to stop."""
        steps = (
            self._upload, self._interact, self._recommend, self._read, self._ask, self._progress, self._recolour,
            self._edit, self._put_rule, self._read_all,
        )  # fmt: skip
        for number in itertools.count(1):
            for step in steps:
                try:
                    await step(number)
                    self.done[step.__name__.strip("_")] += 1
                except Exception as error:  # noqa: BLE001 - whatever it is, it counts as a failure
                    self.failures.append(f"{self._name} {step.__name__}: {type(error).__name__}: {error}")
            if stop.is_set():
                return

    async def _send(self, method: str, path: str, body: Any = None) -> Any:
        reply = await call(self._app, method, path, headers=self._headers, json=body)
        assert reply.status == 200, f"{reply.status} {reply.body[:200]!r}"
        return reply.json()

    async def _upload(self, number: int) -> None:
        user_id = f"{self._name}-{number}"
        await self._send("POST", "/v1/users", {"data": [{"user_id": user_id}]})
        self.kept["users"].append(user_id)

    async def _interact(self, number: int) -> None:
        event = {"type": "click", "user_id": USER, "product_ids": [f"p{number % 5}"], "timestamp": None}
        del event["timestamp"]
        await self._send("POST", "/v1/interactions", {"data": [event]})

    async def _recommend(self, number: int) -> None:
        body = {"user_id": USER, "rows": 3, "fq": 'type:"book"'}
        products = await self._send("POST", "/v1/recommendation/user_to_products", body)
        assert products, "no products"

    async def _read(self, number: int) -> None:
        await self._send("GET", f"/v1/products/p{number % 5}")

    async def _ask(self, number: int) -> None:
        # a thread has a thousand questions at most: all processes share the first, later ones are each one's own
        user_id = USER if number <= 150 else f"{self._name}-{number // 500}"
        question_id = f"q-{self._name}-{number}"
        await self._history.add_question(APP, user_id, question_id, "How deep?")
        self.kept["questions"].append([user_id, question_id])

    async def _progress(self, number: int) -> None:
        while True:
            run = await self._stores.runs.get(APP, "shared") or Run(
                app_id=APP, run_id="shared", engine_id=ENGINE
            )
            after = run.model_copy(update={"figures": {**run.figures, self._name: float(number)}})
            if await self._stores.runs.compare_and_set(after) is not None:
                self.kept["figure"] = number
                return

    async def _recolour(self, number: int) -> None:
        def change(engine: Engine) -> Engine:
            scaling = with_changes(engine.scaling, {"target_requests": float(1 + number % 900)})
            after = engine.model_copy(update={"moved_at": engine.moved_at + 1, "scaling": scaling})
            if not IS_NEXT:
                return after
            fields = {
                "colour": f"{self._name}-{number}",
                "scaling": with_changes(scaling, {"zone": self._name}),
            }
            return after.model_copy(update=fields)

        assert await self._stores.engines.change(APP, ENGINE, change) is not None
        self.kept["colour"] = f"{self._name}-{number}" if IS_NEXT else ""

    async def _edit(self, number: int) -> None:
        await self._experiments.edit(APP, "lists", ExperimentUpdate(name=f"{self._name} {number}"))

    async def _put_rule(self, number: int) -> None:
        name = f"rule-{self._name}-{number % 20}"
        rule = BoostRule(name=name, boost_fq="*:*", enabled=False, priority=number)
        await self._stores.boost_rules.put(APP, [rule])
        self.kept["rules"] = sorted({*self.kept["rules"], name})

    async def _read_all(self, number: int) -> None:
        book = await self._stores.experiments.read_all(APP)
        assert ("frozen" in {experiment.slug for experiment in book.experiments}) <= IS_NEXT
        threads = await self._stores.threads.read(APP, USER)
        assert threads.threads
        assert [stored_engine.engine_id for stored_engine in await self._stores.engines.all(APP)] == [ENGINE]
        await record_running(self._stores, CLOCK.now_ms())


async def freeze(stores: OpenStores) -> None:
    """Store an experiment that only the next release can read."""
    book = await stores.experiments.read_all(APP)
    if "frozen" not in {experiment.slug for experiment in book.experiments}:
        first = next(experiment for experiment in book.experiments if experiment.slug == "lists")
        frozen = tuple(variant.model_copy(update={"status": "Frozen"}) for variant in first.variants)
        change = {
            "experiment_id": "x-frozen",
            "slug": "frozen",
            "name": "Frozen",
            "variants": frozen,
            "revision": 0,
        }
        await stores.experiments.compare_and_set(first.model_copy(update=change), book.version)


async def live(facts: dict[str, str]) -> dict[str, Any]:
    """Serve and send load until standard input closes."""
    folder = Path(facts["folder"])
    stop, loop = asyncio.Event(), asyncio.get_running_loop()
    stream = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(stream), sys.stdin)
    async with open_stores(facts["url"], hot_s=5.0, slow_s=20.0) as stores:
        await ensure_schema(stores, CLOCK.now_ms())
        segments = SegmentStore(ArtifactStore.open(folder / "artifacts"), CLOCK)
        host = EngineHost(stores, segments, CLOCK, SilentMeter())
        others = OtherProcesses(folder / "run", host)
        turns = Turns(LocalRecommenderClient(host), RemoteRecommenderClient(others, find_line=others.find))
        corner = await open_corner(clock=CLOCK, stores=stores, client=turns)
        server = LocalChannelServer(partial(answer_message, host.answer), folder / "run", ENGINES)
        await server.open()
        rules = IntakeConfig(
            block_ms=20, apps_every_s=0.1, lease_ms=600, compaction_pause_s=0.2,
            compaction=CompactionConfig(every_s=0.5),
        )  # fmt: skip
        intake = IntakeLoop(
            stores, segments, HashingEmbedder(), CLOCK, SilentMeter(), owner=facts["name"], rules=rules
        )
        applying = asyncio.create_task(intake.run())
        if IS_NEXT:
            await freeze(stores)
        load = Load(facts["name"], stores, corner)
        sending = asyncio.create_task(load.run(stop))
        print("ready", flush=True)
        await stream.read()
        stop.set()
        await sending
        await asyncio.sleep(0.1)
        await server.close()
        applying.cancel()
        await asyncio.gather(applying, return_exceptions=True)
        await others._pool.close()
        await host.close()
        await corner.close()
        return {
            "release": installed_version(), "done": load.done, "kept": load.kept, "failures": load.failures,
            "other_requests": others.requests,
        }  # fmt: skip


def main() -> None:
    """Run one process."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    with contextlib.suppress(importlib.metadata.PackageNotFoundError):
        importlib.metadata.version("kiosk")
    print(json.dumps(asyncio.run(live(json.loads(sys.argv[1])))), flush=True)


if __name__ == "__main__":
    main()
