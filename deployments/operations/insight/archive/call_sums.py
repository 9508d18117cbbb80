"""Sums over rows of the log of archive calls. The module uses no store and no clock.

A visit belongs to the call whose link was followed, and counts for the period of the call. The visits of one link of
one call count once, at the first of them; the others are repeats. Links are articles of answers with marks.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Final, Literal, get_args

import polars as pl

from actors.archive.article_visits import match_visits
from cluster.records.archive.archive_client import CHECK_CLIENT, QUESTION_TOOLS

UNANSWERED_BELOW = 0.5
"""Coverage below which a question counts as unanswered.

tests/unit/actors/archive/test_coverage.py measures how well it separates questions on public data sets. Of the
questions with an answer, 0 to 5 % are below it (German: 14 %, because of compounds). Of those without, 65 to 97 % are.
"""
DIRECT = "(direct)"
"Replaces the skill's name if the user asked without a skill."
Dimension = Literal["agent", "skill", "tool", "article", "day"]
DIMENSIONS: Final[tuple[Dimension, ...]] = get_args(Dimension)
BYTES_A_TOKEN: Final = 4
"Bytes of an answer that make one token of an agent's model, as an estimate."

_IS_ANSWERED = pl.col("outcome") == "answered"
_IS_ASK = (pl.col("question") != "") | pl.col("tool").is_in(QUESTION_TOOLS)
_COVERAGE = pl.when(pl.col("articles").list.len() == 0).then(0.0).otherwise(pl.col("coverage").fill_null(1.0))


@dataclass(frozen=True, slots=True)
class UsageRow:
    """The calls of one agent, skill, tool, article or day. Calls of several articles have no cost by article."""

    name: str
    calls: int
    asks: int
    reads: int
    refused: int
    unanswered: int
    links: int
    "Articles in answers whose links carry marks."
    visits: int
    took_ms: float | None
    reply_bytes: int | None
    model_tokens: int | None

    @property
    def visit_share(self) -> float | None:
        """Return the citation yield: visits for each link; None without links."""
        return self.visits / self.links if self.links else None

    def to_dict(self) -> dict[str, Any]:
        share = self.visit_share
        return {**asdict(self), "yield": None if share is None else round(share, 6)}


@dataclass(frozen=True, slots=True)
class PeriodCalls:
    """The calls of a period and the visits that followed."""

    calls: pl.DataFrame
    "Without those of `kiosk doctor`; with further columns, as `is_ask`, `is_read`, `share`, `skill` and `day`."
    checks: int
    visits: pl.DataFrame
    "One row for each visited link: `call_id`, `article`, `times`, and the dimensions of its call."
    other_visits: int
    "Visits within the period of links of earlier calls, or of calls whose row was lost."


def select_period(rows: pl.DataFrame, since: int, until: int, unanswered_below: float) -> PeriodCalls:
    """Return the calls of a period with derived columns, and their visits up to its end.

    Shapes:
        rows: `cluster.artifacts.logs.call_log.COLUMNS`
    """
    rows = rows.filter(pl.col("at").is_between(since, until))
    rows = rows.with_columns(pl.col(pl.String).fill_null(""))
    whole = rows.filter(pl.col("event") == "call")
    calls = (
        whole.filter(pl.col("client_name") != CHECK_CLIENT)
        .with_columns(
            is_ask=_IS_ANSWERED & _IS_ASK,
            is_read=_IS_ANSWERED & ~_IS_ASK,
            is_refused=~_IS_ANSWERED,
            share=_COVERAGE,
            skill=pl.when(pl.col("skill_used") == "").then(pl.lit(DIRECT)).otherwise(pl.col("skill_used")),
            day=pl.from_epoch("at", time_unit="ms").dt.strftime("%Y-%m-%d"),
            links=pl.when(pl.col("marked") & _IS_ANSWERED).then(pl.col("articles").list.len()).otherwise(0),
        )
        .with_columns(
            is_unanswered=pl.col("is_ask")
            & ((pl.col("articles").list.len() == 0) | (pl.col("share") < unanswered_below))
        )
    )
    sent = rows.filter(pl.col("event") == "visit").height
    matched = match_visits(rows, calls.select("call_id", "client_name", "skill", "tool", "day", "articles"))
    return PeriodCalls(calls, len(whole) - len(calls), matched, sent - int(matched["times"].sum()))


def sum_usage(period: PeriodCalls, by: Dimension) -> list[UsageRow]:
    """Return the sums of a period by one dimension: the most calls first, days in their order."""
    name = {"agent": "client_name", "skill": "skill", "tool": "tool", "article": "article", "day": "day"}[by]
    calls = period.calls
    visits = period.visits
    if by == "article":
        calls = calls.filter(_IS_ANSWERED).with_columns(
            article=pl.col("articles"), links=pl.col("marked").cast(pl.Int64)
        )
        calls = calls.explode("article").drop_nulls("article")
    counts = calls.group_by(name).agg(
        calls=pl.len(),
        asks=pl.col("is_ask").sum(),
        reads=pl.col("is_read").sum(),
        refused=pl.col("is_refused").sum(),
        unanswered=pl.col("is_unanswered").sum(),
        links=pl.col("links").sum(),
        took_ms=pl.col("took_ms").sum().round(3),
        reply_bytes=pl.col("reply_bytes").sum(),
        model_tokens=pl.col("model_tokens").sum(),
    )
    rows = counts.join(visits.group_by(name).agg(visits=pl.len()), on=name, how="left")
    rows = rows.with_columns(pl.col("visits").fill_null(0))
    rows = rows.sort(name) if by == "day" else rows.sort(["calls", name], descending=[True, False])
    cost = ("took_ms", "reply_bytes", "model_tokens")
    unknown = dict.fromkeys(cost) if by == "article" else {}
    names = [column for column in rows.columns if column != name]
    return [
        UsageRow(name=row[name], **{**{column: row[column] for column in names}, **unknown})
        for row in rows.to_dicts()
    ]


def sum_coverage(period: PeriodCalls) -> dict[str, Any]:
    """Return the mean coverage of the answered questions, and their number in tenths of coverage."""
    shares = period.calls.filter(pl.col("is_ask") & pl.col("coverage").is_not_null())["share"]
    # A share of 1 belongs to the last tenth.
    tenths = (shares * 10).floor().clip(0, 9).cast(pl.Int64).to_list()
    bins = [{"from": at / 10, "questions": tenths.count(at)} for at in range(10)]
    mean = shares.mean()
    return {"mean": round(float(mean), 3) if isinstance(mean, int | float) else None, "bins": bins}


def sum_cost(period: PeriodCalls) -> dict[str, Any]:
    """Return what the calls of a period cost."""
    calls = period.calls
    reply_bytes = int(calls["reply_bytes"].sum())
    return {
        "took_ms": round(float(calls["took_ms"].sum()), 3),
        "reply_bytes": reply_bytes,
        "reply_tokens": round(reply_bytes / BYTES_A_TOKEN),
        "model_tokens": int(calls["model_tokens"].sum()),
    }
