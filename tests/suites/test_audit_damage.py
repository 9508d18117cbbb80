"""The audit log over a real Redis: archived rows stay, and whoever tampers with the store is found out."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from cluster.store import keys
from cluster.store.connect import OpenStores, open_stores
from cluster.store.ports.administration import AuditFilter, AuditLog
from cluster.store.redis.audit import RedisAudit
from tests.suites.administration import a_row
from tests.suites.doing import NOW
from tests.suites.redis_process import RedisProcess
from tests.suites.redis_waiting import EASY

pytestmark = pytest.mark.redis

Tampering = Callable[[OpenStores, list[str]], Awaitable[None]]


async def change_a_row(stores: OpenStores, ids: list[str]) -> None:
    """Replace the last row by another text under the same chain."""
    ask = stores.server.execute_slow
    [[_, fields]] = await ask("XREVRANGE", keys.audit_row(), "+", "-", "COUNT", 1)
    await ask("XDEL", keys.audit_row(), ids[-1])
    newer = ids[-1].partition("-")[0] + "-99"
    await ask("XADD", keys.audit_row(), newer, "row", fields[1].replace(b"ada", b"eve"), "chain", fields[3])


async def remove_one_inside(stores: OpenStores, ids: list[str]) -> None:
    await stores.server.execute_slow("XDEL", keys.audit_row(), ids[2])


async def remove_the_oldest(stores: OpenStores, ids: list[str]) -> None:
    await stores.server.execute_slow("XDEL", keys.audit_row(), ids[0])


async def remove_the_newest(stores: OpenStores, ids: list[str]) -> None:
    await stores.server.execute_slow("XDEL", keys.audit_row(), ids[-1])


async def empty_the_log(stores: OpenStores, ids: list[str]) -> None:
    await stores.server.execute_slow("XTRIM", keys.audit_row(), "MAXLEN", 0)


async def insert_a_row(stores: OpenStores, ids: list[str]) -> None:
    await stores.server.execute_slow("XADD", keys.audit_row(), "*", "row", "{}", "chain", "0" * 64)


@pytest.mark.parametrize(
    "tamper",
    [
        change_a_row,
        remove_one_inside,
        remove_the_oldest,
        remove_the_newest,
        empty_the_log,
        insert_a_row,
    ],
)
async def test_tampering_is_noticed(redis_stores: OpenStores, tamper: Tampering) -> None:
    ids = [(await redis_stores.audit.append(a_row(number))).row_id for number in range(5)]
    assert (await redis_stores.audit.verify()).is_whole
    await tamper(redis_stores, ids)
    verdict = await redis_stores.audit.verify()
    assert not verdict.is_whole
    assert verdict.broken_at


async def test_old_rows_are_archived_and_stay_in_the_chain(redis_stores: OpenStores) -> None:
    audit = RedisAudit(redis_stores.server, live_rows=20, block_rows=5)
    written = [await audit.append(a_row(number)) for number in range(60)]
    assert await redis_stores.server.execute_slow("XLEN", keys.audit_row()) <= 25
    assert await redis_stores.server.execute_slow("LLEN", keys.audit_archive()) >= 7
    assert [row async for row in audit.rows()] == written
    verdict = await audit.verify()
    assert (verdict.is_whole, verdict.rows) == (True, 60)
    found, before = [], ""
    while True:
        page = await audit.page(AuditFilter(), before=before, limit=7)
        found += page.rows
        before = page.next
        if not before:
            break
    assert found == written[::-1]
    [block] = await redis_stores.server.execute_slow("LRANGE", keys.audit_archive(), 1, 1)
    await redis_stores.server.execute_slow("LSET", keys.audit_archive(), 1, block[:-3])
    assert not (await audit.verify()).is_whole


async def test_replicas_write_one_chain(redis_server: RedisProcess, redis_stores: OpenStores) -> None:
    async with open_stores(redis_server.url, **EASY) as other:
        both: tuple[AuditLog, ...] = (redis_stores.audit, other.audit)
        await asyncio.gather(*(both[number % 2].append(a_row(number)) for number in range(30)))
        verdict = await other.audit.verify()
    assert (verdict.is_whole, verdict.rows) == (True, 30)
    assert sorted([row.at - NOW async for row in redis_stores.audit.rows()]) == list(range(30))
