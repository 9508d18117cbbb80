"""What the book of calls says: sums a publisher asks for. No store, no clock."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from cluster.clock import from_ms
from cluster.records.archive_call import ArchiveCall

DIRECT = "(direct)"
"Stands where no skill was named: the user asked."


@dataclass(frozen=True, slots=True)
class ClientLine:
    """One client, by the name it gives itself."""

    name: str
    client_ids: tuple[str, ...]
    asks: int
    reads: int
    refused: int

    @property
    def calls(self) -> int:
        """All of them."""
        return self.asks + self.reads + self.refused


@dataclass(frozen=True, slots=True)
class ArchiveReport:
    """Sums over a time; everything counted is sorted, most first."""

    calls: int
    since: int
    until: int
    clients: list[ClientLine] = field(default_factory=list)
    skills: list[tuple[str, int]] = field(default_factory=list)
    questions: list[tuple[str, int]] = field(default_factory=list)
    unanswered: list[tuple[str, int]] = field(default_factory=list)
    "Questions the archive found nothing about."
    articles: list[tuple[str, int, int]] = field(default_factory=list)
    "Product, how often it was read, how often it was found."
    refusals: list[tuple[str, int]] = field(default_factory=list)
    days: list[tuple[str, int]] = field(default_factory=list)
    "Calls of each day (UTC), oldest first."

    def told(self) -> dict[str, Any]:
        """Say it as JSON."""
        return {
            "since": self.since,
            "until": self.until,
            "calls": self.calls,
            "clients": [
                {
                    "client_name": line.name, "client_ids": list(line.client_ids), "calls": line.calls,
                    "asks": line.asks, "reads": line.reads, "refused": line.refused,
                }
                for line in self.clients
            ],
            "skills": _named("skill_used", self.skills),
            "questions": _named("question", self.questions),
            "unanswered": _named("question", self.unanswered),
            "articles": [
                {"product_id": product_id, "read": read, "found": found}
                for product_id, read, found in self.articles
            ],
            "refusals": _named("reason", self.refusals),
            "days": _named("day", self.days),
        }  # fmt: skip


def summarise(calls: Sequence[ArchiveCall], *, since: int, until: int, top: int = 20) -> ArchiveReport:
    """Count calls of a time; lists end after `top` lines, days don't."""
    inside = [call for call in calls if since <= call.at <= until]
    asks = [call for call in inside if call.outcome == "answered" and call.question]
    read: Counter[str] = Counter()
    found: Counter[str] = Counter()
    for call in inside:
        if call.outcome == "answered":
            (found if call.question else read).update(call.articles)
    articles = sorted(set(read) | set(found), key=lambda one: (-read[one], -found[one], one))
    days = Counter(f"{from_ms(call.at):%Y-%m-%d}" for call in inside)
    return ArchiveReport(
        calls=len(inside),
        since=since,
        until=until,
        clients=_clients(inside)[:top],
        skills=_most(call.skill_used or DIRECT for call in inside)[:top],
        questions=_most(_folded(call.question) for call in asks)[:top],
        unanswered=_most(_folded(call.question) for call in asks if not call.articles)[:top],
        articles=[(one, read[one], found[one]) for one in articles[:top]],
        refusals=_most(call.refusal for call in inside if call.outcome == "refused")[:top],
        days=sorted(days.items()),
    )


def _clients(calls: Iterable[ArchiveCall]) -> list[ClientLine]:
    kinds: dict[str, Counter[str]] = {}
    ids: dict[str, set[str]] = {}
    for call in calls:
        kind = "refused" if call.outcome == "refused" else "asks" if call.question else "reads"
        kinds.setdefault(call.client_name, Counter())[kind] += 1
        ids.setdefault(call.client_name, set()).add(call.client)
    lines = [
        ClientLine(name, tuple(sorted(ids[name])), counted["asks"], counted["reads"], counted["refused"])
        for name, counted in kinds.items()
    ]
    return sorted(lines, key=lambda line: (-line.calls, line.name))


def _most(words: Iterable[str]) -> list[tuple[str, int]]:
    return sorted(Counter(words).items(), key=lambda pair: (-pair[1], pair[0]))


def _folded(question: str) -> str:
    return " ".join(question.split())


def _named(name: str, pairs: Iterable[tuple[str, int]]) -> list[dict[str, Any]]:
    return [{name: word, "calls": count} for word, count in pairs]
