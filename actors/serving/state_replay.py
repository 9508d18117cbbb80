"""The recommender of an app at earlier moments, rebuilt from its compacted data. Time moves forward only.

interactions   applied at the time of their write
products       with their present content, because segments keep the newest one; from the first sign of them on
users          with their present attributes
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import orjson
import polars as pl
import pyarrow as pa

from actors.language.embedder import Embedder
from actors.models.registry import LoadedSnapshot
from actors.recommender.messages import RecommendationResult, UserQuery
from actors.recommender.recommender import Recommender
from actors.recommender.state.events import EXPOSURE, events_from_table
from actors.recommender.state.serving_model import ServingModel
from actors.serving import dispatch
from actors.serving.startup import load_compacted_state, stack_vectors
from actors.vectors.types import Rows
from cluster.artifacts.compacted_state import CompactedProduct, CompactedProducts, CompactedState
from cluster.records.interaction import RecentEvent

MOST_RECENT = 200
"Events of a recent list, as API replicas read it."

_EVENTS_A_STEP = 5_000
_WRITTEN_MS = pl.col("offset").str.extract(r"^(\d+)").cast(pl.Int64)


class StateReplay:
    """A recommender that is moved through the past of an app."""

    def __init__(
        self,
        state: CompactedState,
        users: Sequence[bytes],
        first_ms: Mapping[str, int],
        embedder: Embedder,
        begins_ms: int,
    ) -> None:
        """Load the state at `begins_ms`; `first_ms` has the time of the first sign of each product.

        Cost:
            that of a load: 100,000 products and 1,000,000 interactions take about 8 s on one core
        """
        self._embedder = embedder
        self._has_vectors = state.products.embedder == embedder.version
        self._recommender = Recommender(embedder)
        self._interactions = state.interactions
        self._times_ms = written_ms(state.interactions)
        self._events_at = int(np.searchsorted(self._times_ms, begins_ms, "left"))
        early, self._later = _split_products(state.products, first_ms, begins_ms)
        catalog = self._recommender.overlay.catalog
        for product in state.products:  # a snapshot binds its items to the rows that exist
            catalog.get_or_add_row(_product_id(product))
        loaded = self._interactions.slice(0, self._events_at)
        begun = replace(state, products=early, interactions=loaded, offsets={})
        load_compacted_state(self._recommender, begun, embedder, _no_pause, users)

    def set_snapshot(self, name: str, learned: LoadedSnapshot | None) -> None:
        """Let queries to the engine `name` be answered from a snapshot; None: from the live components alone."""
        ids = list(self._recommender.overlay.catalog.product_ids)
        self._recommender.set_serving_model(name, None if learned is None else ServingModel(learned, ids))

    def advance(self, until_ms: int) -> None:
        """Apply what was written before a time."""
        overlay = self._recommender.overlay
        count = bisect_right(self._later, until_ms, key=lambda entry: entry[0])
        if count:
            products = [product for _, product in self._later[:count]]
            vectors = stack_vectors(products, self._embedder) if self._has_vectors else None
            overlay.put_products([orjson.loads(product.json) for product in products], vectors)
            del self._later[:count]
        end = int(np.searchsorted(self._times_ms, until_ms, "left"))
        for start in range(self._events_at, end, _EVENTS_A_STEP):
            table = self._interactions.slice(start, min(_EVENTS_A_STEP, end - start))
            overlay.add_events(
                events_from_table(
                    table, user_code=overlay.get_user_code, row_of=overlay.catalog.get_or_add_row
                )
            )
        self._events_at = max(self._events_at, end)

    def answer(self, query: UserQuery, recent: Sequence[bytes], now_ms: int) -> RecommendationResult:
        """Answer a query from the state that was reached."""
        return dispatch.answer_and_build_columns(self._recommender, query, recent, (), now_ms)


class PastHistories:
    """The recent lists of users at any time, from compacted interactions."""

    def __init__(self, interactions: Any, links: Mapping[str, Sequence[tuple[str, int]]]) -> None:
        """`links` maps a user key to the other keys of the person, each with the time of their link (`list_links`)."""
        frame = pl.DataFrame(pl.from_arrow(interactions)).with_columns(written=_WRITTEN_MS)
        frame = frame.filter(~pl.col("type").is_in(list(EXPOSURE)), pl.col("product_ids").list.len() > 0)
        self._events = frame.sort("reader", maintain_order=True).select(
            "type", "product_ids", pl.min_horizontal("at_ms", "written"), pl.col("value").fill_null(0.0), "written"
        )  # fmt: skip
        self._written = self._events["written"].to_numpy()
        sizes = frame.group_by("reader").len().sort("reader")
        ends = sizes["len"].cum_sum().to_list()
        self._ranges = dict(zip(sizes["reader"].to_list(), zip([0, *ends], ends, strict=False), strict=True))
        self._links = links

    def read(self, user_key: str, now_ms: int) -> list[bytes]:
        """Return the packed interactions of a person before a time, newest first."""
        keys = [user_key, *(key for key, linked_ms in self._links.get(user_key, ()) if linked_ms <= now_ms)]
        events: list[RecentEvent] = []
        for key in keys:
            begin, end = self._ranges.get(key, (0, 0))
            end = begin + int(np.searchsorted(self._written[begin:end], now_ms, "left"))
            rows = self._events.slice(max(begin, end - MOST_RECENT), min(end - begin, MOST_RECENT)).rows()
            events += [RecentEvent(kind, tuple(ids), at_ms, value) for kind, ids, at_ms, value, _ in rows]
        events.reverse()
        events.sort(key=lambda event: -event.at_ms)
        return [event.pack() for event in events[:MOST_RECENT]]


def written_ms(interactions: Any) -> Rows:
    """Return when each row was written, in milliseconds since 1970: its offset begins with that time.

    Shapes:
        returns: int64 [m], ascending
    """
    frame = pl.DataFrame(pl.from_arrow(interactions.select(["offset"])))
    times: Rows = frame.select(_WRITTEN_MS).to_series().to_numpy()
    return times


def list_links(tables: Iterable[Any]) -> dict[str, list[tuple[str, int]]]:
    """Return the other keys of users and visitors, with the time of the first interaction that has both ids.

    `tables` have the columns `reader`, `offset` and `json`.
    """
    links: dict[tuple[str, str], int] = {}
    for table in tables:
        rows = (
            pl.DataFrame(pl.from_arrow(table))
            .filter(pl.col("reader").str.starts_with("u:"))
            .select(
                "reader",
                pl.col("json").cast(pl.String).str.json_path_match("$.anonymous_id").alias("visitor"),
                _WRITTEN_MS.alias("at"),
            )
            .drop_nulls()
            .group_by("reader", "visitor")
            .agg(pl.col("at").min())
        )
        for user_key, visitor, at in rows.iter_rows():
            pair = (user_key, f"a:{visitor}")
            links[pair] = min(at, links.get(pair, at))
    both = defaultdict(list)
    for (user_key, visitor_key), at in sorted(links.items()):
        both[user_key].append((visitor_key, at))
        both[visitor_key].append((user_key, at))
    return dict(both)


def list_first_times(records: Iterable[Any], interactions: Any) -> dict[str, int]:
    """Return the time of the first sign of each product: its record, its date, or an interaction with it.

    `records` are tables with `id`, `offset` and `json`, as `SegmentStream.records` yields them.
    """
    first_ms: dict[str, int] = {}
    for table in records:
        day = pl.coalesce(
            *(pl.col("json").cast(pl.String).str.json_path_match(f"$.{name}")
              for name in ("published_at", "created_at"))
        ).str.slice(0, 10).str.to_date(strict=False)  # fmt: skip
        frame = pl.DataFrame(pl.from_arrow(table)).select(
            "id", pl.min_horizontal(_WRITTEN_MS, day.cast(pl.Datetime("ms")).dt.epoch("ms"))
        )
        first_ms |= dict(frame.iter_rows())
    frame = pl.DataFrame(pl.from_arrow(interactions.select(["product_ids", "offset"])))
    seen = frame.select("product_ids", at=_WRITTEN_MS).explode("product_ids").drop_nulls()
    for product_id, at in seen.group_by("product_ids").agg(pl.col("at").min()).iter_rows():
        if product_id in first_ms:
            first_ms[product_id] = min(at, first_ms[product_id])
    return first_ms


def _split_products(
    products: CompactedProducts, first_ms: Mapping[str, int], begins_ms: int
) -> tuple[CompactedProducts, list[tuple[int, CompactedProduct]]]:
    """Return the products that existed at a time, and the later ones with their times, in order."""
    tables, later = [], []
    for table in products.tables:
        part = CompactedProducts(products.embedder, (table,))
        times = np.array([first_ms.get(_product_id(product), 0) for product in part], np.int64)
        early = times <= begins_ms
        tables.append(table.filter(pa.array(early)))
        later += [(at, product) for at, product in zip(times.tolist(), part, strict=True) if at > begins_ms]
    later.sort(key=lambda entry: entry[0])
    return CompactedProducts(products.embedder, tuple(tables)), later


def _product_id(product: CompactedProduct) -> str:
    return str(orjson.loads(product.json).get("product_id"))


def _no_pause() -> None:
    return None
