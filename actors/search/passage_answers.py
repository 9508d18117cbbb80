"""Answers from product pages: find pages by words, score their paragraphs, return the best of each.

    allowed ──▶ find products ──▶ paragraphs of the best ──▶ score ──▶ least probability ──▶ boosts ──▶ page

Only products with `enable_question_answering` are searched (part of the query's filter); one answer for each product.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from actors.recommender.messages import RecommendationResult
from actors.recommender.ranking.query_context import QueryContext
from actors.recommender.rerank.exploration import dithering_seed
from actors.recommender.rerank.rerank import RankedItem, rerank
from actors.recommender.state.catalog import Catalog
from actors.retrieval.lexical.text_query import TextHits, TextQuery
from actors.retrieval.messages import AnswerQuery, AnswerResult
from actors.retrieval.paragraphs.paragraph_renderer import render_paragraph
from actors.retrieval.paragraphs.paragraph_scorer import score_paragraphs
from actors.search.result_records import build_spelling_result
from actors.search.retrieve import filter_products
from cluster.query.fields import Projection

MOST_PAGES = 40
"Products whose pages are read for one question."


@dataclass(frozen=True, slots=True)
class _Answer:
    row: int
    number: int
    text: str
    probability: float


def answer_question(request: QueryContext) -> RecommendationResult:
    """Answer `question_answering`."""
    query, catalog = request.query, request.catalog
    asked = query.question or AnswerQuery("", "", 0.0, 0.0)
    ask = TextQuery(asked.text, query.language, partial=True, correct=asked.correct)
    found = request.engine_state.texts.find(ask, filter_products(request), request.now_ms)
    best = [one for one in _score_pages(request, asked, found) if one.probability >= asked.min_probability]
    by_row = {one.row: one for one in best}
    projection = Projection.of(query.fields) if query.fields else None
    shown = [
        _render_answer(by_row[item.row], item, asked, catalog, projection)
        for item in _rerank_answers(request, asked, best)[query.start : query.start + query.rows]
    ]
    spelling = build_spelling_result(asked.original, found.corrections, correct=asked.correct)
    return RecommendationResult(
        answers=AnswerResult(len(best), shown, spelling), served_by="question_answering"
    )


def _score_pages(request: QueryContext, asked: AnswerQuery, found: TextHits) -> list[_Answer]:
    """Score the paragraphs of the best pages; the best of each page, most probable first."""
    catalog, pages = request.catalog, request.engine_state.pages
    rows = [int(row) for row in found.rows[:MOST_PAGES]]
    read = [(row, pages.get(row, catalog.record(row))) for row in rows]
    languages = list(dict.fromkeys(page.language for _, page in read)) or ["en"]
    text = found.used or asked.text
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
    return sorted(best, key=lambda one: -round(one.probability, 4))


def _rerank_answers(request: QueryContext, asked: AnswerQuery, best: Sequence[_Answer]) -> list[RankedItem]:
    """Boost answers that are probable enough; the others follow in their order."""
    query, catalog = request.query, request.catalog
    ready = [one.row for one in best if one.probability >= asked.min_boosted_probability]
    rest = [one.row for one in best if one.probability < asked.min_boosted_probability]
    plain = replace(query, boosts=(), boost_circles=())
    first = rerank(
        ready, query, catalog, start=0, rows=len(ready), seed=dithering_seed(query, request.now_ms)
    )
    return [
        *first,
        *rerank(rest, plain, catalog, start=0, rows=len(rest), seed=dithering_seed(query, request.now_ms)),
    ]


def _render_answer(
    one: _Answer, item: RankedItem, asked: AnswerQuery, catalog: Catalog, projection: Projection | None
) -> dict[str, Any]:
    record = catalog.record(one.row)
    place = render_paragraph(str(record.get("html") or ""), one.number, html=asked.html, around=asked.block)
    assert place is not None
    answer: dict[str, Any] = {
        "text": one.text,
        "css_selector": place.css_selector,
        "probability": round(one.probability, 4),
    }
    if asked.html:
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
