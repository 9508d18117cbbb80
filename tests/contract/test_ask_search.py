"""Hybrid search and suggestions against their rows of the specification, down to the engine and the archive."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from cluster.records.engine import Engine
from deployments.api.resources import ask_search
from tests.contract.test_ask import Desk
from tests.fakes.corner_shop import upload
from tests.fakes.local_recommender import open_recommending_corner
from tests.fakes.request_handler import StillClock
from tests.fakes.small_archive import ARTICLES
from tests.fakes.stores.memory import memory_stores
from tests.suites.waiting import until

WATER = "treaty about the water of the river"
GERMAN = " Vertrag über das Wasser des Flusses"


@pytest.fixture
async def queue() -> AsyncIterator[Desk]:
    clock = StillClock()
    stores = memory_stores(clock)
    async with open_recommending_corner(clock, stores) as corner:
        await upload(stores, ARTICLES, app_id="shop")
        await stores.engines.put(Engine(app_id="shop", engine_id="default", created_at=0))
        await corner.asking.start()
        yield Desk(corner, corner.handler)


async def search(queue: Desk, body: dict[str, Any]) -> dict[str, Any]:
    answer = await queue.post("search", body)
    assert answer.status == 200, answer.body
    reply = answer.json()
    assert reply["message"] == "success"
    data: dict[str, Any] = reply["data"]
    return data


def ids(data: dict[str, Any]) -> list[str]:
    return [product["product_id"] for product in data["products"]]


async def test_a_search_finds_by_what_passages_say_and_asks(queue: Desk) -> None:
    data = await search(queue, {"q": WATER, "metadata": {"site": "s"}})
    assert ids(data)[0] == "river-treaty"
    first = data["products"][0]
    assert {"product_id", "title", "snippet", "authors", "url"} <= set(first)
    assert "description" not in first
    assert "<mark>" in first["snippet"]
    assert (data["start"], data["total"]) == (0, len(ids(data)))
    assert "facet_counts" not in data
    record = await queue.finished(data["question_id"])
    assert (record["question"], record["metadata"]) == (WATER, {"site": "s"})


async def test_no_question_is_generated_without_an_answer(queue: Desk) -> None:
    for answer in (False, 0, "0"):
        assert "question_id" not in await search(queue, {"q": WATER, "answer": answer})
    assert await queue.corner.stores.questions.count_waiting("shop") == 0


@pytest.mark.parametrize("most_ranked", [1_000, 3])
async def test_pages_follow_each_other_and_past_the_end_there_is_nothing(
    queue: Desk, monkeypatch: pytest.MonkeyPatch, most_ranked: int
) -> None:
    monkeypatch.setattr(ask_search, "MOST_RANKED", most_ranked)
    whole = await search(queue, {"q": "the river the mill the cup", "answer": False, "rows": 100})
    total = whole["total"]
    assert total == len(ids(whole)) > 3
    pages = [
        await search(queue, {"q": "the river the mill the cup", "answer": False, "rows": 2, "start": start})
        for start in range(0, total, 2)
    ]
    assert [record_id for page in pages for record_id in ids(page)] == ids(whole)
    beyond = await search(queue, {"q": "the river the mill the cup", "answer": False, "start": 500})
    assert (ids(beyond), beyond["total"], beyond["start"]) == ([], total, 500)


async def test_a_later_page_names_the_question_of_the_first(queue: Desk) -> None:
    first = await search(queue, {"q": WATER, "rows": 1})
    body = {"q": WATER, "rows": 1, "start": 1, "metadata": {"question_id": first["question_id"]}}
    assert (await search(queue, body))["question_id"] == first["question_id"]


async def test_filters_facets_exclusions_and_fields(queue: Desk) -> None:
    body = {"q": GERMAN, "answer": False, "fq": "language:de", "fl": ["language", "description"]}
    data = await search(queue, body)
    assert ids(data) == ["fluss-vertrag"]
    assert data["products"][0]["language"] == "de"
    assert "url" not in data["products"][0]
    assert "river-treaty" not in ids(
        await search(queue, {"q": WATER, "answer": False, "exclude": ["river-treaty"]})
    )
    assert ids(await search(queue, {"q": WATER, "answer": False, "type": "shoe"})) == []
    faceted = await search(queue, {"q": WATER + GERMAN, "answer": False, "facets": ["authors"]})
    counts = dict(faceted["facet_counts"]["facet_fields"]["authors"])
    assert counts["Ida Holm"] >= 1
    chosen = {"authors": {"terms": ["Mirela Sandoz"]}}
    narrowed = await search(
        queue, {"q": GERMAN, "answer": False, "facets": ["authors"], "facet_filters": chosen}
    )
    assert ids(narrowed) == ["fluss-vertrag"]


async def test_snippets_have_the_requested_length(queue: Desk) -> None:
    data = await search(queue, {"q": WATER, "answer": False, "snippet_max_chars": 30})
    plain = data["products"][0]["snippet"].replace("<mark>", "").replace("</mark>", "")
    assert len(plain) <= 30 + len("… ") + len(" …")
    assert (await search(queue, {"q": WATER, "answer": False, "snippet_max_chars": 0}))["products"][0][
        "snippet"
    ] == ""


async def test_results_are_sorted_by_date_on_request(queue: Desk) -> None:
    by_day = {article["product_id"]: article["published_at"] for article in ARTICLES}
    for order in ("published_at", [{"field": "published_at", "order": "desc"}]):
        body = {"q": "the river the mill the cup", "answer": False, "order_by": order, "rows": 50}
        product_ids = ids(await search(queue, body))
        assert len(product_ids) > 2
        assert [by_day[product_id] for product_id in product_ids] == sorted(
            (by_day[product_id] for product_id in product_ids), reverse=True
        )


@pytest.mark.parametrize(
    ("body", "place"),
    [
        ({}, ["body", "q"]),
        ({"q": ""}, ["body", "q"]),
        ({"q": "  "}, ["body", "q"]),
        ({"q": "x" * 100_000}, ["body", "q"]),
        ({"q": "x", "rows": -1}, ["body", "rows"]),
        ({"q": "x", "fq": "a:("}, ["body", "fq"]),
        ({"q": "x", "boost_fq": "a:("}, ["body", "boost_fq"]),
        ({"q": "x", "answer": "perhaps"}, ["body", "answer"]),
        ({"q": "x", "order_by": "price; drop"}, ["body", "order_by"]),
        ({"q": "x", "parent_question_id": "7"}, ["body", "parent_question_id"]),
    ],
)
async def test_a_bad_search_is_refused_in_detail(queue: Desk, body: dict[str, Any], place: list[str]) -> None:
    answer = await queue.post("search", body)
    assert answer.status == 422, answer.body
    assert answer.json()["detail"][0]["loc"][: len(place)] == place


async def test_an_app_without_an_engine_finds_nothing_and_answers_all_the_same(queue: Desk) -> None:
    answer = await queue.post("search", {"q": WATER}, app="other")
    assert answer.status == 200
    assert (answer.json()["data"]["products"], answer.json()["data"]["total"]) == ([], 0)


async def test_questions_many_ask_are_trending_and_those_of_few_are_not(queue: Desk) -> None:
    for visitor in ("a", "b", "c"):
        await queue.post_question("How high did the river rise?", anonymous_id=visitor)
    for _ in range(5):
        await queue.finished(await queue.post_question("What is my aunt's secret?", anonymous_id="a"))
    data = (await queue.post("trending_questions", {"rows": 3})).json()["data"]
    assert data["service_id"]
    assert data["related_questions"][0] == "How high did the river rise?"
    assert "What is my aunt's secret?" not in data["related_questions"]
    typed = (await queue.post("autocomplete", {"q": "how hi"})).json()["data"]
    assert typed["completions"][0] == "How high did the river rise?"
    inside = (await queue.post("query_suggestion", {"q": "river"})).json()["data"]
    assert inside["completions"][0] == "How high did the river rise?"
    assert (await queue.post("trending_questions", {"rows": 0})).json()["data"]["related_questions"] == []


async def test_questions_about_a_product_come_from_its_text(queue: Desk) -> None:
    data = (await queue.post("related_questions", {"product_id": "river-treaty", "rows": 2})).json()["data"]
    assert isinstance(data["related_questions"], list)
    assert len(data["related_questions"]) <= 2
    nothing = (await queue.post("related_questions", {"product_id": "unknown"})).json()["data"]
    assert nothing["related_questions"] == []
    assert (await queue.post("related_questions", {"product_id": 5})).status == 422


async def test_questions_many_ask_about_a_product_come_first(queue: Desk) -> None:
    for visitor in ("a", "b", "c"):
        await queue.finished(await queue.post_question(WATER, anonymous_id=visitor))
    await queue.finished(await queue.post_question("Which countries signed a treaty?", anonymous_id="a"))
    data = (await queue.post("related_questions", {"product_id": "river-treaty"})).json()["data"]
    assert data["related_questions"][0] == WATER
    assert "Which countries signed a treaty?" not in data["related_questions"], (
        "one reader's alone stays theirs"
    )
    other = (await queue.post("related_questions", {"product_id": "mill-closes"})).json()["data"]
    assert WATER not in other["related_questions"]


async def test_related_to_no_product_is_what_many_ask(queue: Desk) -> None:
    await queue.finished(await queue.post_question("How high did the river rise?"))
    trending = (await queue.post("trending_questions", {"rows": 3})).json()["data"]["related_questions"]
    for body in ({"rows": 3}, {"rows": 3, "product_id": None}):
        answer = await queue.post("related_questions", body)
        assert answer.status == 200
        assert answer.json()["data"]["related_questions"] == trending


async def test_what_is_typed_is_completed_field_by_field(queue: Desk) -> None:
    data = (await queue.post("search_autocomplete", {"q": "paper m"})).json()["data"]
    first = data["completions"]["title"][0]
    assert first["text"].startswith("Paper mill in Carrow")
    assert set(first) == {"text", "text_with_markups", "text_with_inverted_markups"}
    body = {"q": "paper m", "completion_fields": ["suggested_queries", "title", "title"]}
    named = (await queue.post("search_autocomplete", body)).json()["data"]["completions"]
    assert list(named) == ["suggested_queries", "title"]
    nobody = (await queue.post("search_autocomplete", body, app="other")).json()["data"]["completions"]
    assert nobody == {"suggested_queries": [], "title": []}
    titles = (await queue.post("autocomplete", {"q": "paper m"})).json()["data"]["completions"]
    assert any(text.startswith("Paper mill") for text in titles)


@pytest.mark.parametrize("path", ["query_suggestion", "autocomplete", "search_autocomplete"])
async def test_a_suggestion_needs_what_was_typed(queue: Desk, path: str) -> None:
    assert (await queue.post(path, {})).json()["detail"][0]["loc"] == ["body", "q"]
    for typed in ("", " ", "(((", "x" * 60_000, "\u202e"):
        assert (await queue.post(path, {"q": typed})).status == 200


async def test_a_narrow_filter_still_finds_what_is_far_down(queue: Desk) -> None:
    many = [
        {
            **ARTICLES[0],
            "product_id": f"river-{number}",
            "title": f"River treaty, part {number}",
            "brand": "many",
        }
        for number in range(300)
    ]
    await upload(queue.corner.stores, many, app_id="shop")

    async def are_indexed() -> bool:
        reply = await search(queue, {"q": WATER, "answer": False, "fq": "brand:many", "rows": 0})
        return bool(reply["total"] >= 100)

    await until(are_indexed)
    narrow = await search(queue, {"q": WATER, "answer": False, "fq": "product_id:fluss-vertrag"})
    assert ids(narrow) in ([], ["fluss-vertrag"])
    record = await queue.finished(
        await queue.post_question("What happened to the paper mill?", fq="product_id:mill-closes")
    )
    assert [source["product_id"] for source in record["sources"]] == ["mill-closes"]
    record = await queue.finished(await queue.post_question(WATER, fq="product_id:mill-closes"))
    named = record["sources"] + record["related_resources"]
    assert {product["product_id"] for product in named} <= {"mill-closes"}
