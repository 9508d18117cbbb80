"""Totals of the archive's tool calls, for publishers. The module uses no store and no clock."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from cluster.clock import from_ms
from cluster.records.archive_client import CHECK_CLIENT, ArchiveCall

UNANSWERED_BELOW = 0.5
"""Coverage below which a question counts as unanswered.

tests/unit/actors/archive/test_coverage.py measures how well it separates questions on public data sets. Of the
questions with an answer, 0 to 5 % are below it (German: 14 %, because of compounds). Of those without, 65 to 97 % are.
"""
DIRECT = "(direct)"
"Replaces the skill's name if the user asked without a skill."


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
class UnansweredQuestion:
    """A question about which the archive has almost no text."""

    question: str
    calls: int
    last_at: int
    coverage: float
    "Highest coverage of the question's calls."


@dataclass(frozen=True, slots=True)
class ArchiveReport:
    """Totals of a period; all lists are sorted by count, the largest first."""

    calls: int
    since: int
    until: int
    clients: list[ClientUsage] = field(default_factory=list)
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
    days: list[tuple[str, int]] = field(default_factory=list)
    "Calls of each day (UTC), oldest first."
    took_ms: dict[str, float] = field(default_factory=dict)
    "Quantiles of the duration of a call; empty for calls of earlier releases."

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
                    "client_name": line.name, "client_ids": list(line.client_ids), "calls": line.calls,
                    "asks": line.asks, "reads": line.reads, "refused": line.refused,
                }
                for line in self.clients
            ],
            "skills": _pairs_to_dicts("skill_used", self.skills),
            "questions": _pairs_to_dicts("question", self.questions),
            "asks": self.question_calls,
            "unanswered_below": self.unanswered_below,
            "unanswered_calls": self.missing_calls,
            "unanswered": [asdict(line) for line in self.missing],
            "took_ms": self.took_ms,
            "articles": [
                {"product_id": product_id, "title": self.titles.get(product_id, ""), "read": read, "found": hits}
                for product_id, read, hits in self.articles
            ],
            "refusals": _pairs_to_dicts("reason", self.refusals),
            "days": _pairs_to_dicts("day", self.days),
        }  # fmt: skip


def build_archive_report(
    calls: Sequence[ArchiveCall],
    *,
    since: int,
    until: int,
    top: int = 20,
    unanswered_below: float = UNANSWERED_BELOW,
) -> ArchiveReport:
    """Return the report of the calls of a period; lists are limited to `top` rows, days are not."""
    whole = [call for call in calls if since <= call.at <= until]
    inside = [call for call in whole if call.client_name != CHECK_CLIENT]
    asks = [call for call in inside if call.outcome == "answered" and call.question]
    read: Counter[str] = Counter()
    hits: Counter[str] = Counter()
    for call in inside:
        if call.outcome == "answered":
            (hits if call.question else read).update(call.articles)
    articles = sorted(
        set(read) | set(hits), key=lambda product_id: (-read[product_id], -hits[product_id], product_id)
    )
    missed = [call for call in asks if not call.articles or _coverage(call) < unanswered_below]
    days = Counter(f"{from_ms(call.at):%Y-%m-%d}" for call in inside)
    return ArchiveReport(
        calls=len(inside),
        checks=len(whole) - len(inside),
        since=since,
        until=until,
        clients=_clients(inside)[:top],
        skills=_most_frequent(call.skill_used or DIRECT for call in inside)[:top],
        questions=_most_frequent(_fold_question(call.question) for call in asks)[:top],
        missing=_unanswered(missed)[:top],
        missing_calls=len(missed),
        question_calls=len(asks),
        unanswered_below=unanswered_below,
        articles=[(product_id, read[product_id], hits[product_id]) for product_id in articles[:top]],
        refusals=_most_frequent(call.refusal for call in inside if call.outcome == "refused")[:top],
        days=sorted(days.items()),
        took_ms=_quantiles([call.took_ms for call in inside if call.took_ms]),
    )


def _clients(calls: Iterable[ArchiveCall]) -> list[ClientUsage]:
    kinds: dict[str, Counter[str]] = {}
    ids: dict[str, set[str]] = {}
    for call in calls:
        kind = "refused" if call.outcome == "refused" else "asks" if call.question else "reads"
        kinds.setdefault(call.client_name, Counter())[kind] += 1
        ids.setdefault(call.client_name, set()).add(call.client)
    lines = [
        ClientUsage(name, tuple(sorted(ids[name])), counted["asks"], counted["reads"], counted["refused"])
        for name, counted in kinds.items()
    ]
    return sorted(lines, key=lambda line: (-line.calls, line.name))


def _coverage(call: ArchiveCall) -> float:
    """Return the coverage of a call's question; calls of earlier releases only have whether a passage was found."""
    if not call.articles:
        return 0.0
    return 1.0 if call.coverage is None else call.coverage


def _unanswered(calls: Iterable[ArchiveCall]) -> list[UnansweredQuestion]:
    by_question: dict[str, list[ArchiveCall]] = {}
    for call in calls:
        by_question.setdefault(_fold_question(call.question), []).append(call)
    lines = [
        UnansweredQuestion(question, len(same), max(entry.at for entry in same), max(map(_coverage, same)))
        for question, same in by_question.items()
    ]
    return sorted(lines, key=lambda line: (-line.calls, -line.last_at, line.question))


def _quantiles(took_ms: Sequence[float]) -> dict[str, float]:
    """Return the nearest-rank quantiles."""
    ranked = sorted(took_ms)
    shares = {"p50": 0.5, "p95": 0.95, "p99": 0.99}
    return {name: ranked[math.ceil(share * len(ranked)) - 1] for name, share in shares.items() if ranked}


def _most_frequent(words: Iterable[str]) -> list[tuple[str, int]]:
    return sorted(Counter(words).items(), key=lambda pair: (-pair[1], pair[0]))


def _fold_question(question: str) -> str:
    return " ".join(question.split())


def _pairs_to_dicts(name: str, pairs: Iterable[tuple[str, int]]) -> list[dict[str, Any]]:
    return [{name: word, "calls": count} for word, count in pairs]
