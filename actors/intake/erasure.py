"""Erase a person everywhere and write a receipt that names every place.

    queued  -> running     data of the person is counted
    running                data is removed and searched for again; the order loses the person's ids
    running -> finished    Redis rewrites its append-only file; the receipt is complete

Every step may be repeated, so an order survives a crash. The intake executes orders, because only the intake writes
segments.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

import orjson
import structlog

from actors.intake.compaction import ChangeLogCompactor, DeleteLogRows
from actors.intake.personal_data import (
    LOG_FILE,
    PLACES,
    SNAPSHOTS,
    TRAININGS,
    PersonalDataReader,
    find_runs_with_person,
)
from cluster.admin.local_person_files import LocalPersonFiles
from cluster.artifacts.app_storage import RUNS, clear_run
from cluster.artifacts.segments import SegmentStore
from cluster.artifacts.snapshots import MarkedSnapshot, find_marked_snapshots
from cluster.artifacts.storage.artifact_store import ArtifactStore
from cluster.clock import Clock, iso_ms
from cluster.errors import KioskError, TooMany, Unavailable
from cluster.records.erasure import ErasedPlace, Erasure, Person
from cluster.store.data.person_traces import REDIS_PLACES
from cluster.store.stores import Stores

HOUR_MS = 3_600_000
TASK_WAIT_S = 30.0
"Time limit for the removal of a profile in the intake; after it, the order is tried again."
FOLLOWER_WAIT_S = 20.0
"Time for followers to read on before the change log is cut."
FILE_WAIT_S = 60.0
_LOOK_S = 0.1

EXTERNAL = (
    "Redis is not ours: its operator runs BGREWRITEAOF, and removes snapshots, replicas' files and backups"
)
_NEXT_TRAINING = "the next training whose model is promoted"
_PENDING_REASONS = {
    "change log": "a follower has not read it yet",
    TRAININGS: "a training is at work; it begins again without the person",
}


class PersonEraser:
    """Executes orders, one after the other."""

    def __init__(
        self,
        stores: Stores,
        artifacts: ArtifactStore,
        settler: ChangeLogCompactor,
        delete_log_rows: DeleteLogRows,
        clock: Clock,
        files: LocalPersonFiles,
        *,
        owns_redis: bool = True,
    ) -> None:
        self._stores = stores
        self._artifacts = artifacts
        self._compactor = settler
        self._delete_log_rows = delete_log_rows
        self._clock = clock
        self._files = files
        self._owns_redis = owns_redis
        self._places = PersonalDataReader(stores, artifacts, files)
        self._log = structlog.get_logger()

    async def run_once(self) -> int:
        """Execute waiting orders and return how many ended. A failed order is tried again after the others.

        Errors:
            Unavailable: the store, or something an order needs, is unreachable
        """
        ended = 0
        away = list[Unavailable]()
        for erasure, person in await self._stores.erasures.list_orders():
            try:
                await self.erase(erasure, person)
            except Unavailable as error:
                away.append(error)
                continue
            except KioskError as error:
                self._log.error(
                    "erasure_failed", app=erasure.app_id, erasure=erasure.erasure_id, reason=error.message
                )
                continue
            ended += 1
        # After all orders: one person's outage must not delay the others.
        if away:
            raise away[0]
        await self._refresh_log_file()
        return ended

    async def erase(self, erasure: Erasure, person: Person) -> Erasure:
        """Erase a person and write the receipt."""
        store = self._stores.erasures
        if person.user_keys:
            erasure = await self._remove(erasure, person)
            # From this point the order contains no ids; only the append-only file may still contain earlier
            # writes.
            await store.order(erasure, Person(app_id=person.app_id))
        # Before the rewrite: a crash here leaves the request, and the hourly rewrite fulfils it.
        await store.request_log_rewrite(self._clock.now_ms())
        file = await self._rewrite_log_file_place(erasure)
        places = tuple(file if place.place == LOG_FILE else place for place in erasure.places)
        erasure = erasure.model_copy(
            update={"places": places, "status": "finished", "finished_at": self._clock.now_ms()}
        )
        await store.write(erasure, done=True)
        self._log.info("person_erased", app=erasure.app_id, erasure=erasure.erasure_id, left=erasure.left)
        return erasure

    async def _remove(self, erasure: Erasure, person: Person) -> Erasure:
        store = self._stores.erasures
        if erasure.status == "queued":
            places = await self._places.read(person)
            # The count before this erasure: snapshots that were trained before it are marked by it.
            log = await asyncio.to_thread(SegmentStore(self._artifacts).erasures, person.app_id)
            begun = {"status": "running", "places": _count_places(places), "erased_before": log.count}
            erasure = erasure.model_copy(update=begun)
            await store.write(erasure)
        # First, through the intake: uploads that were accepted before would write the profile again.
        await self._remove_profile(erasure, person)
        await store.erase(person)
        # Redis before segments: compaction would carry rows from there into new segments.
        await self._compactor.erase(person.app_id, person.user_id, person.user_keys)
        await self._delete_log_rows(person.app_id, person.user_keys)
        marked = await asyncio.to_thread(self._clear_artifacts, person, erasure.erased_before)
        await asyncio.to_thread(self._files.erase, person)
        kept_until = await self._clean_logs(person.app_id)
        # The receipt tells what a second search finds, not what the removal believes.
        left = await self._places.read(person)
        return erasure.model_copy(update={"places": await self._receipt(erasure, left, kept_until, marked)})

    async def _remove_profile(self, erasure: Erasure, person: Person) -> None:
        """Send the removal through the intake, behind uploads that were accepted before it."""
        if not person.user_id:
            return
        try:
            await self._stores.intake.accept(
                person.app_id,
                "user",
                "remove",
                orjson.dumps([person.user_id]),
                task_id=erasure.erasure_id,
                total=1,
                now_ms=self._clock.now_ms(),
            )
        except TooMany as error:
            raise Unavailable(error.message, retry_after_s=5) from error
        for _ in range(round(TASK_WAIT_S / _LOOK_S)):
            task = await self._stores.tasks.get(person.app_id, "user", erasure.erasure_id)
            if task is None or task.status in ("finished", "failed"):
                return
            await asyncio.sleep(_LOOK_S)
        raise Unavailable("the removal of a profile still waits in the intake", retry_after_s=5)

    def _clear_artifacts(self, person: Person, erased_before: int) -> list[MarkedSnapshot]:
        """Remove data of trainings; return the snapshots that were trained on the erased data."""
        for path in find_runs_with_person(self._artifacts, person):
            folder, _, run_id, *_ = path.split("/")
            if folder == RUNS:
                clear_run(self._artifacts, person.app_id, run_id)
            else:
                self._artifacts.remove(path)
        return find_marked_snapshots(self._artifacts, person.app_id, erased_before)

    async def _clean_logs(self, app_id: str) -> dict[str, str]:
        """Cut the change logs behind the erasure; running followers get time to read it."""
        settled = await self._stores.changes.compacted_offsets(app_id)
        # Changes of products name no person, and followers need them.
        offsets = {noun: offset for noun, offset in settled.items() if noun != "product"}
        kept_until: dict[str, str] = {}
        for _ in range(round(FOLLOWER_WAIT_S / (5 * _LOOK_S))):
            kept_until = await self._stores.erasures.clean_logs(app_id, offsets, self._clock.now_ms())
            if not kept_until:
                return {}
            await asyncio.sleep(5 * _LOOK_S)
        return kept_until

    async def _receipt(
        self,
        erasure: Erasure,
        left: Mapping[str, Sequence[Any]],
        kept_until: Mapping[str, str],
        marked: Sequence[MarkedSnapshot],
    ) -> tuple[ErasedPlace, ...]:
        soon = iso_ms(self._clock.now_ms() + HOUR_MS)
        until = max(kept_until.values(), default=soon)
        places = []
        for place in erasure.places:
            count = len(left.get(place.place, ()))
            if count:
                reason = _PENDING_REASONS.get(
                    place.place, "it was written while the person was erased; forget them again"
                )
                place = place.model_copy(update={"left": count, "until": until, "reason": reason})
            places.append(place)
        by_name = {place.place: place for place in places}
        if marked:
            serving = {
                engine.engine_id: engine.snapshot for engine in await self._stores.engines.all(erasure.app_id)
            }
            serves = sum(serving.get(snapshot.engine_id) == snapshot.version for snapshot in marked)
            by_name[SNAPSHOTS] = ErasedPlace(
                place=SNAPSHOTS,
                found=len(marked),
                left=len(marked),
                until=_NEXT_TRAINING,
                reason=f"learned from erased rows, {serves} serving; without ids (session_knn keeps nameless sessions)",
            )
        return tuple(by_name.values())

    async def _rewrite_log_file_place(self, erasure: Erasure) -> ErasedPlace:
        """Have Redis rewrite its append-only file, unless the rewrite is due later or an administrator's task."""
        place = ErasedPlace(place=LOG_FILE, found=1, left=1)
        if not self._owns_redis:
            return place.model_copy(update={"until": "its operator rewrites it", "reason": EXTERNAL})
        if not (await self._stores.erasures.read_append_only_file_status()).is_kept:
            return ErasedPlace(place=LOG_FILE, reason="Redis keeps no file")
        if not erasure.later and await self._rewrite_log_file():
            return ErasedPlace(place=LOG_FILE, found=1)
        until = iso_ms(self._clock.now_ms() + HOUR_MS)
        return place.model_copy(update={"until": until, "reason": "it is written anew at most once an hour"})

    async def _rewrite_log_file(self) -> bool:
        """Start a rewrite after any that runs already, and wait for it."""
        store = self._stores.erasures
        begun = False
        for _ in range(round(FILE_WAIT_S / _LOOK_S)):
            if not (await store.read_append_only_file_status()).is_rewriting:
                if begun:
                    return True
                # A rewrite that already ran began before the removal, so its file may still name the
                # person.
                begun = await store.rewrite_append_only_file(self._clock.now_ms())
            await asyncio.sleep(_LOOK_S)
        return False

    async def _refresh_log_file(self) -> None:
        """Rewrite the append-only file after erasures, at most once an hour."""
        if not self._owns_redis:
            return
        file = await self._stores.erasures.read_append_only_file_status()
        now_ms = self._clock.now_ms()
        if file.is_kept and file.requested_ms > file.done_ms and now_ms - file.done_ms >= HOUR_MS:
            await self._stores.erasures.rewrite_append_only_file(now_ms)


def _count_places(places: Mapping[str, Sequence[Any]]) -> tuple[ErasedPlace, ...]:
    names = [*REDIS_PLACES, *PLACES]
    return tuple(ErasedPlace(place=name, found=len(places.get(name, ()))) for name in dict.fromkeys(names))
