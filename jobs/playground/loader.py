"""Loading of the playground into the stores, through the same intake as every upload.

The API of the playground is read-only, so this job writes directly: it validates and queues as the API does, and
applies with the steps of the intake (or a running intake actor applies). A user record with the edition is written
last; an interrupted load starts again.

The whole playground as plain records, and the edition they belong to.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Any, TypeVar

import orjson
import structlog

from actors.hosting.job_lease import JobLease
from actors.intake.applier import BatchApplier
from actors.intake.loop import CONSUMER, LEASE
from actors.language.hashing_embedder import Embedder
from cluster.clock import Clock, SystemClock
from cluster.errors import Fault, Unavailable
from cluster.ids import TaskId, new_task_id
from cluster.meter import SilentMeter
from cluster.records.validation.accepted_uploads import RecordNoun
from cluster.records.validation.upload import parse_upload
from cluster.store.stores import Stores
from jobs.playground.data_files import list_data_files
from jobs.playground.products import build_products, product_records_from_articles
from jobs.playground.sessions import build_interactions
from jobs.playground.users import build_users

_FORMAT_VERSION = "1"
"Increased whenever the same data files give different records."


@dataclass(frozen=True, slots=True)
class SampleData:
    """All sample records, in the upload format."""

    products: list[dict[str, Any]]
    "Products of the shop and the newspaper."
    users: list[dict[str, Any]]
    interactions: list[dict[str, Any]]
    "Oldest first, all before `now_ms`."


def build_sample(now_ms: int) -> SampleData:
    """Return the sample data as of a time; the same time gives the same bytes.

    Cost:
        0.6 s
    """
    return SampleData(
        products=build_products(now_ms) + product_records_from_articles(),
        users=[user.record for user in build_users(now_ms)],
        interactions=build_interactions(now_ms),
    )


def compute_edition() -> str:
    """Return a digest of the data files, by which an installation detects whether it has loaded them."""
    digest = hashlib.sha256()
    for name in list_data_files():
        digest.update(files("jobs.playground").joinpath("data", *name.split("/")).read_bytes())
    return f"{_FORMAT_VERSION}-{digest.hexdigest()[:12]}"


EDITION_RECORD_ID = "playground-keeper"
"Id of the user whose record contains the loaded edition."

_BATCH = 100
_CALL = 500
"Interactions in one append."
_WAIT_S = 60.0
_PAUSE_S = 0.05

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class LoadResult:
    """The result of a load."""

    edition: str
    fresh: bool
    "False: the app had this edition already, and nothing was written."
    products: int = 0
    users: int = 0
    interactions: int = 0


async def load_playground(
    stores: Stores,
    *,
    now_ms: int,
    embedder: Embedder,
    app_id: str = "playground",
    clock: Clock | None = None,
    whole: SampleData | None = None,
) -> LoadResult:
    """Load the playground into an app, unless the app has this edition already; return the result.

    `embedder` must be the embedder of the app's recommenders; `whole` is the data to load, by default all of it.

    Cost:
        about 2 s with Redis on the same machine
    """
    edition = compute_edition()
    if await read_edition(stores, app_id) == edition:
        return LoadResult(edition, fresh=False)
    clock = SystemClock() if clock is None else clock
    applier = BatchApplier(stores.intake, embedder, clock, SilentMeter())
    loader = _Loader(stores, app_id, applier, clock, now_ms)
    if whole is None:
        whole = await asyncio.to_thread(build_sample, now_ms)
    await loader.clear(whole)
    await loader.records("product", whole.products)
    await loader.records("user", whole.users)
    await loader.interactions(whole.interactions)
    # Last: without this record the next start loads everything again.
    await loader.records("user", [_edition_record(edition)])
    loaded = LoadResult(edition, True, len(whole.products), len(whole.users), len(whole.interactions))
    structlog.get_logger().info(
        "playground_loaded",
        app=app_id,
        edition=edition,
        products=loaded.products,
        users=loaded.users,
        interactions=loaded.interactions,
    )
    return loaded


async def read_edition(stores: Stores, app_id: str = "playground") -> str:
    """Return the edition of an app; empty if none was loaded completely."""
    record = await stores.records.get(app_id, "user", EDITION_RECORD_ID)
    if record is None:
        return ""
    return str(orjson.loads(record).get("custom_attributes", {}).get("edition", ""))


def _edition_record(edition: str) -> dict[str, Any]:
    return {
        "user_id": EDITION_RECORD_ID,
        "name": "Keeper of the playground",
        "description": "Not a user: says which edition of the sample data stands here.",
        "custom_attributes": {"edition": edition},
    }


class _Loader:
    """One load into one app."""

    def __init__(self, stores: Stores, app_id: str, applier: BatchApplier, clock: Clock, now_ms: int) -> None:
        self._stores = stores
        self._app_id = app_id
        self._applier = applier
        self._clock = clock
        self._now_ms = now_ms
        self._lease = JobLease(stores.leases, LEASE, f"playground-{new_task_id()}", clock)

    async def clear(self, whole: SampleData) -> None:
        """Delete the data of an interrupted load or of another edition."""
        users = set(await self._stores.records.ids(self._app_id, "user"))
        products = set(await self._stores.records.ids(self._app_id, "product"))
        if await self._stores.changes.last(self._app_id, "interaction") != "0":
            # otherwise, a visitor without a link would keep the interactions of a killed load
            await self._stores.interactions.append(self._app_id, b"[]", _identity_links(whole))
            everyone = users | {user["user_id"] for user in whole.users}
            await self._stores.interactions.erase(self._app_id, sorted(everyone))
        await self._remove("user", users - {user["user_id"] for user in whole.users})
        await self._remove("product", products - {product["product_id"] for product in whole.products})

    async def records(self, noun: RecordNoun, records: Sequence[dict[str, Any]]) -> None:
        """Queue and apply users or products."""
        tasks = []
        for part in _batches(records, _BATCH):
            upload = parse_upload(noun, orjson.dumps({"data": part}), now_ms=self._now_ms)
            attribute_types = await self._stores.records.attribute_types(self._app_id, noun)
            type_check = upload.check_types(attribute_types)
            if type_check.messages:
                raise Fault(
                    "the playground contradicts what the app holds", records=list(type_check.messages)
                )
            task_id = new_task_id()
            accepted = await self._stores.intake.accept(
                self._app_id,
                noun,
                "put",
                type_check.payload,
                task_id=task_id,
                total=len(part),
                now_ms=self._now_ms,
                attribute_types=type_check.attribute_types,
            )
            if accepted.conflicts:
                raise Fault("the playground contradicts what the app holds", types=dict(accepted.conflicts))
            tasks.append(task_id)
        await self._apply(noun, tasks)

    async def interactions(self, entries: Sequence[dict[str, Any]]) -> None:
        """Append interactions, oldest first."""
        for part in _batches(entries, _CALL):
            upload = parse_upload("interaction", orjson.dumps({"data": part}), now_ms=self._now_ms)
            links = [(user_id, visitor_id, b"") for user_id, visitor_id in upload.links]
            await self._stores.interactions.append(self._app_id, upload.payload, [*upload.recents, *links])

    async def _remove(self, noun: RecordNoun, record_ids: set[str]) -> None:
        if not record_ids:
            return
        task_id = new_task_id()
        await self._stores.intake.accept(
            self._app_id,
            noun,
            "remove",
            orjson.dumps(sorted(record_ids)),
            task_id=task_id,
            total=len(record_ids),
            now_ms=self._now_ms,
        )
        await self._apply(noun, [task_id])

    async def _apply(self, noun: RecordNoun, task_ids: Sequence[TaskId]) -> None:
        """Apply the queued records, or wait for the intake actor, until every task has ended."""
        deadline_s = self._clock.monotonic_s() + _WAIT_S
        waiting = list(task_ids)
        try:
            while waiting:
                if self._clock.monotonic_s() > deadline_s:
                    raise Unavailable("nobody applied the playground within a minute", retry_after_s=5)
                # An intake actor that holds the lease applies the batches; two at once must not.
                if await self._lease.renew():
                    for batch in await self._claim():
                        await self._applier.apply(batch)
                else:
                    await asyncio.sleep(_PAUSE_S)
                waiting = [task_id for task_id in waiting if not await self._is_ended(noun, task_id)]
        finally:
            await self._lease.release()

    async def _claim(self) -> list[Any]:
        return list(await self._stores.intake.claim(CONSUMER, [self._app_id], count=32, block_ms=0))

    async def _is_ended(self, noun: RecordNoun, task_id: TaskId) -> bool:
        task = await self._stores.tasks.get(self._app_id, noun, task_id)
        if task is None or task.status == "failed" or task.failed:
            raise Fault("a part of the playground was not applied", task=task_id)
        return task.status == "finished"


def _identity_links(whole: SampleData) -> list[tuple[str, str, bytes]]:
    pairs = {
        (entry["user_id"], entry["anonymous_id"])
        for entry in whole.interactions
        if "user_id" in entry and "anonymous_id" in entry
    }
    return [(user_id, visitor_id, b"") for user_id, visitor_id in sorted(pairs)]


def _batches(rows: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    for start in range(0, len(rows), size):
        yield rows[start : start + size]
