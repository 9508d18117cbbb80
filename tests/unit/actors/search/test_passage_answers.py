"""Question answering over a few pages: which are asked, which answer, in which order, and what is shown."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from actors.recommender.messages import Boost, UserQuery
from actors.recommender.recommender import Recommender
from actors.retrieval.messages import AnswerQuery, AnswerResult
from actors.serving import dispatch
from cluster.query.language.parser import parse
from cluster.query.language.tree import All
from tests.fakes.corner_shop import APP, NOW_MS, open_catalog, product_change

ENABLED = parse("enable_question_answering:true")
GUIDES: list[dict[str, Any]] = [
    {
        "product_id": "guide-soil", "title": "Soil guide", "brand": "Alder", "enable_question_answering": True,
        "html": "<h1>Mulch</h1><p>Mulch is a loose cover over soil.</p><p>Compost feeds the worms.</p>",
    },
    {
        "product_id": "guide-bulbs", "title": "Bulb guide", "brand": "Fern", "enable_question_answering": True,
        "html": "<p>Tulip bulbs are set about 15 cm deep, pointed end up.</p><p>Mulch keeps bulbs dry.</p>",
    },
    {"product_id": "secret", "title": "Mulch", "html": "<p>Mulch is what we sell in bags.</p>"},
    {"product_id": "empty", "title": "Mulch and what it is", "enable_question_answering": True},
]  # fmt: skip


@pytest.fixture
def guides() -> Recommender:
    return open_catalog(GUIDES, "1-0")


def ask(guides: Recommender, question: str, *, filter_: str = "", **more: Any) -> AnswerResult:
    settings = {
        name: more.pop(name) for name in ("html", "block", "correct", "least_boosted") if name in more
    }
    least = more.pop("least", 0.3)
    question_query = AnswerQuery(question, question, least, settings.pop("least_boosted", least), **settings)
    query = UserQuery(
        kind="question_answering", app_id=APP, engine_id="default", rows=5, dedupe=False, filter=ENABLED,
        question=question_query,
    )  # fmt: skip
    if filter_:
        query = replace(query, filter=All((ENABLED, parse(filter_))))
    result = dispatch.answer(guides, replace(query, **more), [], (), NOW_MS).answers
    assert result is not None
    return result


def ids(result: AnswerResult) -> list[str]:
    return [answer["product_id"] for answer in result.answers]


def test_the_answering_paragraph_is_returned_with_its_place(guides: Recommender) -> None:
    result = ask(guides, "What is mulch?")
    first = result.answers[0]
    assert first["product_id"] == "guide-soil"
    assert first["answer"]["text"] == "Mulch is a loose cover over soil."
    assert first["answer"]["css_selector"] == ":root > body:nth-child(2) > p:nth-child(2)"
    assert 0.5 < first["answer"]["probability"] <= 1
    assert set(first) == {"product_id", "answer"}
    assert set(first["answer"]) == {"text", "css_selector", "probability"}


def test_only_pages_that_allow_it_are_searched(guides: Recommender) -> None:
    assert "secret" not in ids(ask(guides, "mulch sell bags", least=0.0))
    assert "empty" not in ids(ask(guides, "What is mulch?", least=0.0))


def test_answers_reach_the_requested_probability(guides: Recommender) -> None:
    every, sure = ask(guides, "What is mulch?", least=0.0), ask(guides, "What is mulch?", least=0.999)
    assert every.total == 2
    assert (sure.total, list(sure.answers)) == (0, [])
    assert ask(guides, "What is mulch?", least=0.0, rows=1).total == 2


def test_a_typo_is_corrected_and_reported(guides: Recommender) -> None:
    result = ask(guides, "what is mulhc")
    assert result.answers[0]["answer"]["text"].startswith("Mulch is")
    assert (result.spelling.errors, result.spelling.corrected_text) == (True, "what is mulch")
    assert not ask(guides, "what is mulhc", correct=False).spelling.corrected


def test_filters_fields_html_and_block(guides: Recommender) -> None:
    result = ask(guides, "What is mulch?", filter_="brand:Fern", fields=("title",), html=True, block=True)
    [answer] = result.answers
    assert (answer["product_id"], answer["title"]) == ("guide-bulbs", "Bulb guide")
    assert answer["answer"]["html"] == "<p>Mulch keeps bulbs dry.</p>"
    block = answer["answer_block"]
    assert (block["relevant_children_slice"], block["title"]) == ([0, 2], "")
    assert block["answer_css_selector"] == ":scope > :nth-child(2)"


def test_boosts_lift_answers_that_are_probable_enough(guides: Recommender) -> None:
    boosts = (Boost(parse("brand:Fern"), name="fern"),)
    lifted = ask(guides, "What is mulch?", least=0.0, boosts=boosts)
    assert ids(lifted) == ["guide-bulbs", "guide-soil"]
    assert lifted.answers[0]["_boosted_rules"] == ["fern"]
    assert ids(ask(guides, "What is mulch?", least=0.0, least_boosted=1.0, boosts=boosts))[0] == "guide-soil"


def test_a_page_that_changed_answers_anew(guides: Recommender) -> None:
    ask(guides, "What is mulch?")
    guides.apply(product_change([{**GUIDES[0], "html": "<p>Mulch is bark, straw or leaves.</p>"}], "2-0"))
    assert ask(guides, "What is mulch?").answers[0]["answer"]["text"] == "Mulch is bark, straw or leaves."


@pytest.mark.parametrize("question", ["", " ", "?", "the of", "*", "\x00", "x" * 1_000, "🌷"])
def test_questions_that_say_nothing_have_no_answer(guides: Recommender, question: str) -> None:
    assert ask(guides, question, least=0.1).total == 0
