"""Imports of uploaded files over Redis: a dirty file from upload to the catalog, death, cancellation, bounds."""

from __future__ import annotations

import asyncio
import csv
import io
import os
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from actors.intake.client import Erasures
from cluster.artifacts.storage.artifact_store import ArtifactStore
from cluster.clock import SystemClock
from cluster.crypto import Vault
from cluster.errors import (
    Conflict,
    Forbidden,
    Invalid,
    KioskError,
    NotFound,
    ReadOnly,
    TooLarge,
    TooMany,
    Unavailable,
    Unprocessable,
)
from cluster.records.administration import AppRole
from cluster.records.apps import App
from cluster.records.erasure import Erasure
from cluster.records.file_import import ALIVE_WITHIN_MS, KEPT_MS, STARTS_WITHIN_MS
from cluster.store.connect import OpenStores
from cluster.store.data.person_traces import IMPORTS
from deployments.operations.all_operations import OPERATIONS
from deployments.operations.framework.operation_executor import Administration
from deployments.operations.framework.principal import Principal
from deployments.operations.framework.services import AdminConfig, AdminServices
from jobs.ingest.upload import upload_ingest
from jobs.ingest.upload.upload_ingest import UploadedFileIngest
from tests.fakes.audit_list import AuditList
from tests.fakes.request_handler import MASTER, open_corner
from tests.suites.doing import require

APP = "shop"
DIRTY = (
    b'SKU;Name;Preis;=HYPERLINK("x")\n'
    b"a-1;Oak board;12,50;=1+1\n"
    b"a-2;<script>alert(1)</script>;2,00;@x\n"
    b";no id;1,00;\n"
    b"a-3;too;many;cells;here\n"
    b"a-4;bad price;cheap;\n"
)
RULES = ["product_id=SKU", "type:=tool", "title=Name", "price=Preis:number(,)"]


class ShiftedClock(SystemClock):
    """The clock of the system, which may be set forward."""

    def __init__(self) -> None:
        self.ahead_ms = 0

    def now_ms(self) -> int:
        return super().now_ms() + self.ahead_ms


class Killed(BaseException):
    """The end of a process: nothing that handles errors runs."""


class Desk:
    """The administration of the app, with imports that run in this process."""

    def __init__(self, services: AdminServices, folder: Path, clock: ShiftedClock) -> None:
        self.audit, self.clock, self.folder = AuditList(), clock, folder
        self.running: list[asyncio.Task[Any]] = []
        self.is_launching = True
        self.services = replace(services, launch_import=self._launch)
        self._administration = Administration(self.services, OPERATIONS, self.audit, clock)

    async def perform(self, name: str, *, role: AppRole = "editor", **arguments: Any) -> Any:
        principal = Principal("ada", "1", "console", roles={arguments.get("app_id", APP): role})
        return await self._administration.perform(principal, name, {"app_id": APP, **arguments})

    async def upload(self, data: bytes = DIRTY, noun: str = "product", **more: Any) -> str:
        given = {"file_name": "dirty.csv", **more}
        view = await self.perform("imports.upload", noun=noun, content=stream(data), **given)
        return str(view.record.import_id)

    async def status(self, import_id: str) -> dict[str, Any]:
        view = await self.perform("imports.get", import_id=import_id)
        return dict(view.to_dict())

    async def run(self, import_id: str, **options: Any) -> dict[str, Any]:
        """Start an import, and return its status when it has ended."""
        await self.perform("imports.start", import_id=import_id, **options)
        await self.ended()
        return await self.status(import_id)

    async def ended(self) -> None:
        await asyncio.gather(*self.running, return_exceptions=True)

    def ingest(self, **more: Any) -> UploadedFileIngest:
        services, folder = self.services, self.folder / "data" / "ingest"
        return UploadedFileIngest(
            services.stores, services.artifacts, folder, self.clock, node="here", beat_s=0.02, **more
        )

    async def _launch(self, app_id: str, import_id: str) -> None:
        if self.is_launching:
            self.running.append(asyncio.create_task(self.ingest().run(app_id, import_id)))


async def stream(data: bytes, size: int = 1 << 16) -> AsyncIterator[bytes]:
    for at in range(0, len(data), size):
        yield data[at : at + size]


def click_lines(count: int) -> bytes:
    return b"".join(b'{"type":"click","user_id":"u%d","product_ids":["p"]}\n' % at for at in range(count))


