"""`related_ids` of products: what goes with a product, what is read beside an answer, what else could be asked."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from actors.answers.client import QuestionClient, open_question_client
from actors.archive.host import ArchiveHost
from actors.recommender.recommender import Recommender
from cluster.clock import SystemClock
from cluster.ids import new_question_id
from cluster.meter import SilentMeter
from cluster.records.question import Question
from cluster.store.stores import Stores
from tests.fakes.corner_shop import NOW_MS, PRODUCTS, open_shop, product_change, upload, withdraw
from tests.fakes.small_archive import ARTICLES
from tests.fakes.stores.memory import memory_stores
from tests.suites.waiting import until
from tests.unit.actors.recommender.test_recommender import ask

APP = "news"
QUESTION = "Who signed the treaty about the water of the river?"

NOISE = [
    {
        "product_id": f"noise-{number}", "type": "article", "title": f"Weather, part {number}",
        "html": f"<p>Little water stood in the river on day {number}.</p>",
    }
    for number in range(14)
]  # fmt: skip
"So much is found about the river that nothing else is."


def similar(shop: Recommender, product_id: str, **more: Any) -> list[str]:
    result = ask(shop, "product_to_products", anchors=(product_id,), rows=5, **more)
    return [str(product["product_id"]) for product in result.products]


def relate(shop: Recommender, product_id: str, *related: str, at: int = 1) -> None:
    record = next(product for product in PRODUCTS if product["product_id"] == product_id)
    shop.apply(product_change([{**record, "related_ids": list(related)}], f"{NOW_MS + at}-0"))


@pytest.mark.parametrize("named", ["product", "group"])
def test_products_that_a_product_names_as_related_come_up_beside_it(named: str) -> None:
    shop = open_shop()
    before = similar(shop, "draw-hoe")
    other = next(
        product for product in PRODUCTS
        if product["product_id"] not in (*before, "draw-hoe") and product.get("availability") != "OUT_OF_STOCK"
    )  # fmt: skip
    name = other["product_id"] if named == "product" else other.get("product_group_id") or other["product_id"]
    relate(shop, "draw-hoe", name, "gone", "draw-hoe")
    after = similar(shop, "draw-hoe")
    members = [
        product["product_id"]
        for product in PRODUCTS
        if name in (product["product_id"], product.get("product_group_id"))
    ]
    assert after[0] in members
    assert "draw-hoe" not in after
    relate(shop, "draw-hoe", at=2)
    assert similar(shop, "draw-hoe") == before


class Newsroom:
    """Stores, a small archive and a process that answers."""

    def __init__(self, stores: Stores, questions: QuestionClient) -> None:
        self.stores = stores
        self.questions = questions

    async def relate(self, product_id: str, *related: str) -> None:
        """Upload an article again, with related ones."""
        article = next(article for article in ARTICLES if article["product_id"] == product_id)
        await upload(self.stores, [{**article, "related_ids": list(related)}], app_id=APP)

    async def beside(self, **more: Any) -> list[str]:
        """Ask, and name the related resources of the answer; none while the article is being indexed again."""
        now_ms = SystemClock().now_ms()
        question = Question(
            question_id=new_question_id(), app_id=APP, text=QUESTION, asked_at=now_ms, deadline_at=now_ms + 60_000,
            **more,
        )  # fmt: skip
        await self.questions.submit(question)
        await self.questions.queue.wait_idle()
        record = json.loads(await self.stores.questions.shown(APP, question.question_id) or b"{}")
        if [source["product_id"] for source in record["sources"]] != ["river-treaty"]:
            return []
        return [related_resource["product_id"] for related_resource in record["related_resources"]]


@pytest.fixture
async def newsroom() -> AsyncIterator[Newsroom]:
    clock, stores = SystemClock(), memory_stores()
    await upload(stores, [*ARTICLES, *NOISE], app_id=APP)
    host = ArchiveHost(stores, None, None, clock, SilentMeter())
    questions = open_question_client(stores, host, clock, SilentMeter(), app_ids=lambda: (APP,))
    await questions.start()
    yield Newsroom(stores, questions)
    await questions.close()
    await host.close()


async def test_what_a_source_names_as_related_comes_first_beside_the_answer(newsroom: Newsroom) -> None:
    before = await newsroom.beside()
    assert before
    assert "marathon" not in before
    await newsroom.relate("river-treaty", "marathon", "river-treaty", "gone", "dam-vote")

    async def leads() -> bool:
        return (await newsroom.beside())[:2] == ["marathon", "dam-vote"]

    await until(leads)


async def test_related_products_must_pass_the_questions_filters(newsroom: Newsroom) -> None:
    await newsroom.relate("river-treaty", "marathon", "cup-final")

    async def leads(first: str, **more: Any) -> bool:
        return (await newsroom.beside(**more))[:1] == [first]

    await until(lambda: leads("marathon"))
    await until(lambda: leads("cup-final", fq="NOT product_id:marathon"))
    assert "marathon" not in await newsroom.beside(fq="NOT product_id:marathon")
    assert "cup-final" not in await newsroom.beside(exclude=("cup-final",))
    river = {"type": "article", "fq": "title:river OR product_id:river-treaty"}
    assert not {"marathon", "cup-final"} & set(await newsroom.beside(**river))
    await withdraw(newsroom.stores, ["marathon"], app_id=APP)
    await until(lambda: leads("cup-final"))


async def test_questions_about_a_product_go_on_with_its_related_ones(newsroom: Newsroom) -> None:
    fare = {
        "product_id": "fare", "type": "article", "title": "Fares", "html": "<p>A ticket costs 39 thalers.</p>",
    }  # fmt: skip
    await upload(newsroom.stores, [fare], app_id=APP)
    expected = "How much does a ticket cost?"
    before = await newsroom.questions.suggest_product_questions(APP, "river-treaty", 10)
    assert expected not in before
    await newsroom.relate("river-treaty", "fare", "gone")

    async def goes_on() -> bool:
        return await newsroom.questions.suggest_product_questions(APP, "river-treaty", 10) == [
            *before,
            expected,
        ]

    await until(goes_on)
