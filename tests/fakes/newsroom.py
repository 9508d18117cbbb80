"""A user who watches threads, an archive that fills, and a monitor that may die."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa

from actors.history.messages import ThreadChange
from actors.history.news_monitor import LAG_MS, NewsMonitor, RelevanceDependencies
from actors.history.tracker import ThreadTracker
from actors.language.hashing_embedder import HashingEmbedder
from cluster.artifacts.segment_format import RECORDS
from cluster.artifacts.segments import SegmentStore
from cluster.meter import Meter, SilentMeter
from cluster.records.thread import Thread
from cluster.store.data.change_log import LIVE_MS
from cluster.store.data.intake import Batch, RecordPut
from cluster.store.stores import Stores
from tests.fakes.answerer import ScriptedAnswerer, read_plain
from tests.fakes.request_handler import StillClock

APP = "shop"
JUDGES = RelevanceDependencies(read_plain, HashingEmbedder())
SALE = (
    "The old cement works at Harrow Bay were sold on Monday. The owner, a cooperative of boat builders, paid two "
    "million and wants to open a yard in spring."
)


@dataclass
class Newsroom:
    """All of them, over some stores."""

    stores: Stores
    clock: StillClock
    answerer: ScriptedAnswerer = field(default_factory=ScriptedAnswerer)
    monitor: NewsMonitor | None = None
    uploads: int = 0
    segments: SegmentStore | None = None
    meter: Meter = field(default_factory=SilentMeter)

    @property
    def history(self) -> ThreadTracker:
        return ThreadTracker(self.stores, self.clock, self.answerer)

    async def watch(self, user_id: str = "ada", thread_id: str = "q1", text: str = "") -> None:
        text = text or "Who is the owner of the old cement works at Harrow Bay?"
        await self.history.add_question(APP, user_id, thread_id, text)
        await self.history.change(ThreadChange(APP, user_id, "subscribe", (thread_id,)))

    async def upload(self, *records: dict[str, Any]) -> None:
        self.uploads += 1
        payload = orjson.dumps(list(records))
        task_id = f"task-{self.uploads}"
        await self.stores.intake.accept(
            APP, "product", "put", payload, task_id=task_id, total=len(records), now_ms=self.clock.now_ms()
        )
        batches: list[Batch] = await self.stores.intake.claim("test", [APP], count=9, block_ms=0)
        for batch in batches:
            await self.stores.intake.apply_put(
                batch,
                [RecordPut(record["product_id"], orjson.dumps(record)) for record in records],
                change_payload=payload, vectors=b"", embedder="", failed=(), now_ms=self.clock.now_ms(),
            )  # fmt: skip

    async def settle(self) -> None:
        """Take everything in the log to the shelf and cut it off, as if nobody had followed for long."""
        assert self.segments is not None
        changes = await self.stores.changes.read(APP, {"product": "0"}, count=999, block_ms=0)
        rows = [
            {"id": record["product_id"], "gone": False, "offset": change.offset, "json": orjson.dumps(record)}
            for change in changes
            for record in orjson.loads(change.payload)
        ]
        first, last = changes[0].offset, changes[-1].offset
        self.segments.append(
            APP, "product", pa.Table.from_pylist(rows, schema=RECORDS), first=first, last=last
        )
        self.clock.pass_ms(LIVE_MS + 1)
        assert await self.stores.changes.compact(APP, "product", last, self.clock.now_ms())
        assert await self.stores.changes.first(APP, "product") == last

    def kill(self) -> None:
        self.monitor = None

    async def rounds(self, count: int = 4) -> None:
        for _ in range(count):
            if self.monitor is None:
                self.monitor = NewsMonitor(
                    APP, self.stores, JUDGES, self.answerer, self.clock, self.meter, segments=self.segments
                )
            await self.monitor.run_once()

    async def ripen(self) -> None:
        self.clock.pass_ms(LAG_MS)
        await self.rounds()

    async def thread(self, user_id: str = "ada", thread_id: str = "q1") -> Thread:
        return (await self.stores.threads.read(APP, user_id)).threads[thread_id]


def sale(product_id: str = "sale") -> dict[str, Any]:
    return {"product_id": product_id, "title": "Cement works at Harrow Bay sold", "text": SALE}


def damage(folder: Path) -> None:
    for manifest in folder.rglob("*.json"):
        manifest.write_text("{")