@pytest.fixture
async def desk(redis_stores: OpenStores, tmp_path: Path) -> AsyncIterator[Desk]:
    clock = ShiftedClock()
    corner = await open_corner(clock=clock, stores=redis_stores)
    services = AdminServices(
        stores=redis_stores, vault=Vault(MASTER), clock=clock,
        artifact_source=ArtifactStore.open(tmp_path / "artifacts"),
        config=AdminConfig(data_dir=tmp_path / "data", max_upload_mb=1, imports_at_once=2),
    )  # fmt: skip
    desk = Desk(services, tmp_path, clock)
    yield desk
    for task in desk.running:
        task.cancel()
    await desk.ended()
    await corner.close()


async def test_a_dirty_file_is_imported_from_upload_to_refused_rows(desk: Desk) -> None:
    import_id = await desk.upload()
    seen = await desk.perform("imports.preview", import_id=import_id)
    assert [(column["name"], column["field"]) for column in seen["columns"]] == [
        ("SKU", "product_id"), ("Name", "title"), ("Preis", "price"), ('=HYPERLINK("x")', ""),
    ]  # fmt: skip
    tried = await desk.perform("imports.dry_run", import_id=import_id, mapping=RULES)
    assert (tried["rows"], tried["accepted"], tried["refused"]) == (5, 2, 3)
    assert await desk.services.stores.records.count(APP, "product") == 0
    started = await desk.perform("imports.start", import_id=import_id, mapping=RULES)
    assert started.to_dict()["status"] == "running"
    await desk.ended()
    done = await desk.status(import_id)
    assert (done["status"], done["accepted"], done["refused"], done["rows"]) == ("finished", 2, 3, 5)
    assert done["is_removed"] is True
    record = require(await desk.services.stores.records.get(APP, "product", "a-2"))
    assert b"<script>" in record
    refused = await desk.perform("imports.refused", import_id=import_id)
    assert [row["row"] for row in refused.rows] == [3, 4, 5]
    assert refused.to_lines().count(b"\n") == 3
    with pytest.raises(Unprocessable, match="offset"):
        await desk.perform("imports.refused", import_id=import_id, offset=1 << 63)
    aside = await desk.perform("quarantine.list")
    assert sorted(entry.name for entry in aside.newest) == [f"row {at} of dirty.csv" for at in (3, 4, 5)]
    assert await _files(desk) == []
    with pytest.raises(NotFound, match="removed"):
        await desk.perform("imports.start", import_id=import_id)
    audited = [row.operation for row in desk.audit.rows]
    assert audited == ["imports.upload", "imports.start", "imports.refused", "imports.start"]


@pytest.mark.parametrize("form", ["jsonl", "parquet"])
async def test_the_content_tells_the_format(desk: Desk, form: str, tmp_path: Path) -> None:
    if form == "jsonl":
        data = b'{"product_id": "j-1", "type": "tool", "title": "Oak"}\n[1]\n'
    else:
        table = pa.table({"product_id": ["j-1"], "type": ["tool"], "title": ["Oak"]})
        pq.write_table(table, tmp_path / "x")
        data = (tmp_path / "x").read_bytes()
    import_id = await desk.upload(data, file_name="liar.csv")
    assert (await desk.status(import_id))["format"] == form
    assert (await desk.run(import_id))["accepted"] == 1


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "empty"),
        (b"PK\x03\x04...", "workbook"),
        (b"\x1f\x8b...", "gzip"),
        (b'[{"a": 1}]', "JSON array"),
        (b"<html>", "HTML"),
        ("a,b\n1,2\n".encode("utf-16"), "UTF-8"),
        (b"PAR1nonsensePAR1", "Parquet"),
    ],
)
async def test_other_files_are_refused_with_advice(desk: Desk, data: bytes, words: str) -> None:
    with pytest.raises(Invalid, match=words):
        await desk.upload(data)
    assert await _files(desk) == []


async def test_uploads_are_bounded(desk: Desk) -> None:
    with pytest.raises(TooLarge, match="larger than 1 MB"):
        await desk.upload(b"a" * (1 << 20) + b"b")
    desk.services = replace(desk.services)
    for _ in range(20):
        await desk.upload(b"product_id\nx\n")
    with pytest.raises(TooMany, match="20 uploaded files wait"):
        await desk.upload(b"product_id\nx\n")


