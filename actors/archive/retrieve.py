"""The hot path: find passages for a question. Scores by words and by meaning are scaled and added; then dates count.

    words     BM25 over all segments, with one rarity for all             the best 100
    meaning   nearest passages to the question's vector                   the best 100
    blend     each list scaled to 0..1, added by the weight of meaning
    dates     only when the question names some, or the query has a decay
    select    not too many passages of one article

Source:
    BM25 (k1 1.2, b 0.75); min-max blend of the best 100
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from itertools import islice
from typing import Any

import numpy as np

from actors.archive.candidates import (
    MAX_QUESTION_CHARS,
    CandidatePassages,
    embed_query,
    find_by_words,
    find_nearest,
    no_candidates,
    score_similarity,
)
from actors.archive.messages import ArchiveArticle, ArchiveQuery, ArchiveResult, Snippet
from actors.archive.passage_index import LibraryView, PassageIndex
from actors.archive.question_dates import HALF_LIFE_DAYS, DateRange, parse_date_range
from actors.archive.segment import UNKNOWN_DAY, PassageExcerpt
from actors.vectors.types import Rows, Scores
from cluster.access_tier import NOBODY

_RERANK_FACTOR = 1.25
"Factor on the weight of meaning where it only orders the matches by words: chosen on the public sets."
_MIN_SIMILARITY = 0.2
"Minimal cosine of a passage for a question without any known word."
# Added to scores of 0 to 1 for a passage within the dates of the question.
_IN_PERIOD = 0.35
# Share of a score that fades with age: the rest stays, however old the passage is.
_FRESH_SHARE = 0.5
_WHOLE_ARTICLE = 40_000
"Maximal length of an article that is returned whole."

_FEW_PASSAGES = 4_000
"Number of vectors that a full comparison handles fast."
_MANY_PASSAGES = 400_000
"Above this number, even sketches take a millisecond and more."
_NO_PERIOD = DateRange()
_WORD = re.compile(r"\S+")
_FIRST = np.ones(1, bool)


def search_passages(library: PassageIndex, query: ArchiveQuery, now_ms: int) -> ArchiveResult:
    """Find passages for a question.

    Cost:
        0.4 ms of 200,000 passages, 0.8 ms when words alone don't suffice: see tests/benchmarks/retrieval.py
    """
    view = library.view(query.tiers)
    corpus = f"{library.snapshot_version}:{library.version}"
    words = find_by_words(library, view, query)
    vector = embed_query(library, query)
    period = parse_date_range(query.question[:MAX_QUESTION_CHARS])
    is_dated = period != _NO_PERIOD or query.yearly_decay != 1.0
    if vector is not None and not is_dated:
        word_scores = _scale_min_max(words.scores, True, bend=library.score_exponent)
        if _is_enough(word_scores, library.vector_share, query.rows):
            meaning = CandidatePassages(words.rows, score_similarity(view, words.rows, vector))
            scores = _rerank_lexical(word_scores, meaning.scores, library.vector_share)
            snippets = _build_snippets(view, words.rows, scores, words, meaning, query)
            # Fewer: too many of the best belong to one article, so the whole search has to fill the list.
            if len(snippets) == query.rows:
                return ArchiveResult(snippets, corpus, words.coverage)
    meaning = no_candidates() if vector is None else find_nearest(view, query, vector)
    rows, scores = (
        _blend_scores(words, meaning, library, is_dated) if len(words.rows) else _select_similar(meaning)
    )
    if is_dated and len(rows):
        scores = _apply_dates(view, rows, scores, period, query.yearly_decay, now_ms)
    snippets = _build_snippets(view, rows, scores, words, meaning, query)
    return ArchiveResult(snippets, corpus, words.coverage)


def resize_snippets(
    library: PassageIndex, result: ArchiveResult, words: int, tiers: frozenset[str] = NOBODY
) -> ArchiveResult:
    """Return a result whose snippets have so many words of their article, from the beginning of their passages on."""
    snippets = []
    for snippet in result.snippets:
        document = library.find(snippet.product_id, tiers)
        if document is not None:
            matches = islice(_WORD.finditer(document.text, snippet.start), words)
            end = max((match.end() for match in matches), default=snippet.start)
            snippet = replace(snippet, text=document.text[snippet.start : end])
        snippets.append(snippet)
    return replace(result, snippets=tuple(snippets))


def is_fast(library: PassageIndex, tiers: frozenset[str] | None = NOBODY) -> bool:
    """Return whether a query of some tiers, or of all if None, takes less time than a switch to another thread."""
    view = library.view(tiers)
    if library.is_slow or view.passages > _MANY_PASSAGES:
        return False
    slow = sum(
        len(segment)
        for segment in view.segments
        if segment.vectors is None or not segment.vectors.is_sketched or not segment.is_uniform
    )
    return slow <= _FEW_PASSAGES


def get_article(
    library: PassageIndex, product_id: str, position: int, tiers: frozenset[str] = NOBODY
) -> ArchiveArticle | None:
    """Return the article of a passage; None when there is no such passage, or none that the tiers may read."""
    document = library.find(product_id, tiers)
    if document is None or not 0 <= position < len(document.passages):
        return None
    section = document.passages[position].section
    is_long = len(document.text) > _WHOLE_ARTICLE
    return ArchiveArticle(
        product_id=document.product_id,
        title=document.title,
        child_title=document.sections[section].title,
        authors=document.authors,
        published=document.published,
        url=document.url,
        content=document.section_text(section) if is_long else document.text,
        licence=document.licence,
        corrected_at=document.corrected_at,
        correction_note=document.correction_note,
        is_article=document.is_article,
    )


def _is_enough(word_scores: Scores, share: float, rows: int) -> bool:
    """Return whether enough candidates score more by words than any passage could by meaning alone."""
    return int(np.count_nonzero(np.float32(1 - share) * word_scores > share)) >= rows


def _rerank_lexical(word_scores: Scores, meant: Scores, share: float) -> Scores:
    """Order the matches by words by meaning too; this saves the vector search, most of a query's cost."""
    share *= _RERANK_FACTOR
    scores: Scores = np.float32(1 - share) * word_scores + np.float32(share) * _scale_min_max(
        meant, False, bend=1.0
    )
    return scores


