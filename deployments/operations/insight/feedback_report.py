"""Counts of `feedback` interactions by question, the answers with the worst feedback first. The report
names no user.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from actors.hosting.uncompacted_interactions import read_uncompacted
from cluster.artifacts.segments import SegmentStore
from cluster.records.validation.upload import ORIGIN
from cluster.store.archive.user_questions import StoredQuestion
from cluster.store.stores import Stores

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

    user_key: str
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


async def read_judgements(
    stores: Stores, segments: SegmentStore, app_id: str, since_ms: int, until_ms: int
) -> list[Judgement]:
    """Return the judgements of a period, from the segments and from the change log after them.

    Errors:
        Unavailable
    """
    judgements, after = await asyncio.to_thread(_read_compacted, segments, app_id, since_ms)
    late = await read_uncompacted(stores.changes, app_id, after, KINDS)
    judgements += [_judgement(entry.user_key, entry.at_ms, entry.item) for entry in late]
    return [judgement for judgement in judgements if since_ms <= judgement.at_ms <= until_ms]


async def read_questions(
    stores: Stores, app_id: str, judgements: Iterable[Judgement]
) -> dict[str, StoredQuestion]:
    """Return the judged questions; if there are many, those with the most judgements.

    Errors:
        Unavailable
    """
    counts: defaultdict[str, int] = defaultdict(int)
    for judgement in judgements:
        counts[judgement.question_id] += 1
    counts.pop("", None)
    question_ids = sorted(counts, key=lambda question_id: (-counts[question_id], question_id))[:MOST_READ]
    recorded: dict[str, StoredQuestion] = {}
    for start in range(0, len(question_ids), _READ_AT_ONCE):
        some = question_ids[start : start + _READ_AT_ONCE]
        read = await asyncio.gather(*(stores.questions.read(app_id, question_id) for question_id in some))
        recorded |= {name: stored for name, stored in zip(some, read, strict=True) if stored is not None}
    return recorded


def _read_compacted(segments: SegmentStore, app_id: str, since_ms: int) -> tuple[list[Judgement], str]:
    """Return the compacted judgements, and the offset up to which interactions are compacted."""
    after = segments.offsets(app_id).get("interaction", "0")
    table = segments.load_interactions_limited_per_address(app_id, KINDS, since_ms)
    columns = (table[name].to_pylist() for name in ("reader", "at_ms", "json"))
    rows = zip(*columns, strict=True)
    return [_judgement(user_key, at_ms, orjson.loads(body)) for user_key, at_ms, body in rows], after


def build_feedback_report(
    judgements: Sequence[Judgement], questions: Mapping[str, StoredQuestion], *, top: int = 20
) -> FeedbackReport:
    """Return the counts of judgements by question.

    For each user and answer only the newest judgement counts; it may withdraw an earlier one.
    """
    newest: dict[tuple[str, str], Judgement] = {}
    for judgement in sorted(judgements, key=lambda entry: entry.at_ms):
        # The newest judgement replaces earlier ones. Unproven users of one address are one: ids are free to
        # invent.
        newest[judgement.origin or judgement.user_key, judgement.question_id] = judgement
    counted = [judgement for judgement in newest.values() if judgement.value not in _TAKEN_BACK]
    groups: defaultdict[str, list[Judgement]] = defaultdict(list)
    for judgement in counted:
        if judgement.question_id:
            recorded = questions.get(judgement.question_id)
            groups[judgement.question_id if recorded is None else _text(recorded).casefold()].append(
                judgement
            )
    lines = [_line(some, questions) for some in groups.values()]
    lines.sort(key=lambda line: (line.helpful - line.not_helpful, -line.not_helpful, line.question))
    helpful, not_helpful, other = _counts(counted)
    without = sum(not judgement.question_id for judgement in counted)
    return FeedbackReport(helpful, not_helpful, other, without, tuple(lines[:top]))


def _line(judgements: Sequence[Judgement], questions: Mapping[str, StoredQuestion]) -> QuestionFeedback:
    last = max(judgements, key=lambda judgement: judgement.at_ms)
    recorded = questions.get(last.question_id)
    cited = () if recorded is None else {passage.product_id for passage in recorded.answer.passages}
    return QuestionFeedback(
        "" if recorded is None else _text(recorded),
        *_counts(judgements),
        answers=len({judgement.question_id for judgement in judgements}),
        question_id=last.question_id,
        sources=len(cited),
    )


def _counts(judgements: Iterable[Judgement]) -> tuple[int, int, int]:
    values = [judgement.value for judgement in judgements]
    helpful = sum(value in _HELPFUL for value in values)
    not_helpful = sum(value in _NOT_HELPFUL for value in values)
    return helpful, not_helpful, len(values) - helpful - not_helpful


def _text(recorded: StoredQuestion) -> str:
    return recorded.answer.question or recorded.question.text


def _judgement(user_key: str, at_ms: int, item: Mapping[str, Any]) -> Judgement:
    value = " ".join(str(item.get("value") or "").split()).lower()
    return Judgement(user_key, at_ms, str(item.get("question_id") or ""), value, str(item.get(ORIGIN) or ""))
