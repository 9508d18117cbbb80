"""Two releases on one Redis and one artifact folder: processes that are replaced while others go on, and the check."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson

from actors.intake.loop import IntakeLoop
from actors.language.hashing_embedder import HashingEmbedder
from cluster.artifacts.manifest import manifest_format
from cluster.artifacts.segments import SegmentStore
from cluster.artifacts.signing import is_manifest
from cluster.artifacts.storage.artifact_store import ArtifactStore
from cluster.clock import SystemClock
from cluster.meter import SilentMeter
from cluster.records.apps import App, AppSettings
from cluster.records.experiment import Experiment, Variant
from cluster.store import keys
from cluster.store.connect import OpenStores, open_stores
from cluster.store.seals.seal import salt_from_key, unseal
from tests.drills.next_release import ROOT
from tests.drills.release_process import APP, ENGINE
from tests.fakes.request_handler import PLENTY
from tests.suites.doing import require


@dataclass
class Fleet:
    """The processes of both releases."""

    url: str
    folder: Path
    next_release: Path
    reports: list[dict[str, Any]] = field(default_factory=list)
    _running: dict[str, subprocess.Popen[str]] = field(default_factory=dict)

    def start(self, name: str, *, is_next: bool) -> None:
        """Start a process and wait until it serves."""
        root = self.next_release if is_next else ROOT
        facts = {"url": self.url, "folder": str(self.folder), "name": name}
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.drills.release_process", json.dumps(facts)],
            cwd=root, env={**os.environ, "PYTHONPATH": str(root)}, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            text=True,
        )  # fmt: skip
        self._running[name] = process
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n", f"{name} did not start"

    def stop(self, name: str) -> None:
        """End a process after its last request, and keep what it tells."""
        process = self._running.pop(name)
        out, _ = process.communicate(timeout=60)
        self.reports.append({"name": name, **json.loads(out)})

    def close(self) -> None:
        """End what still runs."""
        for process in self._running.values():
            process.kill()
            process.communicate()


async def fill(url: str) -> None:
    """Store the products, the engine and the experiment that every process uses."""
    async with open_stores(url) as stores:
        app = App(app_id=APP, environment="development", settings=AppSettings(limits=PLENTY), created_at=0)
        await stores.access.put_app(app)
        records = [{"product_id": f"p{n}", "type": "book", "title": f"Book {n}"} for n in range(5)]
        now_ms = SystemClock().now_ms()
        await stores.intake.accept(
            APP, "product", "put", orjson.dumps(records), task_id="fill", total=5, now_ms=now_ms
        )
        loop = IntakeLoop(stores, None, HashingEmbedder(), SystemClock(), SilentMeter(), owner="fill")
        while await loop.apply_round():
            pass
        variants = tuple(Variant(variant_id=name, name=name, slug=name) for name in "ab")
        experiment = Experiment(
            app_id=APP, experiment_id="x-lists", name="Lists", slug="lists", variants=variants,
            entry_salt="entrysalt", variant_salt="variantsalt",
        )  # fmt: skip
        assert await stores.experiments.compare_and_set(experiment, 0) is not None


async def lost(stores: OpenStores, fleet: Fleet) -> list[str]:
    """Return everything that was acknowledged and is not there."""
    clock = SystemClock()
    segments = SegmentStore(ArtifactStore.open(fleet.folder / "artifacts"), clock)
    loop = IntakeLoop(stores, segments, HashingEmbedder(), clock, SilentMeter(), owner="last")
    until_s = time.monotonic() + 40
    while time.monotonic() < until_s and (await loop.apply_round() or await stores.intake.depth(APP)):
        pass
    run = require(await stores.runs.get(APP, "shared"))
    users = sorted({user_id for report in fleet.reports for user_id, _ in report["kept"]["questions"]})
    user_threads = await stores.threads.read_many(APP, users)
    questions = {
        question_id
        for user in user_threads
        for thread in user.threads.values()
        for question_id in thread.question_ids
    }
    rules = {rule.name for rule in await stores.boost_rules.all(APP)}
    gone, changes = [], 0
    for report in fleet.reports:
        kept = report["kept"]
        bodies = await stores.records.get_many(APP, "user", kept["users"])
        gone += [f"user {name}" for name, body in zip(kept["users"], bodies, strict=True) if body is None]
        gone += [
            f"question {question_id}" for _, question_id in kept["questions"] if question_id not in questions
        ]
        gone += [f"rule {rule_id}" for rule_id in kept["rules"] if rule_id not in rules]
        if run.figures.get(report["name"]) != kept["figure"]:
            gone.append(f"figure of {report['name']}")
        changes += report["done"]["recolour"]
    engine = require(await stores.engines.get(APP, ENGINE))
    if engine.moved_at != changes:
        gone.append(f"{changes - engine.moved_at} changes of the engine")
    return gone


async def stored(stores: OpenStores, key: str, name: str) -> dict[str, Any]:
    """Return the JSON of a field of a hash as it is stored."""
    sealed = await stores.server.execute_slow("HGET", key, name)
    assert sealed is not None, f"{name} is gone from {key}"
    body = require(unseal(sealed, salt_from_key(key, name)))
    record: dict[str, Any] = orjson.loads(body)
    return record


async def check_whole(fleet: Fleet) -> dict[str, Any]:
    """Check that nothing failed, nothing is lost, and nothing of the next release was changed by this one."""
    failures = [line for report in fleet.reports for line in report["failures"]]
    assert failures == [], failures[:5]
    # batches of intakes that have ended are taken over at once
    async with open_stores(fleet.url, slow_s=20.0, idle_ms=200) as stores:
        gone = await lost(stores, fleet)
        assert gone == [], f"{len(gone)} lost: {gone[:5]}"
        engine = await stored(stores, keys.engine(APP), ENGINE)
        colours = [report["kept"]["colour"] for report in fleet.reports if report["kept"]["colour"]]
        assert engine["colour"] in colours
        assert engine["scaling"]["zone"] == engine["colour"].rpartition("-")[0]
        frozen = await stored(stores, keys.experiment(APP), "x-frozen")
        assert {variant["status"] for variant in frozen["variants"]} == {"Frozen"}
        for stream in (keys.quarantine(APP), keys.access_quarantine(), keys.account_quarantine()):
            assert await stores.server.execute_slow("XLEN", stream) == 0
        schema = await stores.server.execute_slow("HGET", keys.schema(), "number")
        assert schema == b"2"
    store = ArtifactStore.open(fleet.folder / "artifacts")
    manifests = [store.read(entry.path) for entry in store.entries("") if is_manifest(entry.path)]
    assert manifests
    assert {manifest_format(manifest) for manifest in manifests} == {1}
    assert all(b'"written_with":"next"' in manifest for manifest in manifests[-1:]), (
        "a manifest lost its new field"
    )
    assert SegmentStore(store, SystemClock()).verify(APP) == []
    done = {
        name: sum(report["done"].get(name, 0) for report in fleet.reports)
        for name in fleet.reports[0]["done"]
    }
    return {**done, "other_requests": sum(report["other_requests"] for report in fleet.reports)}
