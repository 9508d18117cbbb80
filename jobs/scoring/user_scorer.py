"""The recommender of one app in this process, without HTTP and with the results of the API.

    segments + change log -> recommender              as every API replica loads it
    recent list of a user, from Redis                 as every API replica reads it
    filter, stored boost rules, snapshot, pauses      as `user_to_products` applies them

Experiments are ignored: a user gets the results of the engine without a variant.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

from actors.language.hashing_embedder import HashingEmbedder
from actors.recommender.messages import UserQuery, with_repeat_pauses
from actors.serving.app_follower import AppFollower
from actors.serving.model_registry import SnapshotLoader
from actors.serving.stored_rules import StoredRules
from cluster.artifacts.segments import SegmentStore
from cluster.artifacts.snapshots import SnapshotStore
from cluster.artifacts.storage.artifact_store import ArtifactStore
from cluster.clock import Clock, SystemClock
from cluster.errors import Fault, Invalid, NotFound, messages
from cluster.ids import DEFAULT_ENGINE, new_request_id
from cluster.meter import SilentMeter
from cluster.query.language.parser import parse
from cluster.query.language.tree import Node
from cluster.records.engine import Engine
from cluster.store.data.change_log import ChangeLog, Follower
from cluster.store.stores import Stores
from jobs.scoring.tables import UserKey, UserList

MOST_ROWS = 1_000
_READS_AT_ONCE = 50


@dataclass(frozen=True, slots=True)
class ScoringSpec:
    """The query for all users of a batch."""

    app_id: str
    engine_id: str = DEFAULT_ENGINE
    rows: int = 10
    snapshot: str = ""
    "Snapshot version to use; empty for the serving one."
    filters: tuple[str, ...] = ()
    "Filters (`fq`), combined with AND."

    def build_query(self) -> UserQuery:
        """Return the query without a user.

        Errors:
            FilterSyntax: a filter does not parse
            Invalid: too many rows
        """
        if not 1 <= self.rows <= MOST_ROWS:
            raise Invalid(f"rows must be between 1 and {MOST_ROWS:,}")
        return UserQuery(
            kind="user_to_products",
            app_id=self.app_id,
            engine_id=self.engine_id,
            rows=self.rows,
            filter=self._filter(),
            snapshot=self.snapshot,
        )

    def _filter(self) -> Node | None:
        given = [text for text in self.filters if text.strip()]
        if not given:
            return None
        # Brackets, or an OR in one filter would bind weaker than the AND between them.
        return parse(given[0] if len(given) == 1 else " AND ".join(f"({text})" for text in given))


class UserScorer:
    """Scores users of one app."""

    def __init__(
        self,
        order: ScoringSpec,
        stores: Stores,
        artifacts: ArtifactStore,
        clock: Clock | None = None,
    ) -> None:
        clock = SystemClock() if clock is None else clock
        self._order = order
        self._query = order.build_query()
        # the scorer runs for minutes and must not delay trimming of the log or an erasure
        self._stores = _without_follower_notes(stores)
        self._rules = StoredRules(stores.boost_rules, clock)
        self._follower = AppFollower(
            order.app_id,
            f"scoring-{new_request_id()}",
            self._stores,
            SegmentStore(artifacts),
            clock,
            SilentMeter(),
            HashingEmbedder,
            SnapshotLoader(SnapshotStore(artifacts)),
        )

    async def start(self) -> None:
        """Load the app and start to follow its change log.

        Errors:
            NotFound: the engine does not exist
            Fault: the snapshot or a segment is damaged
        """
        order = self._order
        engine = await check_engine(self._stores, order)
        self._query = with_repeat_pauses(self._query, engine.repeat_after_days)
        await self._follower.start()
        if order.snapshot:
            # Held: a promotion during the batch may not unload it.
            name = await self._follower.model_registry.hold_version(order.engine_id, order.snapshot)
            if name == order.engine_id:
                raise Fault(f"snapshot {order.snapshot} can't be used; `kiosk doctor` says why")

    async def close(self) -> None:
        """Stop following the change log and free the memory."""
        await self._follower.close()

    @property
    def serving(self) -> str:
        """Return the version in use; empty if the engine has no snapshot."""
        return self._order.snapshot or self._follower.serving_version(self._order.engine_id)

    async def score(self, users: Sequence[UserKey]) -> list[UserList]:
        """Return the recommendations of users, in their order."""
        scored: list[UserList] = []
        # Reads overlap, since each is a trip to Redis; the ranking runs one user at a time.
        for first in range(0, len(users), _READS_AT_ONCE):
            some = [
                replace(self._query, user_id=user.user_id, anonymous_id=user.anonymous_id)
                for user in users[first : first + _READS_AT_ONCE]
            ]
            recents = await asyncio.gather(
                *(self._stores.interactions.recent(query.app_id, query.user_keys) for query in some)
            )
            for user, query, recent in zip(users[first : first + _READS_AT_ONCE], some, recents, strict=True):
                result = await self._follower.answer(await self._rules.apply(query), recent, ())
                scored.append(
                    UserList(
                        user,
                        result.served_by,
                        tuple(product["product_id"] for product in result.products),
                        tuple(product["_personalization_score"] for product in result.products),
                    )
                )
        return scored


async def check_engine(stores: Stores, order: ScoringSpec) -> Engine:
    """Check that an app and its engine exist, and return the engine.

    Errors:
        NotFound: the app or the engine does not exist
    """
    book = await stores.access.read_all()
    if order.app_id not in book.apps:
        raise NotFound(
            f"there is no app named {order.app_id}; there are: {', '.join(sorted(book.apps)) or 'none'}"
        )
    engine = await stores.engines.get(order.app_id, order.engine_id)
    if engine is None or not await stores.records.seen(order.app_id, "product"):
        raise NotFound(f"{messages.ENGINE_NOT_FOUND}: {order.app_id}/{order.engine_id}")
    return engine


def check_snapshot(artifacts: ArtifactStore, order: ScoringSpec) -> None:
    """Check that the snapshot version exists.

    Errors:
        NotFound: the version does not exist
    """
    if order.snapshot:
        try:
            SnapshotStore(artifacts).manifest(order.app_id, order.engine_id, order.snapshot)
        except NotFound:
            raise NotFound(
                f"there is no snapshot {order.snapshot} of {order.app_id}/{order.engine_id}; "
                f"`kiosk engines history {order.app_id}` lists them"
            ) from None


def _without_follower_notes(stores: Stores) -> Stores:
    """Return the stores with a change log that does not record its follower."""
    return replace(stores, changes=cast(ChangeLog, TransientChangeLog(stores.changes)))


class TransientChangeLog:
    """A `ChangeLog` for a short-lived follower, for which trimming does not wait.

    If the log is trimmed past its offset, the recommender reloads the segments.
    """

    def __init__(self, changes: ChangeLog) -> None:
        self._changes = changes

    def __getattr__(self, name: str) -> Any:
        return getattr(self._changes, name)

    async def record_follower(self, app_id: str, follower: Follower) -> None:
        """Do nothing."""
