"""Totals of archive calls and the visits that followed, for publishers. The module uses no store and no clock."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Final

import polars as pl

from actors.language.hashing_embedder import Embedder
from deployments.operations.insight.archive.call_sums import (
    DIMENSIONS,
    UNANSWERED_BELOW,
    PeriodCalls,
    UsageRow,
    select_period,
    sum_cost,
    sum_coverage,
    sum_usage,
)
from deployments.operations.insight.archive.question_groups import (
    QuestionGroup,
    UnansweredQuestion,
    group_questions,
)

_ANSWERED: Final = pl.col("outcome") == "answered"


@dataclass(frozen=True, slots=True)
class ClientUsage:
    """The calls of one client, by the name that the client chose."""

    name: str
    client_ids: tuple[str, ...]
    asks: int
    reads: int
    refused: int

    @property
    def calls(self) -> int:
        """Number of all calls."""
        return self.asks + self.reads + self.refused


@dataclass(frozen=True, slots=True)
class ArchiveReport:
    """Totals of a period; all lists are sorted by count, the largest first."""

    calls: int
    since: int
    until: int
    clients: list[ClientUsage] = field(default_factory=list)
    signers: list[ClientUsage] = field(default_factory=list)
    "Agents whose signatures are verified, by host."
    signatures: dict[str, int] = field(default_factory=dict)
    "Calls with a signature by what it proves: verified, invalid, unverified."
    skills: list[tuple[str, int]] = field(default_factory=list)
    questions: list[tuple[str, int]] = field(default_factory=list)
    missing: list[UnansweredQuestion] = field(default_factory=list)
    "Questions with a coverage below `UNANSWERED_BELOW`: the most frequent first, then the newest."
    missing_calls: int = 0
    question_calls: int = 0
    unanswered_below: float = UNANSWERED_BELOW
    articles: list[tuple[str, int, int]] = field(default_factory=list)
    "Product id, number of reads, number of results that contain it."
    refusals: list[tuple[str, int]] = field(default_factory=list)
    titles: dict[str, str] = field(default_factory=dict)
    "Product id of an article -> its title; deleted articles are absent."
    checks: int = 0
    "Calls of `kiosk doctor`, which no other figure counts."
    groups: list[QuestionGroup] = field(default_factory=list)
    "All questions of `missing`, those beyond `top` too, grouped by meaning."
    usage: Mapping[str, list[UsageRow]] = field(default_factory=dict)
    "Dimension -> its rows: `agent`, `skill`, `tool`, `article`, `day`."
    coverage: Mapping[str, Any] = field(default_factory=dict)
    cost: Mapping[str, Any] = field(default_factory=dict)
    links: int = 0
    "Articles in answers whose links carry marks."
    visits: int = 0
    "Visited links of the period's calls."
    repeated_visits: int = 0
    other_visits: int = 0
    "Visits within the period of links of earlier calls, or of calls whose row was lost."
    days: list[tuple[str, int]] = field(default_factory=list)
    "Calls of each day (UTC), oldest first."
    took_ms: dict[str, float] = field(default_factory=dict)
    "Quantiles of the duration of a call; empty for calls of earlier releases."

    @property
    def visit_share(self) -> float | None:
        """Return the citation yield: visits for each link; None without marked links."""
        return self.visits / self.links if self.links else None

    @property
    def unanswered(self) -> list[tuple[str, int]]:
        """Texts and counts of the questions in `missing`."""
        return [(line.question, line.calls) for line in self.missing]

    def to_dict(self) -> dict[str, Any]:
        """Return the report as JSON."""
        return {
            "since": self.since,
            "until": self.until,
            "calls": self.calls,
            "checks": self.checks,
            "clients": [
                {
                    "client_name": line.name,
                    "client_ids": list(line.client_ids),
                    "calls": line.calls,
                    "asks": line.asks,
                    "reads": line.reads,
                    "refused": line.refused,
                }
                for line in self.clients
            ],
            "signers": [
                {
                    "agent": line.name,
                    "calls": line.calls,
                    "asks": line.asks,
                    "reads": line.reads,
                    "refused": line.refused,
                }
                for line in self.signers
            ],
            "signatures": self.signatures,
            "skills": _pairs_to_dicts("skill_used", self.skills),
            "questions": _pairs_to_dicts("question", self.questions),
            "asks": self.question_calls,
            "unanswered_below": self.unanswered_below,
            "unanswered_calls": self.missing_calls,
            "unanswered": [asdict(line) for line in self.missing],
            "unanswered_groups": [group.to_dict() for group in self.groups],
            "coverage": dict(self.coverage),
            "cost": dict(self.cost),
            "citations": {
                "links": self.links,
                "visits": self.visits,
                "repeated_visits": self.repeated_visits,
                "other_visits": self.other_visits,
                "yield": None if self.visit_share is None else round(self.visit_share, 6),
            },
            "usage": {name: [row.to_dict() for row in rows] for name, rows in self.usage.items()},
            "took_ms": self.took_ms,
            "articles": [
                {
                    "product_id": product_id,
                    "title": self.titles.get(product_id, ""),
                    "read": read,
                    "found": hits,
                }
                for product_id, read, hits in self.articles
            ],
            "refusals": _pairs_to_dicts("reason", self.refusals),
            "days": _pairs_to_dicts("day", self.days),
        }


def build_usage_report(
    rows: pl.DataFrame,
    *,
    since: int,
    until: int,
    top: int = 20,
    unanswered_below: float = UNANSWERED_BELOW,
    embedder: Embedder | None = None,
) -> ArchiveReport:
    """Return the report of the calls of a period; lists are limited to `top` rows, days are not.

    Shapes:
        rows: `cluster.artifacts.logs.call_log.COLUMNS`
    Cost:
        100,000 calls and their visits: 0.4 s
    """
    period = select_period(rows, since, until, unanswered_below)
    calls = period.calls
    visits = period.visits
    asks = calls.filter("is_ask")
    asks = asks.with_columns(text=pl.col("question").str.replace_all(r"\s+", " ").str.strip_chars())
    missed = asks.filter("is_unanswered")
    missing = _unanswered(missed)
    usage = {by: sum_usage(period, by) for by in DIMENSIONS}
    refused = calls.filter("is_refused")
    return ArchiveReport(
        calls=len(calls),
        checks=period.checks,
        since=since,
        until=until,
        clients=list_callers(calls)[:top],
        signers=list_callers(calls.filter(pl.col("agent") != ""), "agent")[:top],
        signatures=dict(sorted(_most_frequent(calls.filter(pl.col("signature") != "")["signature"]))),
        skills=[(row.name, row.calls) for row in usage["skill"][:top]],
        questions=_most_frequent(asks.filter(pl.col("text") != "")["text"])[:top],
        missing=missing[:top],
        missing_calls=len(missed),
        question_calls=len(asks),
        unanswered_below=unanswered_below,
        articles=_articles(period)[:top],
        refusals=_most_frequent(refused["refusal"])[:top],
        groups=group_questions(missing, embedder)[:top],
        usage={by: lines if by == "day" else lines[:top] for by, lines in usage.items()},
        coverage=sum_coverage(period),
        cost=sum_cost(period),
        links=int(calls["links"].sum()),
        visits=len(visits),
        repeated_visits=int(visits["times"].sum()) - len(visits),
        other_visits=period.other_visits,
        days=[(row.name, row.calls) for row in usage["day"]],
        took_ms=_quantiles(calls.filter(pl.col("took_ms") > 0)["took_ms"].to_list()),
    )


def list_callers(calls: pl.DataFrame, name: str = "client_name") -> list[ClientUsage]:
    """Return the use of each client, or of each value of another column: the most calls first."""
    lines = calls.group_by(name).agg(
        pl.col("client").unique().sort(),
        pl.col("is_ask").sum(),
        pl.col("is_read").sum(),
        pl.col("is_refused").sum(),
    )
    usage = [
        ClientUsage(caller, tuple(client_ids), asks, reads, refused)
        for caller, client_ids, asks, reads, refused in lines.iter_rows()
    ]
    return sorted(usage, key=lambda line: (-line.calls, line.name))


def _articles(period: PeriodCalls) -> list[tuple[str, int, int]]:
    """Return the product id, reads and hits of each article: the most reads first."""
    answered = period.calls.filter(_ANSWERED).select("is_ask", "articles").explode("articles").drop_nulls()
    counted = answered.group_by("articles").agg(
        (~pl.col("is_ask")).sum().alias("read"), pl.col("is_ask").sum()
    )
    return sorted(counted.iter_rows(), key=lambda line: (-line[1], -line[2], line[0]))


def _unanswered(missed: pl.DataFrame) -> list[UnansweredQuestion]:
    lines = (
        missed.filter(pl.col("text") != "")
        .group_by("text")
        .agg(pl.len(), pl.col("at").max(), pl.col("share").max())
    )
    questions = [UnansweredQuestion(*row) for row in lines.iter_rows()]
    return sorted(questions, key=lambda line: (-line.calls, -line.last_at, line.question))


def _quantiles(took_ms: Sequence[float]) -> dict[str, float]:
    """Return the nearest-rank quantiles."""
    ranked = sorted(took_ms)
    shares = {"p50": 0.5, "p95": 0.95, "p99": 0.99}
    return {name: ranked[math.ceil(share * len(ranked)) - 1] for name, share in shares.items() if ranked}


def _most_frequent(words: pl.Series) -> list[tuple[str, int]]:
    counted = words.value_counts(name="count")
    return sorted(counted.iter_rows(), key=lambda pair: (-pair[1], pair[0]))


def _pairs_to_dicts(name: str, pairs: Sequence[tuple[str, int]]) -> list[dict[str, Any]]:
    return [{name: word, "calls": count} for word, count in pairs]
