"""Use case of comparing two snapshots by what they recommend to the same users."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass
from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from actors.recommender.messages import RecommendationResult, UserQuery
from actors.serving.client import RecommenderClient
from cluster.artifacts.snapshots import SnapshotStore
from cluster.artifacts.storage.artifact_store import ArtifactStore
from cluster.errors import Fault, Unavailable
from cluster.machine_memory import available_memory
from deployments.operations.framework.operation import operation
from deployments.operations.framework.services import AdminServices
from deployments.operations.models.engines import find_engine
from deployments.operations.models.snapshot_bounds import SnapshotName
from deployments.operations.models.snapshots import CompareSnapshots, find_version

MOST_USERS = 8
SAMPLED = 40
"Users whose recent interactions decide who is shown."
_SPARE = 256 << 20
"Bytes of memory that a comparison leaves free."


def _split(given: Any) -> Any:
    return [part.strip() for part in given.splitlines() if part.strip()] if isinstance(given, str) else given


class CompareLists(CompareSnapshots):
    """Two snapshots, and the users to ask them for."""

    user_ids: Annotated[list[str], BeforeValidator(_split)] = Field(
        default_factory=list, max_length=MOST_USERS
    )
    "Empty: some users with interactions. In a text they stand on lines of their own."
    users: int = Field(default=4, ge=1, le=MOST_USERS)
    "How many users are chosen where none are named."
    rows: int = Field(default=10, ge=1, le=20)


@dataclass(frozen=True, slots=True)
class ListedProduct:
    """One product of a list."""

    product_id: str
    title: str
    came_from: tuple[str, ...]
    in_both: bool


@dataclass(frozen=True, slots=True)
class UserLists:
    """The lists of one user."""

    user_id: str
    first: tuple[ListedProduct, ...]
    second: tuple[ListedProduct, ...]

    @property
    def shared(self) -> int:
        """Return the number of products in both lists."""
        return sum(product.in_both for product in self.first)


@dataclass(frozen=True, slots=True)
class ListComparison:
    """The lists of two snapshots for the same users."""

    first: str
    second: str
    users: tuple[UserLists, ...]

    @property
    def overlap(self) -> float | None:
        """Return the share of products in both lists over all users, 0 to 1; None without a product."""
        longest = sum(max(len(user.first), len(user.second)) for user in self.users)
        return sum(user.shared for user in self.users) / longest if longest else None

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON."""
        return {
            "first": self.first,
            "second": self.second,
            "overlap": self.overlap,
            "users": [
                {"user_id": user.user_id, "shared": user.shared, **asdict(user)} for user in self.users
            ],
        }


@operation(
    "snapshots.compare_lists",
    "GET",
    "/apps/{app_id}/engines/{engine_id}/snapshots/{first}/lists/{second}",
    "analyst",
)
async def compare_lists(services: AdminServices, given: CompareLists) -> ListComparison:
    """Compare what two snapshots recommend to the same users.

    Without experiments and stored rules.

    Errors:
        Unavailable: this process answers no queries, or the machine has too little memory for both
        TooMany: other comparisons hold their snapshots still
        Fault: a snapshot can't be loaded
    """
    recommender = services.recommender
    app_id = given.app_id
    engine_id = given.engine_id
    if recommender is None:
        raise Unavailable("this needs the running API; use the console or /v1/admin", told=True)
    serving = (await find_engine(services.stores, app_id, engine_id)).snapshot
    first, second = await asyncio.to_thread(_find_versions, services.artifacts, given)
    await reserve_snapshots(
        services, {(app_id, engine_id, version) for version in (first, second) if version != serving}
    )
    # After the reservation, so that nothing is read for a comparison that is refused.
    user_ids = tuple(dict.fromkeys(given.user_ids)) or await _choose_users(services, app_id, given.users)
    lists = [
        await _ask_for_user(recommender, given, user_id, (first, second), serving) for user_id in user_ids
    ]
    return ListComparison(first, second, tuple(lists))


async def reserve_snapshots(services: AdminServices, beside: Collection[SnapshotName]) -> None:
    """Note that snapshots are loaded beside those that serve.

    Errors:
        Unavailable: the machine has too little memory for them
        TooMany: other comparisons hold their snapshots still
    """
    size = await asyncio.to_thread(_measure, services.artifacts, beside)
    free = await asyncio.to_thread(available_memory)
    if size + _SPARE > free:
        raise Unavailable(
            f"the snapshots take {size >> 20:,} MB and {free >> 20:,} MB are free, so they are not loaded beside "
            "what serves",
            told=True,
        )
    services.snapshot_bounds.reserve(beside, services.clock.monotonic_s())


def _find_versions(store: ArtifactStore, given: CompareLists) -> list[str]:
    return [
        find_version(store, given.app_id, given.engine_id, version) for version in (given.first, given.second)
    ]


def _measure(store: ArtifactStore, snapshots: Collection[SnapshotName]) -> int:
    manifests = (SnapshotStore(store).manifest(*snapshot) for snapshot in snapshots)
    return sum(entry.size for manifest in manifests for entry in manifest.files)


async def _choose_users(services: AdminServices, app_id: str, count: int) -> tuple[str, ...]:
    """Return users with the most recent interactions of a page of users; the same ones each time."""
    ids = await services.stores.records.page_ids(app_id, "user", limit=SAMPLED)
    recents = await asyncio.gather(
        *(services.stores.interactions.recent(app_id, (f"u:{user_id}",), 50) for user_id in ids)
    )
    users = sorted(zip(ids, recents, strict=True), key=lambda pair: -len(pair[1]))
    return tuple(user_id for user_id, _ in users[:count])


async def _ask_for_user(
    recommender: RecommenderClient, given: CompareLists, user_id: str, versions: Sequence[str], serving: str
) -> UserLists:
    first, second = [
        await _ask(recommender, given, user_id, "" if version == serving else version) for version in versions
    ]
    both = {product["product_id"] for product in first.products} & {
        product["product_id"] for product in second.products
    }
    return UserLists(user_id, _read_products(first, both), _read_products(second, both))


async def _ask(
    recommender: RecommenderClient, given: CompareLists, user_id: str, version: str
) -> RecommendationResult:
    result = await recommender.answer(
        UserQuery(
            "user_to_products",
            given.app_id,
            given.engine_id,
            user_id=user_id,
            rows=given.rows,
            fields=("product_id", "title"),
            snapshot=version,
            explain=True,
        )
    )
    # An engine that can't use a version answers from what serves.
    if version and (result.explanation or {}).get("snapshot") != version:
        raise Fault(
            f"snapshot {version} can't be used now: it is damaged, or experiments use too many others"
        )
    return result


def _read_products(result: RecommendationResult, both: set[str]) -> tuple[ListedProduct, ...]:
    return tuple(
        ListedProduct(
            str(product["product_id"]),
            str(product.get("title") or ""),
            tuple(str(source) for source in product.get("_explain", {}).get("came_from", ())),
            product["product_id"] in both,
        )
        for product in result.products
    )
