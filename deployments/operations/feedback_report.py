"""Counts of `feedback` interactions by question, the answers with the worst feedback first. The report
names no user.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import orjson

from actors.hosting.uncompacted_interactions import read_uncompacted
from cluster.artifacts.segments import SegmentStore
from cluster.records.validation.upload import ORIGIN
from cluster.store.ports.questions import StoredQuestion
from cluster.store.ports.stores import Stores

KINDS = ("feedback",)
MOST_READ = 2_000
"Maximum number of questions whose texts are read: those with the most judgements."
_READ_AT_ONCE = 100
_HELPFUL = frozenset({"helpful", "up", "thumbs_up", "like", "positive", "yes", "true", "1"})
_NOT_HELPFUL = frozenset(
    {
        "not helpful",
        "not_helpful",
        "unhelpful",
        "down",
        "thumbs_down",
        "dislike",
        "negative",
        "no",
        "false",
        "0",
    }
)
_TAKEN_BACK = frozenset({"unselected", "none", ""})


@dataclass(frozen=True, slots=True)
class Judgement:
    """The judgement of one user about one answer."""

    reader_id: str
    at_ms: int
    question_id: str
    value: str
    origin: str = ""
    "Key that counts the user; replaces the id of a user without proof."


@dataclass(frozen=True, slots=True)
class QuestionFeedback:
    """All judgements about one question, summed over its answers."""

    question: str
    "Text of the question; empty if the store no longer has it."
    helpful: int
    not_helpful: int
    other: int
    "Number of other values."
    answers: int
    "Number of distinct judged answers."
    question_id: str
    "The answer of the newest judgement."
    sources: int
    "Products that this answer cites."


@dataclass(frozen=True, slots=True)
class FeedbackReport:
    """All judgements of a period."""

    helpful: int = 0
    not_helpful: int = 0
    other: int = 0
    without_question: int = 0
    "Number of judgements without a question."
    questions: tuple[QuestionFeedback, ...] = ()
    "Sorted by the number of users who found it not helpful."

    def to_dict(self) -> dict[str, Any]:
        """Return the report as JSON."""
        return asdict(self)


async def read_judgements(
    stores: Stores, segments: SegmentStore, app_id: str, since_ms: int, until_ms: int
) -> list[Judgement]:
    """Return the judgements of a period, from the segments and from the change log after them.

    Errors:
        Unavailable
        Fault: the manifest of the segments is damaged
    """
    found, after = await asyncio.to_thread(_read_compacted, segments, app_id, since_ms)
    late = await read_uncompacted(stores.changes, app_id, after, KINDS)
    found += [_judgement(one.user_key, one.at_ms, one.item) for one in late]
    return [one for one in found if since_ms <= one.at_ms <= until_ms]


async def read_questions(
    stores: Stores, app_id: str, judgements: Iterable[Judgement]
) -> dict[str, StoredQuestion]:
    """Return the judged questions; if there are many, those with the most judgements.

    Errors:
        Unavailable
    """
    counts: defaultdict[str, int] = defaultdict(int)
    for one in judgements:
        counts[one.question_id] += 1
    counts.pop("", None)
    wanted = sorted(counts, key=lambda question_id: (-counts[question_id], question_id))[:MOST_READ]
    recorded: dict[str, StoredQuestion] = {}
    for start in range(0, len(wanted), _READ_AT_ONCE):
        some = wanted[start : start + _READ_AT_ONCE]
        read = await asyncio.gather(*(stores.questions.read(app_id, one) for one in some))
        recorded |= {name: one for name, one in zip(some, read, strict=True) if one is not None}
    return recorded


def _read_compacted(segments: SegmentStore, app_id: str, since_ms: int) -> tuple[list[Judgement], str]:
    """Return the compacted judgements, and the offset up to which interactions are compacted."""
    after = segments.offsets(app_id).get("interaction", "0")
    table = segments.load_interactions_of_types(app_id, KINDS, since_ms)
    columns = (table[name].to_pylist() for name in ("reader", "at_ms", "json"))
    rows = zip(*columns, strict=True)
    return [_judgement(reader, at_ms, orjson.loads(body)) for reader, at_ms, body in rows], after


def build_feedback_report(
    judgements: Sequence[Judgement], questions: Mapping[str, StoredQuestion], *, top: int = 20
) -> FeedbackReport:
    """Return the counts of judgements by question.

    For each user and answer only the newest judgement counts; it may withdraw an earlier one.
    """
    newest: dict[tuple[str, str], Judgement] = {}
    for one in sorted(judgements, key=lambda judgement: judgement.at_ms):
        newest[one.origin or one.reader_id, one.question_id] = one
    standing = [one for one in newest.values() if one.value not in _TAKEN_BACK]
    groups: defaultdict[str, list[Judgement]] = defaultdict(list)
    for one in standing:
        if one.question_id:
            recorded = questions.get(one.question_id)
            groups[one.question_id if recorded is None else _text(recorded).casefold()].append(one)
    lines = [_line(some, questions) for some in groups.values()]
    lines.sort(key=lambda line: (line.helpful - line.not_helpful, -line.not_helpful, line.question))
    helpful, not_helpful, other = _counts(standing)
    without = sum(not one.question_id for one in standing)
    return FeedbackReport(helpful, not_helpful, other, without, tuple(lines[:top]))


def _line(judgements: Sequence[Judgement], questions: Mapping[str, StoredQuestion]) -> QuestionFeedback:
    last = max(judgements, key=lambda one: one.at_ms)
    recorded = questions.get(last.question_id)
    cited = () if recorded is None else {one.product_id for one in recorded.answer.passages}
    return QuestionFeedback(
        "" if recorded is None else _text(recorded), *_counts(judgements),
        answers=len({one.question_id for one in judgements}), question_id=last.question_id, sources=len(cited),
    )  # fmt: skip


def _counts(judgements: Iterable[Judgement]) -> tuple[int, int, int]:
    values = [one.value for one in judgements]
    helpful = sum(value in _HELPFUL for value in values)
    not_helpful = sum(value in _NOT_HELPFUL for value in values)
    return helpful, not_helpful, len(values) - helpful - not_helpful


def _text(recorded: StoredQuestion) -> str:
    return recorded.answer.question or recorded.question.text


def _judgement(reader_id: str, at_ms: int, item: Mapping[str, Any]) -> Judgement:
    value = " ".join(str(item.get("value") or "").split()).lower()
    return Judgement(reader_id, at_ms, str(item.get("question_id") or ""), value, str(item.get(ORIGIN) or ""))
