"""The recommender of an app at earlier moments, rebuilt from its compacted data. Time moves forward only.

interactions   applied at the time of their write
products       as each version says, where the versions are kept; else with their present content, from the first sign
               of them on
users          with their present attributes
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any, cast

import numpy as np
import orjson
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from actors.language.hashing_embedder import Embedder
from actors.models.loading.snapshot_models import LoadedSnapshot
from actors.recommender.messages import RecommendationResult, UserQuery
from actors.recommender.ranking.pipeline_inputs import Draw
from actors.recommender.recommender import Recommender
from actors.recommender.state.catalog import Catalog
from actors.recommender.state.events import EXPOSURE, events_from_table
from actors.recommender.state.serving_model import ServingModel
from actors.serving import dispatch
from actors.serving.startup import load_compacted_state, stack_vectors
from actors.vectors.types import Rows
from cluster.artifacts.compacted_state import CompactedProduct, CompactedProducts, CompactedState
from cluster.ids import position_from_offset
from cluster.records.interaction import RecentEvent
from cluster.records.logged_query import pseudonym

MOST_RECENT = 200
"Events of a recent list, as API replicas read it."
SEQUENCE_BITS = 20
"Bits of the number of an offset in a position."

_EVENTS_A_STEP = 5_000
_WRITTEN_MS = pl.col("offset").str.extract(r"^(\d+)").cast(pl.Int64)


@dataclass(frozen=True, slots=True)
class PastProducts:
    """The products of a moment, and what happened to products afterwards, in order."""

    early: CompactedProducts
    later: list[tuple[int, CompactedProduct | str]]
    "Position in the change log, and the record, or the id of a product that was removed."


class StateReplay:
    """A recommender that is moved through the past of an app."""

    def __init__(
        self,
        state: CompactedState,
        users: Sequence[bytes],
        products: PastProducts,
        embedder: Embedder,
        begins: int,
        *,
        refresh_ms: int = 0,
        reserved: Iterable[str] = (),
    ) -> None:
        """Load `products.early` and the interactions before the position `begins` of the change log.

        `reserved` products have rows from the start: a snapshot binds its items to the rows that exist.

        Cost:
            that of a load: 100,000 products and 1,000,000 interactions take about 8 s on one core
        """
        self._embedder = embedder
        self._has_vectors = state.products.embedder == embedder.version
        self._recommender = Recommender(embedder, refresh_ms=refresh_ms)
        self._interactions = state.interactions
        self._positions = pack_offsets(state.interactions)
        # "left": the event at the position itself is not applied yet.
        self._events_at = int(np.searchsorted(self._positions, begins, "left"))
        self._later = products.later
        self._products_at = 0
        for product_id in reserved:
            self.catalog.get_or_add_row(product_id)
        loaded = self._interactions.slice(0, self._events_at)
        begun = replace(state, products=products.early, interactions=loaded, offsets={})
        load_compacted_state(self._recommender, begun, embedder, _no_pause, users)

    def set_snapshot(self, name: str, learned: LoadedSnapshot | None) -> None:
        """Let queries to the engine `name` be answered from a snapshot; None: from the live components alone."""
        ids = list(self._recommender.overlay.catalog.product_ids)
        self._recommender.set_serving_model(name, None if learned is None else ServingModel(learned, ids))

    def set_weights(self, name: str, weights: Mapping[str, float]) -> None:
        """Let an engine rank with other weights of its live components (`BlendWeights`)."""
        state = self._recommender.get_engine_state(name)
        state.weights = replace(state.weights, **weights)

    def advance(self, until_ms: int) -> None:
        """Apply what was written before a time."""
        self.advance_products(until_ms << SEQUENCE_BITS)
        self.advance_events(until_ms << SEQUENCE_BITS)

    def advance_products(self, until: int) -> None:
        """Apply the changes of products before a position of the change log."""
        overlay = self._recommender.overlay
        end = bisect_left(self._later, until, self._products_at, key=lambda entry: entry[0])
        # Runs of puts and removals in their order: a product may be removed and put again.
        for is_removal, entries in groupby(
            self._later[self._products_at : end], key=lambda entry: isinstance(entry[1], str)
        ):
            changed = [entry for _, entry in entries]
            if is_removal:
                overlay.remove_products(cast(list[str], changed))
                continue
            products = cast(list[CompactedProduct], changed)
            vectors = stack_vectors(products, self._embedder) if self._has_vectors else None
            overlay.put_products([orjson.loads(product.json) for product in products], vectors)
        self._products_at = max(self._products_at, end)

    def advance_events(self, until: int) -> None:
        """Apply the interactions before a position of the change log."""
        overlay = self._recommender.overlay
        end = int(np.searchsorted(self._positions, until, "left"))
        # In steps, so that a long stretch is never in memory as events.
        for start in range(self._events_at, end, _EVENTS_A_STEP):
            table = self._interactions.slice(start, min(_EVENTS_A_STEP, end - start))
            overlay.add_events(
                events_from_table(
                    table, user_code=overlay.get_user_code, row_of=overlay.catalog.get_or_add_row
                )
            )
        self._events_at = max(self._events_at, end)

    def refresh_global_signals(self, now_ms: int) -> None:
        """Compute the signals of the whole app from the state that was reached; they hold for a while."""
        self._recommender.refresh_global_signals(now_ms)

    def compute_priors(self, name: str, now_ms: int) -> None:
        """Compute the priors of an engine from the state that was reached."""
        for _ in self._recommender.get_engine_state(name).complete_priors(now_ms):
            pass

    def answer(
        self,
        query: UserQuery,
        recent: Sequence[bytes],
        now_ms: int,
        shown: Sequence[str] = (),
        draw: Draw = None,
    ) -> RecommendationResult:
        """Answer a query from the state that was reached."""
        return dispatch.answer_and_build_columns(self._recommender, query, recent, shown, now_ms, draw)

    @property
    def catalog(self) -> Catalog:
        """Return the products of the state that was reached."""
        return self._recommender.overlay.catalog


class PastHistories:
    """The recent lists of users at any time, from compacted interactions."""

    def __init__(self, interactions: Any, links: Mapping[str, Sequence[tuple[str, int]]]) -> None:
        """`links` maps a user key to the other keys of the person, each with the time of their link (`list_links`)."""
        frame = pl.DataFrame(pl.from_arrow(interactions)).with_columns(written=_WRITTEN_MS)
        frame = frame.filter(~pl.col("type").is_in(list(EXPOSURE)), pl.col("product_ids").list.len() > 0)
        self._events = frame.sort("reader", maintain_order=True).select(
            "type",
            "product_ids",
            # A client's clock may be ahead: an event is never later than its write.
            pl.min_horizontal("at_ms", "written"),
            pl.col("value").fill_null(0.0),
            "written",
        )
        self._written = self._events["written"].to_numpy()
        sizes = frame.group_by("reader").len().sort("reader")
        ends = sizes["len"].cum_sum().to_list()
        # Rows are sorted by user, so each has one range: ends are the running sum of the counts.
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
        # Newest write first, so that the stable sort below keeps it so among equal times.
        events.reverse()
        events.sort(key=lambda event: -event.at_ms)
        return [event.pack() for event in events[:MOST_RECENT]]


def pack_offsets(table: Any) -> Rows:
    """Return the position of each row in the change log: the milliseconds and the number of its offset in one integer.

    Shapes:
        returns: int64 [m], ascending
    """
    frame = pl.DataFrame(pl.from_arrow(table.select(["offset"])))
    number = pl.col("offset").str.extract(r"-(\d+)$").cast(pl.Int64).fill_null(0)
    # position = ms * 2^20 + number, the order of offsets in one int64
    positions: Rows = frame.select(_WRITTEN_MS * (1 << SEQUENCE_BITS) + number).to_series().to_numpy()
    return positions


def pack_offset(offset: str) -> int:
    """Return the position of an offset in the change log."""
    at_ms, number = position_from_offset(offset)
    return (at_ms << SEQUENCE_BITS) + number


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


def resolve_pseudonyms(
    pseudonyms: Iterable[str], interactions: Any, users: Sequence[bytes], salt: bytes
) -> dict[str, str]:
    """Return the user key of each pseudonym; one without interactions and without a record is absent."""
    names = pl.Series([*users], dtype=pl.Binary).cast(pl.String).str.json_path_match("$.user_id").drop_nulls()
    keys = {*pc.unique(interactions["reader"]).to_pylist(), *("u:" + name for name in names)}
    needed = set(pseudonyms)
    # The salted hash has no inverse, so every key is hashed and compared.
    return {mark: key for key in keys if (mark := pseudonym(salt, key)) in needed}


def list_first_times(records: Iterable[Any], interactions: Any) -> dict[str, int]:
    """Return the time of the first sign of each product: its record, its date, or an interaction with it.

    `records` are tables with `id`, `offset` and `json`, as `SegmentStream.records` yields them.
    """
    first_ms: dict[str, int] = {}
    for table in records:
        day = (
            pl.coalesce(
                *(
                    pl.col("json").cast(pl.String).str.json_path_match(f"$.{name}")
                    for name in ("published_at", "created_at")
                )
            )
            .str.slice(0, 10)
            .str.to_date(strict=False)
        )
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


def list_products_by_sign(
    products: CompactedProducts, first_ms: Mapping[str, int], begins_ms: int
) -> PastProducts:
    """Return the products that existed at a time, and the later ones with their times, with their present content.

    `first_ms` has the time of the first sign of each product (`list_first_times`).
    """
    tables = []
    later = list[tuple[int, CompactedProduct | str]]()
    for table in products.tables:
        part = CompactedProducts(products.embedder, (table,))
        times = np.array([first_ms.get(product_id_of(product), 0) for product in part], np.int64)
        early = times <= begins_ms
        tables.append(table.filter(pa.array(early)))
        later += [
            (at << SEQUENCE_BITS, product)
            for at, product in zip(times.tolist(), part, strict=True)
            if at > begins_ms
        ]
    later.sort(key=lambda entry: entry[0])
    return PastProducts(CompactedProducts(products.embedder, tuple(tables)), later)


def list_products_by_version(versions: Any, embedder: str, begins: int) -> PastProducts:
    """Return the products as they were before a position of the change log, and all later changes.

    `versions` has the rows of `read_versions`, `embedder` is that of the vectors.
    """
    positions = pack_offsets(versions)
    split = int(np.searchsorted(positions, begins, "left"))
    # Rows are in the order of the log, so the last row of an id wins.
    newest = {record_id: row for row, record_id in enumerate(versions["id"][:split].to_pylist())}
    rows = np.array(sorted(newest.values()), np.int64)
    early = versions.take(pa.array(rows))
    early = early.filter(pc.invert(early["gone"]))
    rest = versions.slice(split)
    # In step with the rows below: `next` is called for each row that is not gone.
    records = iter(CompactedProducts(embedder, (rest.filter(pc.invert(rest["gone"])),)))
    later: list[tuple[int, CompactedProduct | str]] = [
        (position, record_id if is_gone else next(records))
        for position, record_id, is_gone in zip(
            positions[split:].tolist(), rest["id"].to_pylist(), rest["gone"].to_pylist(), strict=True
        )
    ]
    return PastProducts(CompactedProducts(embedder, (early,)), later)


def product_id_of(product: CompactedProduct) -> str:
    """Return the id of a record."""
    return str(orjson.loads(product.json).get("product_id"))


def _no_pause() -> None:
    return None
