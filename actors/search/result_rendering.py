"""The records of a search result, and its spelling."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any
from unicodedata import combining

from actors.language.folding import fold_text
from actors.recommender.messages import UserQuery
from actors.recommender.ranking.score import normalize_scores
from actors.recommender.rerank.rerank import RankedItem
from actors.recommender.state.catalog import Catalog
from actors.retrieval.lexical.messages import Correction
from actors.retrieval.messages import SearchQuery, SpellingResult
from actors.search.retrieve import SearchHits
from cluster.query.field_projection import Projection

_LEAST_SHOWN = 1e-6
# Letters that two forms of a word share at least: below that, prefixes are chance ("car", "card").
_SHORTEST_SHARED = 4


def render_records(
    placed: Sequence[RankedItem],
    hits: SearchHits,
    scores: Mapping[int, tuple[float, float, float]],
    query: UserQuery,
    search: SearchQuery,
    catalog: Catalog,
) -> list[dict[str, Any]]:
    """Build result records: the fields of `fl`, the scores, and the requested facts on words.

    `scores` has relevance, personal score and final score of each row.
    """
    projection = Projection.of(query.fields) if query.fields else None
    rows = [item.row for item in placed]
    missing = hits.missing(rows) if search.partial else []
    matched = hits.matched(rows) if search.matched_fields else []
    marks = TermHighlighter(hits.used)
    personal_scores = normalize_scores([scores[row][1] for row in rows])
    results = []
    for at, item in enumerate(placed):
        record = catalog.record(item.row)
        if not record:
            continue
        result: dict[str, Any] = projection(record) if projection else {"product_id": record["product_id"]}
        relevance = scores[item.row][0]
        # Above 0 in six digits: 0 would look like a product that was not found.
        result["_search_score"] = round(max(relevance, _LEAST_SHOWN), 6)
        result["_personalization_score"] = personal_scores[at]
        result["_boosted"] = item.boosted
        if item.rules:
            result["_boosted_rules"] = list(item.rules)
        if search.partial:
            result["_missing_keywords"] = list(missing[at])
        if search.matched_fields:
            result["_matched_fields"] = list(matched[at])
        if isinstance(result.get("title"), str) and hits.used:
            result["_title_with_markups"] = marks.highlight(result["title"])
        results.append(result)
    return results


class TermHighlighter:
    """Marks the words of a query, in any form; each different word is compared once."""

    def __init__(self, sought: str) -> None:
        self._sought = set(fold_text(sought).split())
        self._marked: dict[str, bool] = {}

    def highlight(self, text: str) -> str:
        """Return a text as HTML with `<mark>` around words of the query."""
        pieces: list[str] = []
        at = 0
        for begin, end in _words_in(text):
            # Titles come from uploads: everything but our own marks is escaped.
            pieces.append(escape(text[at:begin]))
            piece = escape(text[begin:end])
            pieces.append(f"<mark>{piece}</mark>" if self._is_sought(text[begin:end]) else piece)
            at = end
        return "".join([*pieces, escape(text[at:])])

    def _is_sought(self, word: str) -> bool:
        if word not in self._marked:
            self._marked[word] = _is_sought(fold_text(word), self._sought)
        return self._marked[word]


def build_spelling_result(
    original: str, corrections: Sequence[Correction], *, correct: bool
) -> SpellingResult:
    """Build the spelling of a result: wrong words and their corrections."""
    wrong = sorted(
        (correction for correction in corrections if correction.suggestions),
        key=lambda correction: correction.start,
    )
    corrected = _apply_suggestions(original, wrong)
    return SpellingResult(
        errors=bool(wrong),
        corrected=bool(wrong) and correct,
        original_text=original,
        original_marked=_highlight(original, wrong, suggested=False),
        corrected_text=corrected,
        corrected_marked=_highlight(original, wrong, suggested=True),
    )


def _apply_suggestions(text: str, wrong: Sequence[Correction]) -> str:
    pieces = []
    at = 0
    for correction in wrong:
        pieces += [text[at : correction.start], correction.suggestions[0]]
        at = correction.end
    return "".join([*pieces, text[at:]])


def _highlight(text: str, wrong: Sequence[Correction], *, suggested: bool) -> str:
    pieces = []
    at = 0
    for correction in wrong:
        word = correction.suggestions[0] if suggested else text[correction.start : correction.end]
        pieces += [escape(text[at : correction.start]), f"<mark>{escape(word)}</mark>"]
        at = correction.end
    return "".join([*pieces, escape(text[at:])])


def _words_in(text: str) -> list[tuple[int, int]]:
    """Return where the words of a text begin and end."""
    stretches: list[tuple[int, int]] = []
    begin = -1
    for at, char in enumerate(text):
        if char.isalnum():
            begin = at if begin < 0 else begin
        elif begin >= 0 and char not in "'’" and not combining(char):
            stretches.append((begin, at))
            begin = -1
    return [*stretches, (begin, len(text))] if begin >= 0 else stretches


def _is_sought(word: str, sought: set[str]) -> bool:
    """Return whether a word is one of the query's, or another form: one is a prefix of the other and
    hardly shorter.
    """
    if word in sought:
        return True
    return any(
        min(len(word), len(other)) >= _SHORTEST_SHARED
        and abs(len(word) - len(other)) <= 2
        and (word.startswith(other) or other.startswith(word))
        for other in sought
    )
