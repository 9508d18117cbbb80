"""Damage to the append-only file of a real Redis: a torn tail and flipped bits, as scenarios with figures."""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass
from pathlib import Path

from cluster.store.connect import OpenStores, open_stores
from cluster.store.data.intake import RecordPut
from tests.suites.doing import APP, accept, apply, body, claim_one, put, view_interaction
from tests.suites.redis_process import RedisProcess

OLD = [f"old-{n}" for n in range(20)]
NEW = [f"new-{n}" for n in range(20)]
LONG = "all the same and long enough to be found " * 3


def record(name: str) -> bytes:
    return body(name, text=LONG, again=name)


def puts(names: list[str]) -> list[RecordPut]:
    return [RecordPut(name, record(name), "tool") for name in names]


@dataclass(frozen=True)
class TornFigures:
    cuts: int
    whole: int
    none: int
    half: int


async def tear_the_tail(cuts: int, *, seed: int = 1) -> TornFigures:
    """Cut the file within the last applied batch; count what is there whole, not at all, or half."""
    chance = random.Random(seed)
    server = RedisProcess(durable=True).start()
    try:
        log = server.append_only_file
        async with open_stores(server.url, hot_s=5.0, slow_s=10.0) as stores:
            await put(stores, *puts(OLD), task_id="old")
            await accept(stores, "new", NEW)
            batch = await claim_one(stores)
            before = log.stat().st_size
            assert await apply(stores, batch, puts(NEW))
        server.kill()
        original = log.read_bytes()
        places = {before, len(original), *(chance.randrange(before, len(original)) for _ in range(cuts - 2))}
        outcomes = [await _after_cut(server, log, original[:place]) for place in sorted(places)]
        return TornFigures(
            len(outcomes), outcomes.count("whole"), outcomes.count("none"), outcomes.count("half")
        )
    finally:
        server.stop()


async def _after_cut(server: RedisProcess, log: Path, rest: bytes) -> str:
    _rewrite(log, rest)
    server.start()
    async with open_stores(server.url, hot_s=5.0, slow_s=10.0) as stores:
        assert await stores.records.get_many(APP, "product", OLD) == [record(name) for name in OLD]
        records = await stores.records.get_many(APP, "product", NEW)
        task = await stores.tasks.get(APP, "product", "new")
        facts = (
            sum(json is not None for json in records),
            set(await stores.records.ids(APP, "product", "tool")) - set(OLD),
            len(await stores.changes.read(APP, {"product": "0"}, count=9, block_ms=0)),
            await stores.intake.depth(APP),
            task.status if task else "",
        )
        whole = (len(NEW), set(NEW), 2, 0, "finished")
        none = (0, set(), 1, 1, "running")
        if facts == none:
            # What was not applied can be applied now.
            assert await apply(stores, await claim_one(stores), puts(NEW))
    server.kill()
    return "whole" if facts == whole else "none" if facts == none else "half"


def _rewrite(log: Path, content: bytes) -> None:
    log.write_bytes(content)


@dataclass(frozen=True)
class FlipFigures:
    flipped: int
    set_aside: int
    wrong: int
    served: int


async def flip_record_bits(flips: int, *, seed: int = 1) -> FlipFigures:
    """Flip one bit in each of some stored records; count what is set aside, served, and served wrong."""
    chance = random.Random(seed)
    names = [f"p{n}" for n in range(10 * flips)]
    server = RedisProcess(durable=True).start()
    try:
        async with open_stores(server.url, hot_s=5.0, slow_s=10.0) as stores:
            await put(stores, *puts(names), task_id="one")
        server.kill()
        log = server.append_only_file
        raw = bytearray(log.read_bytes())
        victims = chance.sample(names, flips)
        for name in victims:
            # The sealed record stands alone; within the change log it stands in an array.
            place = raw.index(b"\r\n1", raw.index(b":product:%s\r\n" % name.encode())) + 2
            raw[place + chance.randrange(9 + len(record(name)))] ^= 1 << chance.randrange(8)
        log.write_bytes(raw)
        server.start()
        async with open_stores(server.url, hot_s=5.0, slow_s=10.0) as stores:
            records = dict(zip(names, await stores.records.get_many(APP, "product", names), strict=True))
            aside = await stores.server.execute_slow("XLEN", f"{{{APP}}}:quarantine")
            assert await stores.records.ids(APP, "product") == sorted(set(names) - set(victims))
        return FlipFigures(
            flipped=flips,
            set_aside=aside,
            wrong=sum(json not in (None, record(name)) for name, json in records.items()),
            served=sum(json == record(name) for name, json in records.items()),
        )
    finally:
        server.stop()


@dataclass(frozen=True)
class NoiseFigures:
    flips: int
    refused_to_start: int
    wrong: int
    errors: int


async def flip_anywhere(flips: int, *, seed: int = 1) -> NoiseFigures:
    """Flip one bit anywhere in the file, again and again; nothing wrong may ever be read, and a server
    that starts must be usable."""
    chance = random.Random(seed)
    server = RedisProcess(durable=True).start()
    wrong = refused = errors = 0
    try:
        async with open_stores(server.url, hot_s=5.0, slow_s=10.0) as stores:
            await put(stores, *puts(OLD), task_id="old")
            await stores.interactions.append(
                APP, b"[]", [("u1", "v1", view_interaction(1)), ("", "v2", view_interaction(2))]
            )
            await accept(stores, "waiting", NEW)
        server.kill()
        log = server.append_only_file
        original = log.read_bytes()
        for _ in range(flips):
            raw = bytearray(original)
            raw[chance.randrange(len(raw))] ^= 1 << chance.randrange(8)
            log.write_bytes(raw)
            try:
                server.start()
            except AssertionError:
                refused += 1
                continue
            async with open_stores(server.url, hot_s=5.0, slow_s=10.0) as stores:
                try:
                    wrong += await _wrongs(stores)
                except Exception as error:  # noqa: BLE001 - whatever it is, it is what we look for
                    errors += 1
                    print(f"  bit flip made reading fail: {type(error).__name__}: {error}")
            server.kill()
        return NoiseFigures(flips, refused, wrong, errors)
    finally:
        server.stop()


async def _wrongs(stores: OpenStores) -> int:
    """Read everything there is; count what differs from what was written."""
    wrong = 0
    for app_id in (APP, "other"):
        records = await stores.records.get_many(app_id, "product", OLD)
        wrong += sum(json not in (None, record(name)) for name, json in zip(OLD, records, strict=True))
        ids = await stores.records.ids(app_id, "product")
        listed = await stores.records.get_many(app_id, "product", ids)
        wrong += sum(json not in (None, record(name)) for name, json in zip(ids, listed, strict=True))
        await stores.records.ids(app_id, "product", "tool")
        await stores.tasks.get(app_id, "product", "old")
        await stores.interactions.recent(app_id, ["u:u1", "a:v1"])
        await stores.engines.all(app_id)
        for change in await stores.changes.read(app_id, {"product": "0"}, count=9, block_ms=0):
            wrong += change.payload not in (b"[]", b"[" + b",".join(record(name) for name in OLD) + b"]")
        for batch in await stores.intake.claim("worker", [app_id], count=9, block_ms=0):
            await stores.intake.give_up(batch, "seen", now_ms=1)
        await stores.interactions.erase(app_id, ["u1"])
        await asyncio.sleep(0)
    return wrong
