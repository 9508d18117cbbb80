"""Rates of an app for the newest hours and for the same hours of earlier days, read from the artifact store."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import polars as pl

from actors.intake.attribution import VIEWS
from cluster.artifacts.logs.day_files import DAY_MS
from cluster.artifacts.logs.outcomes import OutcomeStore
from cluster.artifacts.logs.served_log import ServedLogStore
from cluster.artifacts.segment_stream import SegmentStream
from cluster.artifacts.storage.artifact_store import ArtifactStore
from cluster.ids import position_from_offset
from cluster.records.served_list import LIST_ENDPOINTS
from jobs.refresh.automation.drift import DAYS_BEFORE, WINDOW_MS, Counts, Signal

VIEW_MS: Final = 1_800_000
"How long after an answer a click belongs to it."
HEAD: Final = 100
"Products that count as popular: those with the most places, or events."

Window = tuple[int, int]
"From a time on and before another, in milliseconds since 1970."


def list_windows(end_ms: int) -> list[Window]:
    """Return the newest hours before a time, then the same hours of earlier days."""
    # The same hours of each day, since rates differ between noon and night.
    ends = [end_ms - days * DAY_MS for days in range(DAYS_BEFORE + 1)]
    return [(end - WINDOW_MS, end) for end in ends]


def read_rates(store: ArtifactStore, app_id: str, windows: Sequence[Window]) -> list[Mapping[Signal, Counts]]:
    """Return the counts of each window. Blocks.

    Errors:
        NotFound: a file was replaced during the read
    Cost:
        1 s for a million answers of the windows
    """
    popular = count_popular(_read_events(store, app_id, windows), len(windows))
    rates: list[Mapping[Signal, Counts]] = []
    for window, events in zip(windows, popular, strict=True):
        lists, clicked, places, outside = _count_lists(store, app_id, window)
        rates.append(
            {"click rate": (clicked, lists), "coverage": (outside, places), "popular products": events}
        )
    if not _is_attributed(store, app_id, windows[0][1] + VIEW_MS):
        rates[0] = {**rates[0], "click rate": (0, 0)}  # clicks that are not counted yet are no drift
    return rates


def count_popular(events: pl.DataFrame, windows: int) -> list[Counts]:
    """Return for each window its events with products that were popular in the others, and all of its events.

    A window does not choose its popular products: else rates of the past would be too high. The newest window chooses
    none either.

    Shapes:
        events: columns `window` (0: the newest), `product`, `count`
    """
    counts = []
    for window in range(windows):
        inside = events.filter(pl.col("window") == window)
        others = events.filter(~pl.col("window").is_in([0, window]))
        head = (
            others.group_by("product")
            .agg(pl.col("count").sum())
            # By product, too: a cut among equal counts would otherwise be left to chance.
            .sort("count", "product", descending=True)
            .head(HEAD)
        )
        hits = inside.join(head, on="product", how="semi")["count"].sum()
        counts.append((int(hits), int(inside["count"].sum())))
    return counts


def count_answers(answers: pl.DataFrame, outcomes: pl.DataFrame) -> tuple[int, int, int, int]:
    """Return the lists of answers, those with a click, their places, and the places outside the most shown products."""
    lists = answers.filter(pl.col("endpoint").is_in(LIST_ENDPOINTS) & (pl.col("start") == 0))
    # A list counts once, however many of its products were clicked.
    clicked = outcomes.filter(pl.col("type").is_in(VIEWS)).select("service_id").unique()
    places = lists["products"].explode().drop_nulls().value_counts()["count"]
    total = int(places.sum())
    return (
        lists.height,
        lists.join(clicked, on="service_id", how="semi").height,
        total,
        # Places outside the head of this window: coverage is what the head does not take.
        total - int(places.top_k(HEAD).sum()),
    )


def _is_attributed(store: ArtifactStore, app_id: str, until_ms: int) -> bool:
    """Return whether the outcomes contain all interactions up to a time."""
    attributed = OutcomeStore(store).commit(app_id).facts.get("offset", "0")
    compacted = SegmentStream(store, app_id).measure("interaction").offset
    # Equal offsets mean that nothing is missing, also in an app without events since.
    return bool(attributed == compacted or position_from_offset(attributed)[0] >= until_ms)


def _count_lists(store: ArtifactStore, app_id: str, window: Window) -> tuple[int, int, int, int]:
    since_ms, until_ms = window
    served = ServedLogStore(store)
    outcomes = OutcomeStore(store)
    answers = served.files(
        app_id, served.commit(app_id), since_ms, until_ms, ("service_id", "endpoint", "start", "products")
    )
    clicks = outcomes.files(
        # Clicks come after their lists, so outcomes are read for half an hour longer.
        app_id,
        outcomes.commit(app_id),
        since_ms,
        until_ms + VIEW_MS,
        ("service_id", "type"),
    )
    return count_answers(_join(answers, _ANSWERS), _join(clicks, _CLICKS))


def _read_events(store: ArtifactStore, app_id: str, windows: Sequence[Window]) -> pl.DataFrame:
    def count(table: Any) -> pl.DataFrame:
        frame = pl.DataFrame(pl.from_arrow(table.select(["at_ms", "product_ids"])))
        # Minus 1 ms: the end of a window does not belong to it.
        age = windows[0][1] - 1 - pl.col("at_ms")
        events = frame.filter(age % DAY_MS < WINDOW_MS).select(
            window=age // DAY_MS, product=pl.col("product_ids").list.first()
        )
        return events.drop_nulls().group_by("window", "product").agg(count=pl.len())

    parts = SegmentStream(store, app_id).events(windows[-1][0], windows[0][1], count)
    return (
        pl.concat([_EVENTS, *parts], how="vertical_relaxed")
        .group_by("window", "product")
        .agg(pl.col("count").sum())
    )


def _join(tables: Any, empty: pl.DataFrame) -> pl.DataFrame:
    frames = [pl.DataFrame(pl.from_arrow(table.select(empty.columns))) for table in tables]
    return pl.concat([empty, *frames], how="vertical_relaxed")


_ANSWERS: Final = pl.DataFrame(
    schema={"service_id": pl.String, "endpoint": pl.String, "start": pl.Int32, "products": pl.List(pl.String)}
)
_CLICKS: Final = pl.DataFrame(schema={"service_id": pl.String, "type": pl.String})
_EVENTS: Final = pl.DataFrame(schema={"window": pl.Int64, "product": pl.String, "count": pl.UInt32})
