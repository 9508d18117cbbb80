"""The audit log over a real Redis: archived rows stay, and whoever tampers with the store is found out."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
import structlog

from cluster.admin.audit_setup import FIRST_PROVEN, start_audit_log
from cluster.backup.audit_position import find_audit_position, record_restore
from cluster.backup.catalogue import AuditPosition, BackupFacts
from cluster.clock import SystemClock
from cluster.crypto import new_master_key
from cluster.errors import Fault
from cluster.records.administration import AuditRow
from cluster.settings import Settings
from cluster.store import keys
from cluster.store.administration.audit import AuditFilter, AuditLog, pack_rows, unpack_rows
from cluster.store.administration.audit_chain import ACCEPT, RESEAL, START, next_chain, row_json
from cluster.store.administration.audit_proof import SEAL_FILE, AuditProof, SealedRow, _locked
from cluster.store.client.key_loader import KeyPart
from cluster.store.connect import OpenStores, open_stores
from tests.suites.doing import NOW
from tests.suites.redis_process import RedisProcess
from tests.suites.redis_waiting import EASY
from tests.suites.test_administration import a_row

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
    audit = AuditLog(redis_stores.server, live_rows=20, block_rows=5)
    written = [await audit.append(a_row(number)) for number in range(60)]
    assert await redis_stores.server.execute_slow("XLEN", keys.audit_row()) <= 25
    assert await redis_stores.server.execute_slow("LLEN", keys.audit_archive()) >= 7
    assert [row async for row in audit.rows()] == written
    verdict = await audit.verify()
    assert (verdict.is_whole, verdict.rows) == (True, 60)
    rows, before = [], ""
    while True:
        page = await audit.page(AuditFilter(), before=before, limit=7)
        rows += page.rows
        before = page.next
        if not before:
            break
    assert rows == written[::-1]
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


KEY = b"k" * 32


def proof(folder: Path, *keys_of_log: bytes) -> AuditProof:
    """Open the proofs of one machine."""
    return AuditProof(keys_of_log or (KEY,), folder / SEAL_FILE)


async def fill(audit: AuditLog, count: int) -> list[AuditRow]:
    return [await audit.append(a_row(number)) for number in range(count)]


async def rewrite(stores: OpenStores, rows: list[tuple[bytes, str]]) -> None:
    """Write the log anew as somebody does who has all of Redis and this source, but no key."""
    ask = stores.server.execute_slow
    await ask("DEL", keys.audit_row(), keys.audit_archive())
    before = START
    for stored, old_proof in rows:
        before = next_chain(before, stored)
        more = ("proof", old_proof) if old_proof else ()
        await ask("XADD", keys.audit_row(), "*", "row", stored, "chain", before, *more)


async def drop_the_newest(stores: OpenStores, rows: list[AuditRow]) -> None:
    await rewrite(stores, [(row_json(row), row.proof) for row in rows[:-2]])


async def drop_the_stream(stores: OpenStores, rows: list[AuditRow]) -> None:
    await stores.server.execute_slow("DEL", keys.audit_row())


async def rename_somebody(stores: OpenStores, rows: list[AuditRow]) -> None:
    renamed = rows[2].model_copy(update={"username": "eve"})
    await rewrite(stores, [(row_json(row), row.proof) for row in [*rows[:2], renamed, *rows[3:]]])


async def leave_rows_out(stores: OpenStores, rows: list[AuditRow]) -> None:
    await rewrite(stores, [(row_json(row), row.proof) for row in rows[:1] + rows[3:]])


async def rename_without_proofs(stores: OpenStores, rows: list[AuditRow]) -> None:
    renamed = rows[2].model_copy(update={"username": "eve"})
    await rewrite(stores, [(row_json(row), "") for row in [*rows[:2], renamed, *rows[3:]]])


@pytest.mark.parametrize(
    "attack", [drop_the_newest, drop_the_stream, rename_somebody, leave_rows_out, rename_without_proofs]
)
async def test_a_log_written_anew_is_noticed(
    redis_stores: OpenStores, tmp_path: Path, attack: Callable[[OpenStores, list[AuditRow]], Awaitable[None]]
) -> None:
    """Each of these is whole by its chain alone."""
    audit = redis_stores.audit
    audit.protect(proof(tmp_path))
    rows = await fill(audit, 6)
    assert (await audit.verify()).is_whole
    await attack(redis_stores, rows)
    assert not (await audit.verify()).is_whole
    # Nor is it forgotten once the installation goes on.
    await fill(audit, 3)
    assert not (await audit.verify()).is_whole
    restarted = AuditLog(redis_stores.server)
    restarted.protect(proof(tmp_path))
    await fill(restarted, 3)
    assert not (await restarted.verify()).is_whole
    await accept(restarted)
    await fill(restarted, 3)
    assert (await restarted.verify()).is_whole


async def accept(audit: AuditLog, **more: object) -> AuditRow:
    """Accept what is wrong as `kiosk audit verify --accept` does."""
    verdict = await audit.verify()
    facts = {"operation": ACCEPT, "at": SystemClock().now_ms(), "after": verdict.to_dict()}
    return await audit.append(a_row(9, **facts | more))


async def entries_of(stores: OpenStores) -> list[tuple[bytes, list[bytes]]]:
    return list(await stores.server.execute_slow("XRANGE", keys.audit_row(), "-", "+"))


async def write_entries(stores: OpenStores, entries: list[tuple[bytes | str, list[bytes]]]) -> None:
    """Write the stream anew with these ids and fields."""
    await stores.server.execute_slow("DEL", keys.audit_row())
    for row_id, fields in entries:
        await stores.server.execute_slow("XADD", keys.audit_row(), row_id, *fields)


async def forge_an_acceptance(stores: OpenStores, entries: list[tuple[bytes, list[bytes]]]) -> None:
    """Turn a row into one that accepts everything; its chain and proof stay."""
    forged = row_json(a_row(2, operation=ACCEPT, after={"faults": ""}))
    row_id, fields = entries[2]
    await write_entries(stores, [*entries[:2], (row_id, [fields[0], forged, *fields[2:]]), *entries[3:]])


async def change_an_accepted_row(stores: OpenStores, entries: list[tuple[bytes, list[bytes]]]) -> None:
    row_id, fields = entries[1]
    renamed = fields[1].replace(b"ada", b"eve")
    await write_entries(stores, [entries[0], (row_id, [fields[0], renamed, *fields[2:]]), *entries[2:]])


async def repeat_an_acceptance(stores: OpenStores, entries: list[tuple[bytes, list[bytes]]]) -> None:
    """Change a row behind an acceptance, and put a copy of the acceptance behind it."""
    at = next(place for place, (_, fields) in enumerate(entries) if ACCEPT.encode() in fields[1])
    row_id, fields = entries[at + 1]
    renamed = (row_id, [fields[0], fields[1].replace(b"ada", b"eve"), *fields[2:]])
    newest = entries[-1][0].partition(b"-")[0]
    bridge = (newest + b"-98", [b"row", b"{}", b"chain", entries[at - 1][1][3]])
    copy = (newest + b"-99", entries[at][1])
    await write_entries(stores, [*entries[: at + 1], renamed, *entries[at + 2 :], bridge, copy])


async def cut_back_to_an_acceptance(stores: OpenStores, entries: list[tuple[bytes, list[bytes]]]) -> None:
    """Remove what followed an acceptance, which gets an id behind the sealed row."""
    at = next(place for place, (_, fields) in enumerate(entries) if ACCEPT.encode() in fields[1])
    later = entries[-1][0].partition(b"-")[0] + b"-99"
    await write_entries(stores, [*entries[:at], (later, entries[at][1])])


@pytest.mark.parametrize(
    "attack",
    [forge_an_acceptance, change_an_accepted_row, repeat_an_acceptance, cut_back_to_an_acceptance],
)
async def test_an_acceptance_covers_no_other_fault(
    redis_stores: OpenStores,
    tmp_path: Path,
    attack: Callable[[OpenStores, list[tuple[bytes, list[bytes]]]], Awaitable[None]],
) -> None:
    """Whoever can write Redis may move and repeat rows with their proofs, acceptances too."""
    audit = redis_stores.audit
    audit.protect(proof(tmp_path))
    await fill(audit, 4)
    entries = await entries_of(redis_stores)
    row_id, fields = entries[3]
    await write_entries(redis_stores, [*entries[:3], (row_id, [fields[0], b"{}", *fields[2:]])])
    # a day ago: the clocks of Redis and of this process may differ by minutes
    day_ago = SystemClock().now_ms() - 86_400_000
    await accept(audit, at=day_ago)
    await fill(audit, 3)
    assert (await audit.verify()).is_whole
    await attack(redis_stores, await entries_of(redis_stores))
    assert not (await audit.verify()).is_whole


async def test_an_acceptance_holds_after_a_new_master_key(redis_stores: OpenStores, tmp_path: Path) -> None:
    audit, new = redis_stores.audit, b"n" * 32
    audit.protect(proof(tmp_path, KEY))
    await fill(audit, 3)
    await change_an_accepted_row(redis_stores, await entries_of(redis_stores))
    await accept(audit)
    audit.protect(proof(tmp_path, new, KEY))
    verdict = await audit.verify()
    assert verdict.is_whole
    await audit.append(a_row(8, operation=RESEAL, after={"audit": verdict.to_dict()}))
    audit.protect(proof(tmp_path, new))
    assert (await audit.verify()).is_whole


async def test_a_seal_is_renewed_without_losing_a_newer_one(tmp_path: Path) -> None:
    current, other = proof(tmp_path, b"n" * 32, KEY), proof(tmp_path, KEY)
    other.seal("5-0", "c" * 64)
    # The lock is taken by the other process, which seals a newer row before it leaves.
    with _locked(tmp_path / SEAL_FILE):
        renewing = asyncio.create_task(asyncio.to_thread(current.renew))
        await asyncio.sleep(0.2)
        other._write(SealedRow("6-0", "d" * 64))
    await renewing
    assert proof(tmp_path, b"n" * 32).sealed() == SealedRow("6-0", "d" * 64)


async def test_a_folder_that_can_not_be_written_stops_no_replica(tmp_path: Path) -> None:
    proof(tmp_path).seal("5-0", "c" * 64)
    (tmp_path / (SEAL_FILE + ".lock")).unlink()
    (tmp_path / (SEAL_FILE + ".lock")).mkdir()
    with structlog.testing.capture_logs() as lines:
        proof(tmp_path).renew()
    assert [line["event"] for line in lines] == ["audit_seal_not_written"]


async def test_a_row_without_the_key_is_noticed_and_can_be_accepted(
    redis_stores: OpenStores, redis_server: RedisProcess, tmp_path: Path
) -> None:
    async with open_stores(redis_server.url, **EASY) as earlier_release:
        await fill(earlier_release.audit, 3)
        audit = redis_stores.audit
        audit.protect(proof(tmp_path))
        unproven = await audit.verify()
        assert (unproven.is_whole, unproven.proven_from) == (True, "")
        first = await audit.append(a_row(3))
        whole = await audit.verify()
        assert (whole.is_whole, whole.rows, whole.proven_from) == (True, 4, first.row_id)
        forged = await earlier_release.audit.append(a_row(4))
        await audit.append(a_row(5))
        verdict = await audit.verify()
        assert (verdict.is_whole, verdict.broken_at, verdict.rows) == (False, forged.row_id, 4)
        await earlier_release.audit.append(a_row(6, operation=ACCEPT, after=verdict.to_dict()))
        assert not (await audit.verify()).is_whole, "a row without a proof accepts nothing"
        await accept(audit)
        assert (await audit.verify()).is_whole


async def test_machines_seal_for_themselves_and_a_lost_file_is_no_fault(
    redis_stores: OpenStores, redis_server: RedisProcess, tmp_path: Path
) -> None:
    async with open_stores(redis_server.url, **EASY) as other:
        audits = (redis_stores.audit, other.audit)
        for number, audit in enumerate(audits):
            (tmp_path / str(number)).mkdir()
            audit.protect(proof(tmp_path / str(number)))
        await asyncio.gather(*(audits[number % 2].append(a_row(number)) for number in range(20)))
        for audit in audits:
            assert (await audit.verify()).is_whole
        (tmp_path / "0" / SEAL_FILE).unlink()
        assert (await audits[0].verify()).is_whole
        await redis_stores.server.execute_slow("DEL", keys.audit_row())
        assert not (await audits[1].verify()).is_whole


async def test_processes_of_one_machine_keep_the_newest_seal(
    redis_stores: OpenStores, tmp_path: Path
) -> None:
    both = [proof(tmp_path), proof(tmp_path)]
    for number in (5, 3, 12, 7):
        both[number % 2].seal(f"{number}-0", "c" * 64)
    assert both[0].sealed() == SealedRow("12-0", "c" * 64)
    path = tmp_path / SEAL_FILE
    assert path.stat().st_mode & 0o077 == 0
    path.write_text(path.read_text().replace("12-0", "11-0"))
    with pytest.raises(Fault, match="was changed"):
        both[0].sealed()


async def test_a_new_master_key_goes_on_and_the_old_one_can_leave(
    redis_stores: OpenStores, tmp_path: Path
) -> None:
    audit, new = redis_stores.audit, b"n" * 32
    audit.protect(proof(tmp_path, KEY))
    await fill(audit, 3)
    # While both keys are known, replicas sign with either.
    for number in range(4):
        audit.protect(proof(tmp_path, new, KEY) if number % 2 == 0 else proof(tmp_path, KEY, new))
        await audit.append(a_row(number))
    audit.protect(proof(tmp_path, new, KEY))
    assert (await audit.verify()).is_whole
    await audit.append(a_row(8).model_copy(update={"operation": RESEAL, "outcome": "done"}))
    audit.protect(proof(tmp_path, new))
    assert (await audit.verify()).is_whole
    audit.protect(proof(tmp_path, b"another".ljust(32)))
    with pytest.raises(Fault, match="another master key"):
        await audit.verify()


async def test_a_restored_older_log_is_accepted_by_its_row(redis_stores: OpenStores, tmp_path: Path) -> None:
    audit = redis_stores.audit
    audit.protect(proof(tmp_path))
    rows = await fill(audit, 5)
    facts = BackupFacts("b1", "0", 1, 1, "f", 0, 0, audit=AuditPosition(rows[2].row_id, rows[2].chain))
    entries = await redis_stores.server.execute_slow("XRANGE", keys.audit_row(), "-", "+", "COUNT", 3)
    assert find_audit_position([KeyPart(keys.audit_row().encode(), "stream", entries)]) == facts.audit
    await redis_stores.server.execute_slow("DEL", keys.audit_row())
    for row_id, fields in entries:
        await redis_stores.server.execute_slow("XADD", keys.audit_row(), row_id, *fields)
    assert not (await audit.verify()).is_whole
    await record_restore(audit, facts, SystemClock().now_ms())
    assert (await audit.verify()).is_whole
    hostile = BackupFacts("b2", "0", 1, 1, "f", 0, 0, audit=AuditPosition("1-0", "e" * 64))
    with pytest.raises(Fault, match="lacks the newest row"):
        await record_restore(audit, hostile, NOW)


async def test_more_rows_than_the_stream_keeps_are_proven_too(
    redis_stores: OpenStores, tmp_path: Path
) -> None:
    audit = AuditLog(redis_stores.server, live_rows=20, block_rows=5)
    audit.protect(proof(tmp_path))
    written = await fill(audit, 60)
    assert [row async for row in audit.rows()] == written
    noted = written[10].chain
    verdict = await audit.verify(noted)
    assert (verdict.is_whole, verdict.rows, verdict.since_rows) == (True, 60, 49)
    assert not (await audit.verify("0" * 64)).is_whole
    blocks = await redis_stores.server.execute_slow("LRANGE", keys.audit_archive(), 0, -1)
    first = unpack_rows(blocks[0])
    without = [(row_id, stored.replace(b"ada", b"eve"), chain, mac) for row_id, stored, chain, mac in first]
    await redis_stores.server.execute_slow("LSET", keys.audit_archive(), 0, pack_rows(without))
    assert not (await audit.verify()).is_whole


async def test_a_replica_begins_a_proven_log_once_and_reports_its_rows(
    redis_stores: OpenStores, tmp_path: Path
) -> None:
    settings = Settings(data_dir=tmp_path, master_key=new_master_key())
    with structlog.testing.capture_logs() as lines:
        await start_audit_log(redis_stores.audit, settings, SystemClock())
        await start_audit_log(redis_stores.audit, settings, SystemClock())
        row = await redis_stores.audit.append(a_row(1))
    assert [stored.operation async for stored in redis_stores.audit.rows()] == [FIRST_PROVEN, "keys.rotate"]
    assert [line["row"]["chain"] for line in lines if line["event"] == "audit_row"][-1] == row.chain
    assert (await redis_stores.audit.verify()).is_whole
    assert (tmp_path / SEAL_FILE).exists()
