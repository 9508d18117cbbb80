"""Visits of articles in the log of archive calls, joined to the calls whose links were followed."""

from __future__ import annotations

import polars as pl


def match_visits(rows: pl.DataFrame, calls: pl.DataFrame) -> pl.DataFrame:
    """Return one row for each visited link of some calls, however often its mark was used.

    Shapes:
        rows: `cluster.artifacts.logs.call_log.COLUMNS`
        calls: at least `call_id`, `articles`, and what the result is to have of the calls
        result: the columns of calls without `articles`, and `article`, `visited_at` (first visit), `times`
    """
    visits = rows.filter(pl.col("event") == "visit").select(
        "call_id", "at", pl.col("articles").alias("article")
    )
    visited = (
        visits.explode("article")
        .group_by("call_id", "article")
        .agg(pl.col("at").min().alias("visited_at"), pl.len().alias("times"))
    )
    linked = calls.filter(pl.col("call_id") != "").rename({"articles": "article"}).explode("article")
    return linked.unique(["call_id", "article"]).join(visited, on=["call_id", "article"])