def _blend_scores(
    words: CandidatePassages, meaning: CandidatePassages, library: PassageIndex, is_dated: bool
) -> tuple[Rows, Scores]:
    # with dates, a large distance of the last candidate must not separate two similar ones
    scale = _scale_by_max if is_dated else partial(_scale_min_max, bend=library.score_exponent)
    word_scores = scale(words.scores, True)
    meant = scale(meaning.scores, False)
    return _add_scores(words.rows, word_scores, meaning.rows, meant, library.vector_share)


def _select_similar(meaning: CandidatePassages) -> tuple[Rows, Scores]:
    """Return passages that match no word and are similar enough; scores are absolute, because the best may be bad."""
    near = meaning.scores >= _MIN_SIMILARITY
    return meaning.rows[near], meaning.scores[near]


def _add_scores(
    words: Rows, word_scores: Scores, near: Rows, meant: Scores, share: float
) -> tuple[Rows, Scores]:
    """Add two lists that are scaled to 0..1; a passage that is missing in a list counts as 0 in it."""
    rows = np.concatenate([words, near])
    scores = np.concatenate([np.float32(1 - share) * word_scores, np.float32(share) * meant])
    if not len(rows):
        return rows, scores
    order = np.argsort(rows, kind="stable")
    rows = rows[order]
    scores = scores[order]
    # A row stands there at most twice, once from each list.
    twice = rows[1:] == rows[:-1]
    scores[:-1][twice] += scores[1:][twice]
    firsts = np.concatenate([_FIRST, ~twice])
    return rows[firsts], scores[firsts]


def _scale_min_max(scores: Scores, are_words: bool, *, bend: float) -> Scores:
    """Scale scores from minimum to maximum; an exponent `bend` below 1 reduces the distances of the best scores."""
    if not len(scores):
        return scores
    if are_words and bend != 1.0:
        scores = np.power(scores, np.float32(bend))
    low = scores.min()
    high = scores.max()
    return (scores - low) / (high - low) if high > low else np.ones_like(scores)


