"""Answers from product pages: find pages by words, score their paragraphs, return the best of each.

    allowed ──▶ find products ──▶ paragraphs of the best ──▶ score ──▶ least probability ──▶ boosts ──▶ page

Only products with `enable_question_answering` are searched (part of the query's filter); one answer for each product.
Locked products have no answers, whoever asks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

import numpy as np

from actors.recommender.messages import RecommendationResult, UserQuery
from actors.recommender.rerank.exploration import dithering_seed
from actors.recommender.rerank.rerank import RankedItem, rerank
from actors.recommender.state.catalog import Catalog
from actors.recommender.state.engine_state import EngineState
from actors.retrieval.lexical.messages import TextHits, TextQuery
from actors.retrieval.messages import AnswerQuery, AnswerResult
from actors.retrieval.paragraphs.paragraph_renderer import render_paragraph
from actors.retrieval.paragraphs.paragraph_scorer import AnalyzedPageCache, score_paragraphs
from actors.search.result_rendering import build_spelling_result
from actors.search.retrieve import filter_products
from cluster.access_tier import access_of
from cluster.query.field_projection import Projection

MOST_PAGES = 40
"Products whose pages are read for one question."
_MOST_RECORDS = 400
"Products that are looked at for one question, with the locked ones: a record costs some microseconds to parse."


@dataclass(frozen=True, slots=True)
class _Answer:
    row: int
    number: int
    text: str
    probability: float


def answer_question(query: UserQuery, state: EngineState, now_ms: int) -> RecommendationResult:
    """Answer `question_answering`."""
    catalog = state.catalog
    question = query.question or AnswerQuery("", "", 0.0, 0.0)
    text_query = TextQuery(question.text, query.language, partial=True, correct=question.correct)
    hits = state.texts.find(text_query, filter_products(query, catalog), now_ms)
    best = [
        answer
        for answer in _score_pages(state.pages, catalog, question, hits)
        if answer.probability >= question.min_probability
    ]
    by_row = {answer.row: answer for answer in best}
    projection = Projection.of(query.fields) if query.fields else None
    shown = [
        _render_answer(by_row[item.row], item, question, catalog, projection)
        for item in _rerank_answers(query, catalog, question, best, now_ms)[
            query.start : query.start + query.rows
        ]
    ]
    spelling = build_spelling_result(question.original, hits.corrections, correct=question.correct)
    return RecommendationResult(
        answers=AnswerResult(len(best), shown, spelling), served_by="question_answering"
    )


def _score_pages(
    pages: AnalyzedPageCache, catalog: Catalog, question: AnswerQuery, hits: TextHits
) -> list[_Answer]:
    """Score the paragraphs of the best pages; the best of each page, most probable first."""
    records = ((int(row), catalog.record(int(row))) for row in hits.rows[:_MOST_RECORDS])
    readable = ((row, record) for row, record in records if not access_of(record))
    read = [(row, pages.get(row, record)) for row, record in islice(readable, MOST_PAGES)]
    languages = list(dict.fromkeys(page.language for _, page in read)) or ["en"]
    text = hits.used or question.text
    words = pages.analyzers.query_terms(text, languages)
    pool = [analyzed for _, page in read for analyzed in page.analyzed]
    values = np.array(score_paragraphs(text, words, pool))
    best: list[_Answer] = []
    begin = 0
    for row, page in read:
        page_values = values[begin : begin + len(page.analyzed)]
        begin += len(page.analyzed)
        if len(page_values):
            at = int(page_values.argmax())
            best.append(
                _Answer(row, page.paragraphs[at].number, page.paragraphs[at].text, float(page_values[at]))
            )
    # among equals the page with the better lexical score comes first
    return sorted(best, key=lambda answer: -round(answer.probability, 4))


def _rerank_answers(
    query: UserQuery, catalog: Catalog, question: AnswerQuery, best: Sequence[_Answer], now_ms: int
) -> list[RankedItem]:
    """Boost answers that are probable enough; the others follow in their order."""
    ready = [answer.row for answer in best if answer.probability >= question.min_boosted_probability]
    rest = [answer.row for answer in best if answer.probability < question.min_boosted_probability]
    plain = replace(query, boosts=(), boost_circles=())
    seed = dithering_seed(query, now_ms)
    first = rerank(ready, query, catalog, start=0, rows=len(ready), seed=seed)
    return [*first, *rerank(rest, plain, catalog, start=0, rows=len(rest), seed=seed)]


def _render_answer(
    scored: _Answer, item: RankedItem, question: AnswerQuery, catalog: Catalog, projection: Projection | None
) -> dict[str, Any]:
    record = catalog.record(scored.row)
    place = render_paragraph(
        str(record.get("html") or ""), scored.number, html=question.html, around=question.block
    )
    assert place is not None
    answer: dict[str, Any] = {
        "text": scored.text,
        "css_selector": place.css_selector,
        "probability": round(scored.probability, 4),
    }
    if question.html:
        answer["html"] = place.html
    result = dict(projection(record)) if projection else {"product_id": record["product_id"]}
    result["answer"] = answer
    if place.around is not None:
        result["answer_block"] = {
            "html": place.around.html,
            "css_selector": place.around.css_selector,
            "relevant_children_slice": list(place.around.relevant),
            "answer_css_selector": place.around.answer_css_selector,
            "title": place.around.title,
        }
    if item.boosted or item.rules:
        result["_boosted"] = item.boosted
        if item.rules:
            result["_boosted_rules"] = list(item.rules)
    return result
