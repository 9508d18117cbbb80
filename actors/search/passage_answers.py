"""Answers out of the pages of products: find pages by their words, judge their paragraphs, show the best of each.

    allowed ──▶ find products ──▶ paragraphs of the best ──▶ judge ──▶ least probability ──▶ boosts ──▶ page

Only products that say so (`enable_question_answering`, part of the query's filter) are asked; one answer a product.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from actors.recommender.messages import RecommendationResult
from actors.recommender.ranking.query_context import Request
from actors.recommender.rerank.rerank import Placed, arrange
from actors.recommender.state.catalog import Catalog
from actors.retrieval.answer_messages import AnswerQuery, AnswersFound
from actors.retrieval.lexical.text_query import TextAsk, TextFound
from actors.retrieval.paragraphs.paragraph_renderer import show
from actors.retrieval.paragraphs.paragraph_scorer import judged
from actors.search.result_records import spelling_of
from actors.search.retrieve import allowed_by
from cluster.query.fields import Projection

MOST_PAGES = 40
"Products whose pages are read for one question."


@dataclass(frozen=True, slots=True)
class _Answer:
    row: int
    number: int
    text: str
    probability: float


def answer(request: Request) -> RecommendationResult:
    """Answer `question_answering`."""
    query, catalog = request.query, request.catalog
    asked = query.question or AnswerQuery("", "", 0.0, 0.0)
    ask = TextAsk(asked.text, query.language, partial=True, correct=asked.correct)
    found = request.holdings.texts.find(ask, allowed_by(request), request.now_ms)
    best = [one for one in _answers(request, asked, found) if one.probability >= asked.least]
    by_row = {one.row: one for one in best}
    projection = Projection.of(query.fields) if query.fields else None
    shown = [
        _shown(by_row[item.row], item, asked, catalog, projection)
        for item in _arranged(request, asked, best)[query.start : query.start + query.rows]
    ]
    spelling = spelling_of(asked.original, found.corrections, correct=asked.correct)
    return RecommendationResult(
        answers=AnswersFound(len(best), shown, spelling), served_by="question_answering"
    )


def _answers(request: Request, asked: AnswerQuery, found: TextFound) -> list[_Answer]:
    """Judge the paragraphs of the best pages; the best of each page, most probable first."""
    catalog, pages = request.catalog, request.holdings.pages
    rows = [int(row) for row in found.rows[:MOST_PAGES]]
    read = [(row, pages.of(row, catalog.record(row))) for row in rows]
    languages = list(dict.fromkeys(page.language for _, page in read)) or ["en"]
    text = found.used or asked.text
    words = pages.analyzers.question(text, languages)
    pool = [weighed for _, page in read for weighed in page.weighed]
    values = np.array(judged(text, words, pool))
    best: list[_Answer] = []
    begin = 0
    for row, page in read:
        own = values[begin : begin + len(page.weighed)]
        begin += len(page.weighed)
        if len(own):
            at = int(own.argmax())
            best.append(_Answer(row, page.paragraphs[at].number, page.paragraphs[at].text, float(own[at])))
    # of equally probable ones the page that fits better as a whole
    return sorted(best, key=lambda one: -round(one.probability, 4))


def _arranged(request: Request, asked: AnswerQuery, best: Sequence[_Answer]) -> list[Placed]:
    """Boost those that are probable enough; the others follow as they are."""
    query, catalog = request.query, request.catalog
    ready = [one.row for one in best if one.probability >= asked.least_boosted]
    rest = [one.row for one in best if one.probability < asked.least_boosted]
    plain = replace(query, boosts=(), boost_circles=())
    first = arrange(ready, query, catalog, start=0, rows=len(ready), seed=request.seed)
    return [*first, *arrange(rest, plain, catalog, start=0, rows=len(rest), seed=request.seed)]


def _shown(
    one: _Answer, item: Placed, asked: AnswerQuery, catalog: Catalog, projection: Projection | None
) -> dict[str, Any]:
    record = catalog.record(one.row)
    place = show(str(record.get("html") or ""), one.number, html=asked.html, around=asked.block)
    assert place is not None
    told: dict[str, Any] = {
        "text": one.text,
        "css_selector": place.css_selector,
        "probability": round(one.probability, 4),
    }
    if asked.html:
        told["html"] = place.html
    result = dict(projection(record)) if projection else {"product_id": record["product_id"]}
    result["answer"] = told
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