async def test_nothing_is_received_while_the_disk_is_full(desk: Desk) -> None:
    desk.services = replace(desk.services, why_full=lambda: "The disk is full.")
    administration = Administration(desk.services, OPERATIONS, desk.audit, desk.clock)
    principal = Principal("ada", "1", "console", roles={APP: "editor"})
    given = {"app_id": APP, "noun": "product", "content": stream(DIRTY)}
    with pytest.raises(Unavailable, match="full"):
        await administration.perform(principal, "imports.upload", given)


async def test_files_of_a_killed_process_are_removed(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    left = [desk.folder / "data" / "ingest" / name / "tmpabc" for name in ("receiving", "uploads")]
    for folder in left:
        folder.mkdir(parents=True)
        (folder / "upload").write_bytes(b"x" * 1000)
    await desk.upload()
    assert all(folder.exists() for folder in left)
    for folder in left:
        os.utime(folder, (0, 0))
    await desk.upload()
    assert not any(folder.exists() for folder in left)

    def die(*_: Any) -> None:
        raise Killed

    monkeypatch.setattr(ArtifactStore, "upload", die)
    with pytest.raises(Killed):
        await desk.upload()
    listed = (await desk.perform("imports.list"))["imports"]
    assert (len(listed), listed[0]["is_removed"]) == (3, False)
    desk.clock.ahead_ms = KEPT_MS + 1
    assert (await desk.perform("imports.list"))["imports"][0]["is_removed"]


async def test_so_many_imports_run_at_once(desk: Desk) -> None:
    desk.is_launching = False
    ids = [await desk.upload(b"product_id\nx\n") for _ in range(3)]
    for import_id in ids[:2]:
        await desk.perform("imports.start", import_id=import_id)
    with pytest.raises(TooMany, match="2 imports run at once"):
        await desk.perform("imports.start", import_id=ids[2])
    with pytest.raises(Conflict, match="running"):
        await desk.perform("imports.start", import_id=ids[0])
    assert (await desk.status(ids[2]))["status"] == "uploaded"


async def test_a_dead_import_is_seen_and_goes_on_where_it_stopped(desk: Desk) -> None:
    import_id = await desk.upload(click_lines(5_000), noun="interaction", file_name="clicks.jsonl")
    desk.is_launching = False
    started = await desk.perform("imports.start", import_id=import_id)
    assert await desk.services.stores.imports.get(APP, import_id) is not None
    chunks = 0

    def dies() -> str:
        nonlocal chunks
        chunks += 1
        if chunks == 2:
            raise Killed
        return ""

    with pytest.raises(Killed):
        await desk.ingest(why_full=dies).run(APP, import_id)
    assert (await desk.status(import_id))["status"] == "running"
    desk.clock.ahead_ms += ALIVE_WITHIN_MS + STARTS_WITHIN_MS
    assert (await desk.status(import_id))["status"] == "interrupted"
    await _expire_leases(desk, started)
    desk.is_launching = True
    done = await desk.run(import_id)
    assert (done["status"], done["accepted"], done["rows"]) == ("finished", 5_000, 5_000)
    changes = await desk.services.stores.changes.read(APP, {"interaction": "0"}, count=100, block_ms=0)
    assert sum(change.payload.count(b'"click"') for change in changes) == 5_000


def other_node(desk: Desk, folder: Path) -> Desk:
    """Return the administration of a node that shares Redis and the artifact store."""
    services = replace(desk.services, config=replace(desk.services.config, data_dir=folder / "data"))
    return Desk(services, folder, desk.clock)


async def _cancelled_midway(desk: Desk, rows: bytes, noun: str) -> str:
    import_id = await desk.upload(rows, noun=noun)
    desk.is_launching = False
    await desk.perform("imports.start", import_id=import_id)
    chunks = 0

    def stop() -> str:
        nonlocal chunks
        chunks += 1
        return "full." if chunks == 2 else ""

    assert (await desk.ingest(why_full=stop).run(APP, import_id)).status == "failed"
    return import_id


async def test_every_node_shows_an_import_and_takes_records_over(desk: Desk, tmp_path: Path) -> None:
    rows = b"".join(b'{"product_id":"p%d","type":"tool","title":"t"}\n' % at for at in range(1_200))
    import_id = await _cancelled_midway(desk, rows, "product")
    other = other_node(desk, tmp_path / "b")
    assert await other.status(import_id) == await desk.status(import_id)
    assert (await other.status(import_id))["accepted"] > 0
    await other.perform("imports.start", import_id=import_id)
    await other.ended()
    assert (await desk.status(import_id))["status"] == "finished"
    assert await desk.services.stores.records.count(APP, "product") == 1_200


async def test_interactions_do_not_go_on_where_their_place_is_unknown(desk: Desk, tmp_path: Path) -> None:
    import_id = await _cancelled_midway(desk, click_lines(5_000), "interaction")
    other = other_node(desk, tmp_path / "b")
    with pytest.raises(Conflict, match="the machine here has taken rows of it"):
        await other.perform("imports.start", import_id=import_id)
    desk.is_launching = True
    await desk.run(import_id)
    assert (await other.status(import_id))["accepted"] == 5_000
    changes = await desk.services.stores.changes.read(APP, {"interaction": "0"}, count=100, block_ms=0)
    assert sum(change.payload.count(b'"click"') for change in changes) == 5_000


async def test_a_running_import_is_cancelled_and_may_go_on(desk: Desk) -> None:
    import_id = await desk.upload(click_lines(9_000), noun="interaction")
    desk.is_launching = False
    await desk.perform("imports.start", import_id=import_id)
    cancelled = await desk.perform("imports.cancel", import_id=import_id)
    assert cancelled.to_dict()["is_stopping"] is True
    work = desk.ingest()
    progress = await work.run(APP, import_id)
    assert progress.status == "cancelled"
    assert (await desk.status(import_id))["status"] == "cancelled"
    with pytest.raises(Conflict, match="cancelled"):
        await desk.perform("imports.cancel", import_id=import_id)
    desk.is_launching = True
    assert (await desk.run(import_id))["accepted"] == 9_000


async def test_an_import_ends_at_its_bound_on_decoded_bytes(
    desk: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A small file whose dictionary has one long text: each row decodes to all of it."""
    monkeypatch.setattr(upload_ingest, "LEAST_DECODED", 2 << 20)
    count = 2_000
    titles = pa.DictionaryArray.from_arrays(np.zeros(count, np.int32), pa.array(["x" * 1_500]))
    columns = {"product_id": [f"p{at}" for at in range(count)], "type": ["tool"] * count, "title": titles}
    pq.write_table(pa.table(columns), tmp_path / "bomb", store_schema=False)
    data = (tmp_path / "bomb").read_bytes()
    assert upload_ingest.DECODED_SHARE * len(data) < 1_500 * count
    import_id = await desk.upload(data, file_name="bomb.parquet")
    done = await desk.run(import_id)
    assert (done["status"], done["accepted"] < count) == ("failed", True)
    assert "holds more than 2 MB of data after decoding" in done["error"]
    # any file may have the least bound
    monkeypatch.setattr(upload_ingest, "LEAST_DECODED", 4 << 20)
    assert (await desk.run(import_id))["accepted"] == count


ODD_IDS = ("..", "../x", "%2e%2e", "*", f"{APP}:import", "a\x00b", "a" * 10_000, "", "\u202e")


@pytest.mark.parametrize("name", ["get", "refused", "preview", "dry_run", "start", "cancel", "remove"])
async def test_the_id_of_an_import_opens_nothing_in_another_app_and_odd_ids_are_unknown(
    desk: Desk, redis_stores: OpenStores, name: str
) -> None:
    await redis_stores.access.put_app(App(app_id="other", environment="development", created_at=1))
    import_id = await desk.upload()
    given = {"mapping": RULES} if name == "dry_run" else {}
    with pytest.raises(NotFound, match="there is no import"):
        await desk.perform(f"imports.{name}", app_id="other", import_id=import_id, **given)
    for odd_id in ODD_IDS:
        with pytest.raises((NotFound, Invalid)):
            await desk.perform(f"imports.{name}", import_id=odd_id, **given)
    done = await desk.status(import_id)
    assert (done["status"], done["is_removed"]) == ("uploaded", False)
    assert len(await _files(desk)) == 1


async def test_refused_rows_as_csv_have_no_cell_that_a_spreadsheet_computes(desk: Desk) -> None:
    cells = ("=1+1", "+1", "-1", "@x", "\tx")
    data = "sku;name\n" + "".join(f"{cell};too;many\n" for cell in cells)
    import_id = await desk.upload(data.encode() + b"a;b\n")
    await desk.run(import_id, mapping=["product_id=sku", "title=name", "type:=t"])
    refused = await desk.perform("imports.refused", import_id=import_id)
    head, *rows = csv.reader(io.StringIO(refused.to_csv().decode()))
    assert (head, len(rows)) == (["row", "reason", "text"], len(cells))
    assert [row[2][:3] for row in rows] == [f"'{cell}"[:3] for cell in cells]
    assert not [cell for row in rows for cell in row if cell.startswith(("=", "+", "-", "@", "\t", "\r"))]


async def test_a_wrong_mapping_fails_and_another_one_is_taken(desk: Desk) -> None:
    import_id = await desk.upload(b"sku\n" + b"".join(b"p%d\n" % at for at in range(1_200)))
    with pytest.raises(Invalid, match="neither field=column"):
        await desk.perform("imports.start", import_id=import_id, mapping=["nonsense"])
    failed = await desk.run(import_id, mapping=["title=sku"])
    assert failed["status"] == "failed"
    assert "none of the first" in failed["error"]
    done = await desk.run(import_id, mapping=["product_id=sku", "title=sku", "type:=tool"])
    assert done["accepted"] == 1_200


async def test_rows_of_one_mapping_are_not_taken_again_by_another(desk: Desk) -> None:
    import_id = await desk.upload(click_lines(9_000), noun="interaction")
    desk.is_launching = False
    await desk.perform("imports.start", import_id=import_id)
    await desk.perform("imports.cancel", import_id=import_id)
    await desk.ingest().run(APP, import_id)
    assert (await desk.status(import_id))["accepted"] > 0
    with pytest.raises(Conflict, match="another mapping"):
        await desk.perform("imports.start", import_id=import_id, mapping=["type:=click", "user_id=user_id"])


async def test_files_that_nobody_imports_go_after_a_day(desk: Desk) -> None:
    import_id = await desk.upload()
    desk.clock.ahead_ms += KEPT_MS + 1
    (listed,) = (await desk.perform("imports.list"))["imports"]
    assert (listed["import_id"], listed["is_removed"]) == (import_id, True)
    assert await _files(desk) == []
    assert await desk.perform("imports.remove", import_id=import_id) == {"removed": import_id}
    assert (await desk.perform("imports.list"))["imports"] == []


async def test_hostile_names_stay_text(desk: Desk) -> None:
    name = "../../etc/<script>\u202e'passwd.csv"
    import_id = await desk.upload(file_name=name)
    (stored,) = (await desk.perform("imports.list"))["imports"]
    assert stored["file_name"] == name
    assert [path.split("/")[:3] for path in await _files(desk)] == [["imports", APP, import_id]]


async def test_only_editors_import_and_the_playground_takes_nothing(desk: Desk) -> None:
    for role in ("viewer", "analyst"):
        with pytest.raises(Forbidden):
            await desk.perform("imports.list", role=role)
    with pytest.raises(ReadOnly):
        await desk.perform(
            "imports.upload", app_id="playground", noun="product", content=stream(b"product_id\nx\n")
        )


async def test_a_launch_that_fails_leaves_the_import_as_it_was(desk: Desk) -> None:
    import_id = await desk.upload()

    async def refuse(app_id: str, import_id: str) -> None:
        raise Conflict("no process today")

    services = replace(desk.services, launch_import=refuse)
    broken = Administration(services, OPERATIONS, desk.audit, desk.clock)
    principal = Principal("ada", "1", "console", is_administrator=True)
    for _ in range(2):
        with pytest.raises(KioskError, match="no process today"):
            await broken.perform(principal, "imports.start", {"app_id": APP, "import_id": import_id})
    assert (await desk.status(import_id))["status"] == "uploaded"


async def _expire_leases(desk: Desk, started: Any) -> None:
    record = started.record
    for lease in (record.lease, record.slot):
        await desk.services.stores.leases.release(lease, record.attempt)


async def _files(desk: Desk) -> list[str]:
    return [entry.path for entry in await asyncio.to_thread(desk.services.artifacts.entries, "imports")]


async def test_an_import_without_enough_memory_fails_with_advice(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    import_id = await desk.upload()

    async def exhaust(*_: Any, **__: Any) -> None:
        raise MemoryError

    monkeypatch.setattr("jobs.ingest.upload.upload_ingest.ingest", exhaust)
    done = await desk.run(import_id, mapping=RULES)
    assert (done["status"], "more memory" in done["error"]) == ("failed", True)


USERS = b"""{"user_id": "canary-user", "country": "NO"}
{"user_id": "canary-user-2", "city": "Oslo"}
{"user_id": "canary-user", "country": 9, "city": "canary@example.com"}
"""
CLICKS = b"""{"user_id": "canary-user", "type": "product_detail_page_view", "product_ids": ["p1"]}
{"anonymous_id": "canary-visitor", "type": "product_detail_page_view", "product_ids": ["p1"]}
{"user_id": "other", "type": "product_detail_page_view", "product_ids": ["p1"]}
"""


async def forget(desk: Desk, user_id: str = "canary-user") -> Erasure:
    """Erase a user and the linked visitor, as the intake does."""
    stores = desk.services.stores
    erasure = await Erasures(stores, desk.clock).order(APP, user_id=user_id, by="test", request_id="r1")
    [(_, person)] = [pair for pair in await stores.erasures.list_orders() if pair[0].app_id == APP]
    await stores.erasures.erase(person)
    await stores.erasures.write(erasure, done=True)
    return erasure


async def everything_in_redis(desk: Desk) -> bytes:
    """Return all values of the app."""
    ask, values = desk.services.stores.server.execute_slow, list[str]()
    for key in await ask("KEYS", f"{{{APP}}}:import*"):
        values.append(repr(await ask("HGETALL", key)))
    return "".join(values).encode()


async def test_a_file_that_waited_brings_nobody_back(desk: Desk) -> None:
    stores = desk.services.stores
    await stores.interactions.append(APP, b"[]", [("canary-user", "canary-visitor", b"")])
    users = await desk.upload(data=USERS, noun="user", file_name="users.jsonl")
    clicks = await desk.upload(data=CLICKS, noun="interaction", file_name="clicks.jsonl")
    desk.clock.ahead_ms += 1_000
    await forget(desk)
    for import_id in (users, clicks):
        await desk.run(import_id)
    assert await stores.records.get(APP, "user", "canary-user") is None
    assert await stores.records.get(APP, "user", "canary-user-2") is not None
    done = await desk.status(clicks)
    assert (done["accepted"], done["refused"]) == (1, 2)
    refused = await desk.perform("imports.refused", import_id=clicks)
    assert {row["reason"] for row in refused.rows} == {"the user was erased after the file was uploaded"}
    assert {row["text"] for row in refused.rows} == {""}
    # What is uploaded after the erasure is new data.
    desk.clock.ahead_ms += 1_000
    again = await desk.upload(data=USERS.splitlines(keepends=True)[0], noun="user", file_name="users.jsonl")
    await desk.run(again)
    assert await stores.records.get(APP, "user", "canary-user") is not None


async def test_an_erasure_during_an_import_holds_for_its_later_rows(desk: Desk) -> None:
    record = (await desk.upload(data=USERS, noun="user", file_name="users.jsonl"),)
    stored = require(await desk.services.stores.imports.get(APP, record[0]))
    running = desk.ingest()
    await running._look_for_erasures(stored.record)
    assert not running._erased
    desk.clock.ahead_ms += 1_000
    await forget(desk)
    await running._look_for_erasures(stored.record)
    assert running._erased.has_any_of({"user_id": "canary-user"})
    assert not running._erased.has_any_of({"user_id": "canary-user-2", "anonymous_id": None})


async def test_progress_holds_no_example_and_old_ones_are_erased(desk: Desk) -> None:
    stores = desk.services.stores
    import_id = await desk.upload(data=USERS, noun="user", file_name="export canary-user.jsonl")
    done = await desk.run(import_id)
    assert done["refused"] == 1
    assert [reason["example"] for reason in done["reasons"]] == [""]
    assert b"canary@" not in await everything_in_redis(desk)
    # As the release before stored it.
    stored = require(await stores.imports.get(APP, import_id))
    assert stored.progress is not None
    example = {"text": "age: invalid", "count": 1, "row": 2, "example": '{"user_id":"canary-user"}'}
    other = {"text": "age: invalid", "count": 1, "row": 3, "example": '{"user_id":"canary-user-2"}'}
    old = stored.progress.model_copy(update={"reasons": (example, other)})
    await stores.imports.put_progress(APP, import_id, old)
    person = await stores.erasures.person(APP, "canary-user", "")
    assert len((await stores.erasures.find(person))[IMPORTS]) == 2
    await forget(desk)
    after = require(await stores.imports.get(APP, import_id))
    assert after.progress is not None
    assert [reason["example"] for reason in after.progress.reasons] == ["", other["example"]]
    assert after.record.file_name == "erased"
    assert (await stores.erasures.find(person))[IMPORTS] == []
    await desk.perform("imports.remove", import_id=import_id)
    rows = [row for row in desk.audit.rows if row.operation.startswith("imports.")]
    assert {row.operation for row in rows} == {"imports.upload", "imports.start", "imports.remove"}
    assert "canary-user" not in repr(rows)
