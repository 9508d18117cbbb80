"""Digests of the state of an app, published with the offsets of a replica and compared with those of the others."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from hashlib import sha256

import orjson
import structlog

from actors.recommender.messages import QueryKind, UserQuery
from actors.recommender.recommender import Recommender
from actors.recommender.state.events import offset_time_ms
from actors.retrieval.messages import SearchQuery
from actors.serving import dispatch
from cluster.clock import Clock
from cluster.ids import DEFAULT_ENGINE
from cluster.meter import Meter
from cluster.store.data.change_log import ChangeLog, find_differing

_ROWS = 50
_PRODUCTS = 8
"Popular products that are asked for."
_SHOWN = 16


def digest_records(recommender: Recommender) -> str:
    """Return a digest of the products.

    Cost:
        100,000 products: 40 us
    """
    overlay = recommender.overlay
    return f"{overlay.texts.fingerprint_sum:016x}-{overlay.catalog.products}"


def digest_lists(recommender: Recommender, app_id: str, now_ms: int) -> str:
    """Return a digest of the answers to a few queries; empty while not all cold-start products were compared.

    Cost:
        100,000 products: about 20 ms
    """
    state = recommender.default_engine_state
    times = [offset_time_ms(offset) for offset in recommender.overlay.offsets.values()]
    # the time of the newest change: two replicas compute their digests at different times
    changed_ms = max(times, default=0)
    leaders = state.get_item_priors(now_ms).leaders[:_PRODUCTS]
    if not changed_ms or not state.is_complete:
        return ""
    queries = [_query("user_to_products", app_id), _query("user_to_trending", app_id)]
    for row in leaders:
        product_id = state.catalog.product_ids[row]
        title = state.catalog.record(row).get("title")
        queries.append(_query("product_to_products", app_id, anchors=(product_id,)))
        if title:
            queries.append(_query("search", app_id, search=SearchQuery(text=str(title)[:_ROWS])))
    digest = sha256()
    for query in queries:
        result = dispatch.answer(recommender, query, (), (), changed_ms)
        # Ids in order and no scores: sums of floats may differ in the last digit by the order of their
        # terms.
        digest.update(orjson.dumps([product["product_id"] for product in result.products]))
    return digest.hexdigest()[:_SHOWN]


def _query(kind: QueryKind, app_id: str, **more: object) -> UserQuery:
    return UserQuery(kind, app_id, DEFAULT_ENGINE, rows=_ROWS, **more)  # type: ignore[arg-type]


_COMPARE_MS = 30_000
"Pause between two comparisons."

RunWork = Callable[[Callable[[], str]], Awaitable[str]]
"Runs work that takes long while no other work changes the state."


class ReplicaComparison:
    """The digests of one app in one replica."""

    def __init__(
        self, app_id: str, name: str, changes: ChangeLog, clock: Clock, meter: Meter, run: RunWork
    ) -> None:
        self._app_id = app_id
        self._name = name
        self._changes = changes
        self._clock = clock
        self._meter = meter
        self._run = run
        self._lists: tuple[Recommender | None, str, str] = None, "", ""
        "State, snapshot version and digest of the lists that were digested last."
        self._compared_ms = -_COMPARE_MS
        self._log = structlog.get_logger().bind(app=app_id)

    async def digest(self, recommender: Recommender, *, is_as_loaded: bool) -> dict[str, str]:
        """Return digests of a state; that of its lists only for a state as loaded, computed once."""
        version = recommender.get_engine_state(DEFAULT_ENGINE).serving_version
        if not is_as_loaded:
            self._lists = None, "", ""
        elif self._lists[:2] != (recommender, version) or not self._lists[2]:
            lists = await self._run(lambda: digest_lists(recommender, self._app_id, self._clock.now_ms()))
            adopted = recommender.get_engine_state(DEFAULT_ENGINE).serving_version
            # a snapshot that was adopted before the work began ranked the lists
            self._lists = recommender, version, lists if adopted == version else ""
        return {"records": digest_records(recommender), "lists": self._lists[2], "version": version}

    async def compare(self, now_ms: int) -> None:
        """Report whether another replica holds another state at the same offset, at most twice a minute."""
        # `0 <=`: after the clock was set back, the next comparison must not wait for hours.
        if 0 <= now_ms - self._compared_ms < _COMPARE_MS:
            return
        self._compared_ms = now_ms
        differing = find_differing(await self._changes.list_followers(self._app_id), now_ms)
        differs = self._name in differing
        self._meter.gauge("kiosk_replicas_differ", float(differs), app=self._app_id)
        if differs:
            self._log.error("replicas_differ", replica=self._name, replicas=differing)

    def close(self) -> None:
        """Stop to report on this app."""
        self._meter.remove_gauge("kiosk_replicas_differ", app=self._app_id)
