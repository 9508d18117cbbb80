"""Every endpoint that shows or cites products leaves one row in the log of answers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from cluster.records.apps import AppSettings
from cluster.records.archive.archive_client import ArchiveCall
from cluster.records.engine import Engine
from cluster.records.logged_query import pseudonym
from cluster.records.served_list import ServedAnswer
from deployments.api.http.served_log_writer import ServedLogWriter
from tests.contract.test_ask import Desk
from tests.fakes.asgi import call
from tests.fakes.corner_shop import upload
from tests.fakes.local_recommender import open_recommending_corner
from tests.fakes.request_handler import BROWSER, PLENTY, Corner, StillClock
from tests.fakes.small_archive import ARTICLES
from tests.fakes.stores.memory import memory_stores

WATER = "treaty about the water of the river"
PAGE = {
    "product_id": "guide", "title": "Trowel guide", "type": "guide", "enable_question_answering": True,
    "html": "<p>The steel trowel is short and strong.</p>",
}  # fmt: skip


class LoggedDesk(Desk):
    """A desk whose answers are logged."""

    def __init__(self, corner: Corner, app: Any, served_log: ServedLogWriter) -> None:
        super().__init__(corner, app)
        self.served_log = served_log


@pytest.fixture
async def queue() -> AsyncIterator[LoggedDesk]:
    clock = StillClock()
    stores = memory_stores(clock)
    served_log = ServedLogWriter(
        stores.served, clock, find_mode=lambda app_id: corner.keyring.served_log_of(app_id)
    )
    async with open_recommending_corner(clock, stores, served_log=served_log) as corner:
        await upload(stores, [*ARTICLES, PAGE], app_id="shop")
        await stores.engines.put(Engine(app_id="shop", engine_id="default", created_at=0))
        await corner.asking.start()
        yield LoggedDesk(corner, corner.handler, served_log)


async def post(queue: LoggedDesk, path: str, agent: str = BROWSER, **body: Any) -> dict[str, Any]:
    corner = queue.corner
    target = f"/v1/{path}?api_key={corner.publishable()}"
    answer = await call(corner.handler, "POST", target, headers={"User-Agent": agent}, json=body)
    assert answer.status == 200, answer.body
    data: dict[str, Any] = answer.json()["data"]
    return data


async def rows(queue: LoggedDesk) -> list[ServedAnswer]:
    await queue.served_log.write()
    return await queue.corner.stores.served.read_all("shop", "0")


async def test_a_question_leaves_a_row_with_its_cited_products(queue: LoggedDesk) -> None:
    question_id = await queue.post_question(anonymous_id="a-1")
    record = await queue.finished(question_id)
    await queue.corner.asking.queue.wait_idle()
    (row,) = await rows(queue)
    assert (row.endpoint, row.service_id) == ("ask_question", question_id)
    assert row.products == tuple(dict.fromkeys(source["product_id"] for source in record["sources"]))
    assert row.user == pseudonym(await queue.corner.stores.served.salt("shop"), "a:a-1")


async def test_searches_and_answers_of_pages_leave_rows_with_their_products(queue: LoggedDesk) -> None:
    search = await post(queue, "ask/search", q=WATER, answer=False)
    answers = await post(queue, "qa/question_answering", q="steel trowel strong", min_probability=0)
    first, second = await rows(queue)
    assert (first.endpoint, first.service_id) == ("ask_search", search["service_id"])
    assert first.products == tuple(product["product_id"] for product in search["products"])
    assert (second.endpoint, second.service_id) == ("question_answering", answers["service_id"])
    assert second.products == ("guide",)
    assert first.request_digest


async def test_a_completion_leaves_a_row_that_names_the_typist_until_the_compaction(
    queue: LoggedDesk,
) -> None:
    data = await post(queue, "search/autocomplete", q="riv", anonymous_id="a-1")
    await post(queue, "search/autocomplete", q="rive")
    first, second = await rows(queue)
    assert (first.endpoint, first.service_id, first.products) == ("autocomplete", data["service_id"], ())
    assert first.user.startswith(first.typist)
    assert first.typist not in ("", second.typist)
    assert second.user == ""


async def test_the_modes_of_an_app_hold_for_all_rows(queue: LoggedDesk) -> None:
    corner = queue.corner
    for mode, users in (("anonymous", [""] * 2), ("off", [])):
        await corner.open_app("shop", settings=AppSettings(limits=PLENTY, served_log=mode))
        question_id = await queue.post_question(anonymous_id="a-1")
        await queue.finished(question_id)
        await corner.asking.queue.wait_idle()
        await post(queue, "ask/search", q=WATER, answer=False, anonymous_id="a-1")
        queue.served_log.record_call("shop", CALL)
        logged = [row.user for row in await rows(queue) if row.endpoint != "archive_ask_archive"]
        await corner.stores.served.trim("shop", await corner.stores.served.newest_offset("shop"))
        assert logged == users


CALL = ArchiveCall(at=1, tool="ask_archive", client="c", client_name="C", articles=("p1", "p2"), took_ms=3.5)


async def test_a_call_of_an_agent_leaves_a_row_without_a_user(queue: LoggedDesk) -> None:
    queue.served_log.record_call("shop", CALL)
    queue.served_log.record_call("nobody", CALL)
    refused = ArchiveCall(at=1, tool="ask_archive", client="c", client_name="C", outcome="refused")
    queue.served_log.record_call("shop", refused)
    (row,) = await rows(queue)
    assert (row.endpoint, row.products, row.user, row.took_ms) == (
        "archive_ask_archive",
        ("p1", "p2"),
        "",
        3.5,
    )


async def test_robots_leave_no_row(queue: LoggedDesk) -> None:
    await queue.corner.open_app("shop", settings=AppSettings(limits=PLENTY, bot_rule="log"))
    data = await post(queue, "ask/questions", agent="Googlebot/2.1", question=WATER)
    await asyncio.wait_for(queue.finished(data["question_id"]), 30)
    await queue.corner.asking.queue.wait_idle()
    await post(queue, "ask/search", agent="Googlebot/2.1", q=WATER)
    assert await rows(queue) == []
