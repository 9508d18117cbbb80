"""Faults of a real Redis under load, as scenarios that return their figures. Short runs of them belong to the
suites, long ones are drills."""

from __future__ import annotations

import asyncio
import os
import random
import time
from dataclasses import dataclass, field

import orjson

from cluster.errors import KioskError, Unavailable
from cluster.store.connect import OpenStores, open_stores
from cluster.store.data.intake import Batch, RecordPut
from tests.suites.doing import APP, NOW, body, view_interaction
from tests.suites.redis_process import RedisProcess


@dataclass
class Journal:
    """What the stores acknowledged, and how often they said no."""

    accepted: set[str] = field(default_factory=set)
    appended: set[str] = field(default_factory=set)
    applied: set[str] = field(default_factory=set)
    refused: int = 0
    slowest_refusal_s: float = 0.0


class Load:
    """Uploads, interactions and an intake worker that go on whatever happens."""

    def __init__(self, stores: OpenStores, journal: Journal, *, pause_s: float = 0.0) -> None:
        self._stores = stores
        self._journal = journal
        self._pause_s = pause_s
        self._count = 0
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        self._tasks = [
            asyncio.create_task(self._go_on(step)) for step in (self._upload, self._click, self._work) * 2
        ]

    async def finish(self) -> None:
        """Stop, then work off what is left."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        while await self._stores.intake.depth(APP):
            await self._work()

    async def _go_on(self, step: object) -> None:
        while True:
            begin = time.monotonic()
            try:
                await step()  # type: ignore[operator]
                await asyncio.sleep(self._pause_s)
            except Unavailable:
                self._journal.refused += 1
                self._journal.slowest_refusal_s = max(
                    self._journal.slowest_refusal_s, time.monotonic() - begin
                )
                await asyncio.sleep(0.02)

    async def _upload(self) -> None:
        self._count += 1
        task_id = f"t{self._count}"
        payload = orjson.dumps([task_id])
        await self._stores.intake.accept(APP, "product", "put", payload, task_id=task_id, total=1, now_ms=NOW)
        self._journal.accepted.add(task_id)

    async def _click(self) -> None:
        self._count += 1
        name = f"click-{self._count}"
        recents = [(f"u{self._count % 50}", f"v{self._count % 70}", view_interaction(self._count))]
        await self._stores.interactions.append(APP, orjson.dumps([name]), recents)
        self._journal.appended.add(name)

    async def _work(self) -> None:
        for batch in await self._stores.intake.claim("worker", [APP], count=20, block_ms=50):
            if await put_once(self._stores, batch):
                self._journal.applied.add(batch.task_id)


async def put_once(stores: OpenStores, batch: Batch) -> bool:
    """Apply a batch whose payload names its records."""
    names = orjson.loads(batch.payload)
    return await stores.intake.apply_put(
        batch,
        [RecordPut(name, body(name, task=batch.task_id), "tool") for name in names],
        change_payload=batch.payload,
        vectors=b"",
        embedder="",
        failed=(),
        now_ms=NOW,
    )


async def logged(stores: OpenStores, noun: object) -> list[str]:
    """Read every name a change log holds."""
    names: list[str] = []
    offset = "0"
    while changes := await stores.changes.read(APP, {noun: offset}, count=500, block_ms=0):  # type: ignore[dict-item]
        for change in changes:
            names += orjson.loads(change.payload)
        offset = changes[-1].offset
    return names


@dataclass(frozen=True)
class KillFigures:
    acknowledged: int
    lost: int
    twice: int
    slowest_return_s: float
    slowest_refusal_s: float


async def kill_and_restart(
    rounds: int, *, up_s: float = 0.4, down_s: float = 0.1, seed: int = 1
) -> KillFigures:
    """Kill Redis under load again and again; count what was acknowledged and is gone, or came twice."""
    chance = random.Random(seed)
    server = RedisProcess(durable=True).start()
    journal = Journal()
    slowest_return_s = 0.0
    try:
        async with open_stores(server.url, idle_ms=50) as stores:
            load = Load(stores, journal, pause_s=0.001)
            load.start()
            for _ in range(rounds):
                await asyncio.sleep(up_s * chance.uniform(0.5, 1.5))
                server.kill()
                await asyncio.sleep(down_s)
                await asyncio.get_running_loop().run_in_executor(None, server.start, 30.0)
                slowest_return_s = max(slowest_return_s, await until_it_writes(stores))
            await load.finish()
            clicks, products = await logged(stores, "interaction"), await logged(stores, "product")
            lost = len(journal.appended - set(clicks)) + len(
                (journal.accepted | journal.applied) - set(products)
            )
            for task_id in journal.accepted:
                task = await stores.tasks.get(APP, "product", task_id)
                lost += task is None or task.status != "finished"
            names = sorted(set(products))
            records = await stores.records.get_many(APP, "product", names)
            lost += sum(record != body(name, task=name) for name, record in zip(names, records, strict=True))
            return KillFigures(
                acknowledged=len(journal.accepted) + len(journal.appended) + len(journal.applied),
                lost=lost,
                twice=len(products) - len(names),
                slowest_return_s=slowest_return_s,
                slowest_refusal_s=journal.slowest_refusal_s,
            )
    finally:
        server.stop()


async def until_it_writes(stores: OpenStores) -> float:
    """Write until it works; return how long that took."""
    begin = time.monotonic()
    while True:
        try:
            await stores.leases.hold("drill", "me", 1000)
            return time.monotonic() - begin
        except Unavailable:
            await asyncio.sleep(0.01)


@dataclass(frozen=True)
class PauseFigures:
    calls: int
    answered_before_p99_ms: float
    refused_p99_ms: float
    refused_max_ms: float
    files_more: int
    memory_more_mb: float
    return_s: float


async def pause_under_load(stop_s: float, *, tasks: int = 32) -> PauseFigures:
    """Stop the server's clock under load; measure refusals, growth and the return."""
    server = RedisProcess().start()
    answers: list[tuple[float, float, bool]] = []
    try:
        async with open_stores(server.url) as stores:
            ended = asyncio.Event()

            async def read() -> None:
                while not ended.is_set():
                    begin = time.monotonic()
                    try:
                        await stores.interactions.recent(APP, ["u:u1", "a:v1"])
                        answers.append((begin, time.monotonic() - begin, True))
                    except KioskError:
                        answers.append((begin, time.monotonic() - begin, False))
                    await asyncio.sleep(0.01)

            await stores.interactions.append(
                APP, b"[]", [("u1", "v1", view_interaction(n)) for n in range(50)]
            )
            reading = [asyncio.create_task(read()) for _ in range(tasks)]
            await asyncio.sleep(1.0)
            files, memory = _open_files(), _memory_mb()
            stopped = time.monotonic()
            server.pause()
            await asyncio.sleep(stop_s)
            files, memory = _open_files() - files, _memory_mb() - memory
            server.resume()
            resumed = time.monotonic()
            await until_it_writes(stores)
            await asyncio.sleep(0.2)
            ended.set()
            await asyncio.gather(*reading)
        returned = min(begin + took for begin, took, good in answers if good and begin > resumed) - resumed
        before = [took for begin, took, _ in answers if begin < stopped - 0.05]
        during = [took for begin, took, good in answers if stopped <= begin < resumed and not good]
        return PauseFigures(
            calls=len(during),
            answered_before_p99_ms=_percentile(before, 99) * 1000,
            refused_p99_ms=_percentile(during, 99) * 1000,
            refused_max_ms=max(during) * 1000,
            files_more=files,
            memory_more_mb=memory,
            return_s=returned,
        )
    finally:
        server.stop()


