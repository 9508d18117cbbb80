"""Answers of one app computed in this process at one moment, so that two installations can be compared.

    segments + change log up to an offset -> recommender    as every API replica loads it
    recent list, stored boost rules, snapshot               as every API replica applies them

The clock stands still, so equal data gives equal answers to the last digit of a score.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import cycle, islice, zip_longest
from typing import Any, cast

from actors.language.hashing_embedder import HashingEmbedder
from actors.recommender.messages import RecommendationResult, UserQuery
from actors.retrieval.messages import SearchQuery
from actors.serving.app_follower import AppFollower
from actors.serving.model_registry import SnapshotLoader
from actors.serving.stored_rules import StoredRules
from cluster.artifacts.manifest import newest_manifest
from cluster.artifacts.segments import SegmentStore, position_from_offset
from cluster.artifacts.snapshots import SnapshotStore
from cluster.artifacts.storage.artifact_store import ArtifactStore
from cluster.clock import SystemClock
from cluster.errors import KioskError
from cluster.ids import new_request_id
from cluster.meter import SilentMeter
from cluster.records.intake import Noun
from cluster.store.data.change_log import ChangeLog, ChangeLogEntry, Follower
from cluster.store.stores import Stores

ROWS = 10
MOST_SEARCHED = 200_000
"Products of an app that is searched. Without a snapshot, indexing a million texts takes minutes."
_WORDS = 3
# Changes read at once of either log, so that both pages hold the same entries.
_READ = 128
_MOST_DESCRIBED = 3
"Places of a list whose difference is described."
_ID = "product_id"


@dataclass(frozen=True, slots=True)
class SampledAnswer:
    """One answer: products with their scores, or the refusal."""

    products: tuple[Mapping[str, Any], ...]
    served_by: str
    snapshot: str
    refusal: str = ""


class StillClock(SystemClock):
    """A wall clock that stands still; durations pass as ever."""

    def __init__(self, now_ms: int) -> None:
        self._now_ms = now_ms

    def now_ms(self) -> int:
        return self._now_ms


class BoundedChangeLog:
    """A `ChangeLog` that ends at an offset of each noun, for a reader whose offset nobody records."""

    def __init__(self, changes: ChangeLog, until: Mapping[str, str]) -> None:
        self._changes = changes
        self._until = {noun: position_from_offset(offset) for noun, offset in until.items()}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._changes, name)

    async def read(
        self, app_id: str, after: Mapping[Noun, str], *, count: int, block_ms: int
    ) -> list[ChangeLogEntry]:
        """Return changes after the offsets and up to the end."""
        offsets = {
            noun: at for noun, at in after.items() if position_from_offset(at) < self._until.get(noun, (0, 0))
        }
        entries = await self._changes.read(app_id, offsets, count=count, block_ms=0)
        return [entry for entry in entries if position_from_offset(entry.offset) <= self._until[entry.noun]]

    async def record_follower(self, app_id: str, follower: Follower) -> None:
        """Do nothing: this reader must not delay the trimming of the log."""


def describe_difference(restored: SampledAnswer, expected: SampledAnswer) -> str:
    """Return the parts of two answers that differ: the restored one, then that of the installation."""
    parts = [
        f"{name}: restored {value or 'none'}, installation {other or 'none'}"
        for name in ("refusal", "snapshot", "served_by")
        if (value := getattr(restored, name)) != (other := getattr(expected, name))
    ]
    pairs = zip_longest(restored.products, expected.products, fillvalue=cast(Mapping[str, Any], {}))
    different = [(place, *pair) for place, pair in enumerate(pairs, 1) if pair[0] != pair[1]]
    for place, product, other in different[:_MOST_DESCRIBED]:
        names = [name for name in {**product, **other} if product.get(name) != other.get(name)]
        # a product has its own fields, which say nothing where another product stands
        if product.get(_ID) != other.get(_ID):
            names = [name for name in names if name == _ID or name.startswith("_")]
        values = [", ".join(f"{name} {side.get(name)}" for name in names) for side in (product, other)]
        parts.append(f"place {place}: restored {values[0]}, installation {values[1]}")
    if len(different) > _MOST_DESCRIBED:
        parts.append(f"{len(different)} places differ")
    return "; ".join(parts)


def build_queries(
    app_id: str,
    engine_ids: Sequence[str],
    user_keys: Sequence[str],
    titles: Mapping[str, str],
    most: int,
    *,
    searches: bool = True,
) -> list[UserQuery]:
    """Build queries that alternate between users, products and, with `searches`, searches; and between engines.

    `user_keys` have prefixes (`u:`, `a:`); `titles` maps product ids to texts to search for.
    """
    users = [
        UserQuery(
            "user_to_products",
            app_id,
            "",
            rows=ROWS,
            user_id=key[2:] if key.startswith("u:") else "",
            anonymous_id=key[2:] if key.startswith("a:") else "",
        )
        for key in user_keys
    ]
    products = [
        UserQuery("product_to_products", app_id, "", rows=ROWS, anchors=(product_id,))
        for product_id in titles
    ]
    texts = [" ".join(title.split()[:_WORDS]) for title in titles.values()]
    text_queries = [
        UserQuery("search", app_id, "", rows=ROWS, search=SearchQuery(text=text, original=text))
        for text in (texts if searches else ())
    ]
    mixed = [
        query
        # In turns, so that the bound `most` cuts off no kind as a whole.
        for queries in zip_longest(users, products, text_queries)
        for query in queries
        if query is not None
    ]
    return [
        replace(query, engine_id=engine_id)
        for query, engine_id in zip(islice(mixed, most), cycle(engine_ids), strict=False)
    ]


async def compute_answers(
    stores: Stores,
    artifacts: ArtifactStore,
    queries: Sequence[UserQuery],
    *,
    until: Mapping[str, str],
    now_ms: int,
    equal: Sequence[Stores] = (),
) -> list[list[SampledAnswer]]:
    """Compute the answers to queries of one app from its data up to the offsets `until`.

    The recommender that is loaded also answers for installations with `equal` data (`has_equal_data`), with the recent
    lists and boost rules of each. Returned are the answers of each installation.

    Cost:
        loads the app, with its products and snapshots, into the memory of this process
    """
    clock = StillClock(now_ms)
    # Writes go on while this runs; without an end the two sides would read different logs.
    bounded = replace(stores, changes=cast(ChangeLog, BoundedChangeLog(stores.changes, until)))
    follower = AppFollower(
        queries[0].app_id,
        f"compare-{new_request_id()}",
        bounded,
        SegmentStore(artifacts),
        clock,
        SilentMeter(),
        HashingEmbedder,
        SnapshotLoader(SnapshotStore(artifacts)),
        indexes_texts=any(query.kind == "search" for query in queries),
    )
    try:
        await follower.start()
        answers = []
        for compared in (stores, *equal):
            rules = StoredRules(compared.boost_rules, clock)
            answers.append([await _answer(follower, rules, compared, query) for query in queries])
        return answers
    finally:
        await follower.close()


async def has_equal_data(
    app_id: str,
    first: tuple[Stores, ArtifactStore],
    second: tuple[Stores, ArtifactStore],
    until: Mapping[str, str],
) -> bool:
    """Return whether two installations load the same recommender of an app, up to the offsets `until`.

    Compared are the manifest of the segments, which has the checksum of each file; each file with its checksum; all
    later changes of the log, byte by byte; and the engines. A snapshot counts as a difference, because only a load
    checks its files.
    """
    engines = await first[0].engines.all(app_id)
    if engines != await second[0].engines.all(app_id) or any(engine.snapshot for engine in engines):
        return False
    manifests = [
        await asyncio.to_thread(_read_manifest, artifacts, app_id) for _, artifacts in (first, second)
    ]
    if manifests[0] != manifests[1]:
        return False
    for _, artifacts in (first, second):
        if await asyncio.to_thread(SegmentStore(artifacts).verify, app_id):
            return False
    after: dict[Noun, str] = {"user": "0", "product": "0", "interaction": "0"}
    after.update(cast(dict[Noun, str], SegmentStore(first[1]).offsets(app_id)))
    logs = [BoundedChangeLog(stores.changes, until) for stores, _ in (first, second)]
    while True:
        pages = [await log.read(app_id, after, count=_READ, block_ms=0) for log in logs]
        if pages[0] != pages[1]:
            return False
        if not pages[0]:
            return True
        after.update({entry.noun: entry.offset for entry in pages[0]})


def _read_manifest(artifacts: ArtifactStore, app_id: str) -> bytes:
    path = newest_manifest(artifacts, f"{app_id}/segments")
    return b"" if path is None else artifacts.read(path)


async def _answer(
    follower: AppFollower, rules: StoredRules, stores: Stores, query: UserQuery
) -> SampledAnswer:
    recent = await stores.interactions.recent(query.app_id, query.user_keys) if query.user_keys else []
    try:
        result: RecommendationResult = await follower.answer(await rules.apply(query), recent, ())
    except KioskError as error:
        return SampledAnswer((), "", "", f"{error.code}: {error.message}")
    return SampledAnswer(tuple(result.products), result.served_by, follower.serving_version(query.engine_id))