def _scale_by_max(scores: Scores, are_words: bool) -> Scores:
    """Divide scores by the maximum."""
    most = scores.max(initial=0.0)
    return np.maximum(scores, 0) / most if most > 0 else np.zeros_like(scores)


def _apply_dates(
    view: LibraryView,
    rows: Rows,
    scores: Scores,
    period: DateRange,
    yearly_decay: float,
    now_ms: int,
) -> Scores:
    """Adjust scores by dates."""
    days = np.array([_day(view, row) for row in rows.tolist()], np.float64)
    has_date = days > UNKNOWN_DAY
    if yearly_decay != 1.0:
        # Dates ahead of now count as today: a negative age would raise the score.
        years: Any = np.where(has_date, np.maximum(now_ms / 86_400_000 - days, 0) / 365.25, 0)
        # A negative base with a fractional exponent is NaN, so the decay is bounded by 0.
        scores = scores * np.asarray(max(yearly_decay, 0.0) ** years, np.float32)
    if period.recent and has_date.any():
        # A passage without a date counts as very old.
        age: Any = np.where(has_date, days[has_date].max() - days, np.inf)
        # Age counts from the newest candidate, not from now: an archive that ended has recent ones, too.
        fresh = np.power(0.5, age / HALF_LIFE_DAYS)
        scores = scores * np.asarray(1 - _FRESH_SHARE + _FRESH_SHARE * fresh, np.float32)
    if period.first != UNKNOWN_DAY:
        inside = (has_date & (days >= period.first) & (days <= period.last)).astype(np.float32)
        # Divided again, so that dated scores stay within 0 to 1.
        scores = np.asarray((scores + _IN_PERIOD * inside) / (1 + _IN_PERIOD), np.float32)
    return np.asarray(scores, np.float32)


def _day(view: LibraryView, row: int) -> int:
    at = bisect_right(view.offsets, row) - 1
    frame = view.segments[at].frame
    return int(frame.days[frame.owner[row - view.offsets[at]]])


def _build_snippets(
    view: LibraryView,
    rows: Rows,
    scores: Scores,
    words: CandidatePassages,
    meaning: CandidatePassages,
    query: ArchiveQuery,
) -> tuple[Snippet, ...]:
    """Return the snippets, best first, each with its scores by words and by meaning."""
    order = np.argsort(-scores, kind="stable")
    lexical = dict(zip(words.rows.tolist(), words.scores.tolist(), strict=True))
    cosine = dict(zip(meaning.rows.tolist(), meaning.scores.tolist(), strict=True))
    return tuple(
        _build_snippet(excerpt, min(max(score, 0.0), 1.0), lexical.get(row, 0.0), cosine.get(row, 0.0))
        for row, score, excerpt in _select_passages(view, rows[order], scores[order], query)
    )


def _select_passages(
    view: LibraryView, rows: Rows, scores: Scores, query: ArchiveQuery
) -> Iterator[tuple[int, float, PassageExcerpt]]:
    """Select the best passages, not too many of one article."""
    taken = dict.fromkeys(query.exclude, 1 << 30)
    most = query.per_product or 1 << 20
    count = 0
    for row, score in zip(rows.tolist(), scores.tolist(), strict=True):
        if count >= query.rows:
            return
        at = bisect_right(view.offsets, row) - 1
        excerpt = view.segments[at].excerpt(row - view.offsets[at])
        before = taken.get(excerpt.product_id, 0)
        if before < most:
            taken[excerpt.product_id] = before + 1
            count += 1
            yield row, score, excerpt


def _build_snippet(excerpt: PassageExcerpt, score: float, lexical: float, meaning: float) -> Snippet:
    product_id, position, title, child_title, authors, published, url, text, licence, child_id, start = (
        excerpt
    )
    facts = round(score, 6), licence, child_id, start, lexical, meaning
    return Snippet(product_id, position, title, child_title, authors, published, url, text, *facts)