@dataclass(frozen=True)
class WorkerFigures:
    batches: int
    killed: int
    missing: int
    twice: int
    half: int


async def kill_workers(batches: int, *, seed: int = 1) -> WorkerFigures:
    """Cancel intake workers at random moments of claiming and applying, several at a time, with their
    connections cut now and then; count batches that are missing, applied twice, or half there."""
    chance = random.Random(seed)
    server = RedisProcess().start()
    killed = 0
    try:
        async with open_stores(server.url, idle_ms=5, hot_s=5.0, slow_s=10.0) as stores:
            for n in range(batches):
                names = orjson.dumps([f"{n}-{m}" for m in range(5)])
                await stores.intake.accept(APP, "product", "put", names, task_id=f"t{n}", total=5, now_ms=NOW)

            async def work(name: str) -> None:
                while True:
                    for batch in await stores.intake.claim(name, [APP], count=2, block_ms=5):
                        await put_once(stores, batch)

            workers: list[asyncio.Task[None]] = []
            while await _depth(stores):
                for worker in [worker for worker in workers if worker.done()]:
                    workers.remove(worker)
                    unexpected = None if worker.cancelled() else worker.exception()
                    assert unexpected is None or isinstance(unexpected, Unavailable)
                while len(workers) < 4:
                    workers.append(asyncio.create_task(work(f"worker-{chance.randrange(6)}")))
                await asyncio.sleep(chance.uniform(0, 0.002))
                chance.choice(workers).cancel()
                killed += 1
                if killed % 25 == 0:
                    server.say("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
            for worker in workers:
                worker.cancel()
            await asyncio.gather(*workers, return_exceptions=True)
            names = await logged(stores, "product")
            stored = await stores.records.ids(APP, "product")
            of_batch = [sum(name.startswith(f"{n}-") for name in stored) for n in range(batches)]
            tasks = [await stores.tasks.get(APP, "product", f"t{n}") for n in range(batches)]
            finished = [
                task is not None and task.status == "finished" and task.succeeded == 5 for task in tasks
            ]
            return WorkerFigures(
                batches=batches,
                killed=killed,
                missing=of_batch.count(0) + finished.count(False),
                twice=len(names) - len(set(names)),
                half=sum(count not in (0, 5) for count in of_batch),
            )
    finally:
        server.stop()


async def _depth(stores: OpenStores) -> int:
    while True:
        try:
            return await stores.intake.depth(APP)
        except Unavailable:
            await asyncio.sleep(0.01)


def _percentile(values: list[float], percent: float) -> float:
    return sorted(values)[min(len(values) - 1, int(len(values) * percent / 100))]


def _open_files() -> int:
    return len(os.listdir("/proc/self/fd"))


def _memory_mb() -> float:
    with open("/proc/self/statm") as facts:
        return int(facts.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6
