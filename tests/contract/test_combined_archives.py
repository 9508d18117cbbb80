"""One search over several archives of an owner: sources are named, rights stay, a lost archive loses only itself."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
from starlette.applications import Starlette

from actors.archive.messages import ArchiveArticle, ArchiveQuery, ArchiveResult, Citation, CitationState
from cluster.access_tier import NOBODY
from cluster.crypto import Vault
from cluster.errors import Unavailable
from cluster.records.apps import AppSettings
from cluster.records.archive.archive_terms import ArchiveTerms
from cluster.records.archive.article_revision import ArticleRevision
from cluster.records.archive.named_archive import NamedArchive
from deployments.archive.archive_config import ArchiveConfig
from deployments.archive.services import build_archive_routes, open_archive
from tests.contract.test_named_archives import Apps
from tests.fakes.archive import ORIGIN, ArchiveCorner, SmallArchive
from tests.fakes.request_handler import MASTER, StillClock
from tests.fakes.stores.memory import memory_stores

APPS = ("sports", "wine")


def article(product_id: str, title: str, content: str, licence: str = "") -> ArchiveArticle:
    return ArchiveArticle(
        product_id, title, "", (), "2026-01-01", f"https://{product_id}.example.com/", content, licence
    )


@dataclass
class ArchivesByApp:
    """A client of several small archives."""

    archives: dict[str, SmallArchive] = field(default_factory=dict)

    async def ask(self, query: ArchiveQuery) -> ArchiveResult:
        return await self.archives[query.app_id].ask(query)

    async def article(
        self, app_id: str, product_id: str, position: int, tiers: frozenset[str] = NOBODY
    ) -> ArchiveArticle | None:
        return await self.archives[app_id].article(app_id, product_id, position, tiers)

    async def check(
        self, app_id: str, citations: Sequence[Citation], tiers: frozenset[str] = NOBODY
    ) -> tuple[CitationState, ...]:
        return await self.archives[app_id].check(app_id, citations, tiers)

    def locked_accesses(self, app_id: str) -> frozenset[str] | None:
        return self.archives[app_id].locked_accesses(app_id)

    async def get_article_revisions(self, app_id: str) -> Mapping[str, ArticleRevision]:
        return await self.archives[app_id].get_article_revisions(app_id)


@dataclass
class Combination:
    """The archive `sports`, which includes `wine`."""

    corner: ArchiveCorner
    apps: Apps
    archives: dict[str, SmallArchive]

    async def call(self, tool: str, app_id: str = "sports", **arguments: Any) -> dict[str, Any]:
        """Call a tool as a signed-in account; return the whole reply."""
        token = self.corner.token(resource=f"{ORIGIN}/mcp/{app_id}")
        params = {"name": tool, "arguments": arguments}
        message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
        answer = await self.corner.post(json.dumps(message).encode(), token=token, target=f"/mcp/{app_id}")
        reply: dict[str, Any] = answer.json()
        return reply

    async def result(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """Call a tool of `sports`; return its structured result."""
        reply = await self.call(tool, **arguments)
        content: dict[str, Any] = reply["result"]["structuredContent"]
        return content


@pytest.fixture
async def both() -> AsyncIterator[Combination]:
    clock = StillClock()
    stores = memory_stores(clock)
    sports = {
        "1": article("1", "Final of the cup", "The final of the cup was in Riga."),
        "2": article("2", "Stadium", "A stadium with a bar for wine."),
    }
    wine = {
        "1": article("1", "Grapes", "Wine of red grapes was rare in Riga.", "CC BY 4.0"),
        "3": article("3", "Cellar", "The cellar keeps wine of red grapes cool."),
    }
    archives = {"sports": SmallArchive(sports), "wine": SmallArchive(wine)}
    named = {
        "sports": NamedArchive(title="Sports", includes=("wine",), connectors=True, members_only=False),
        "wine": NamedArchive(
            title="Wine", licence="CC BY-SA 4.0", citation="Name the vineyard.", members_only=False
        ),
    }
    apps = Apps(named)
    vault = Vault(MASTER)
    client = ArchivesByApp(archives)
    services = open_archive(stores, vault, client, clock, ArchiveConfig(public_url=ORIGIN), apps)
    corner = ArchiveCorner(
        stores, clock, vault, archives["sports"], services, Starlette(routes=build_archive_routes(services))
    )
    await services.start()
    yield Combination(corner, apps, archives)
    await services.close()


async def test_passages_of_both_are_ranked_together_and_name_their_archive(both: Combination) -> None:
    document = await both.result("ask_archive", question="wine of red grapes")
    results = [(result["archive"], result["product_id"]) for result in document["results"]]
    assert results[:2] == [("Wine", "1"), ("Wine", "3")] or results[:2] == [("Wine", "3"), ("Wine", "1")]
    assert ("Sports", "2") in results
    scores = [result["score"] for result in document["results"]]
    assert scores == sorted(scores, reverse=True)
    assert "archives_without_answer" not in document
    both.apps.archives["sports"] = both.apps.archives["sports"].model_copy(
        update={"includes": ("wine", "wine")}
    )
    assert await both.result("ask_archive", question="wine of red grapes") == document


async def test_an_article_is_cited_with_its_source_and_the_terms_of_its_archive(
    both: Combination,
) -> None:
    results = (await both.result("ask_archive", question="red grapes cellar"))["results"]
    pair = next(result for result in results if (result["archive"], result["product_id"]) == ("Wine", "3"))
    read = await both.result("get_archive_article", product_id="3", offset=pair["offset"])
    assert read["archive"] == "Wine"
    assert read["citation_format"] == "[Cellar (Wine)](https://3.example.com/)"
    assert "Attribution-ShareAlike 4.0" in read["citation_instruction"]
    assert "Name the vineyard." in read["citation_instruction"]
    links = (await both.result("search", query="red grapes cellar"))["results"]
    link = next(link for link in links if link["title"] == "Cellar (Wine)")
    fetched = await both.result("fetch", id=link["id"])
    assert fetched["metadata"]["archive"] == "Wine"
    assert fetched["metadata"]["citation_format"] == read["citation_format"]


async def test_a_passage_of_an_included_archive_names_the_terms_of_its_archive(both: Combination) -> None:
    both.apps.terms = {
        "sports": {"": ArchiveTerms(permits=("all",))},
        "wine": {"": ArchiveTerms(prohibits=("all",))},
    }
    document = await both.result("ask_archive", question="wine of red grapes in Riga")
    named = {result["archive"]: result.get("license_url") for result in document["results"]}
    assert named == {"Sports": None, "Wine": f"{ORIGIN}/mcp/wine/license.xml"}
    assert document["license_url"] == f"{ORIGIN}/mcp/sports/license.xml"
    preferences = {result["archive"]: result.get("content_usage") for result in document["results"]}
    assert preferences["Wine"] == "train-ai=n, search=n"


async def test_equal_ids_of_two_archives_stay_apart(both: Combination) -> None:
    results = (await both.result("ask_archive", question="Riga"))["results"]
    titles = {result["archive"]: result["offset"] for result in results if result["product_id"] == "1"}
    assert set(titles) == {"Sports", "Wine"}
    for title, offset in titles.items():
        read = await both.result("get_archive_article", product_id="1", offset=offset)
        assert (read["archive"], "grapes" in read["content"]) == (title, title == "Wine")


async def test_an_offset_of_an_included_archive_is_worth_nothing_there(both: Combination) -> None:
    results = (await both.result("ask_archive", question="red grapes"))["results"]
    pair = {"product_id": results[0]["product_id"], "offset": results[0]["offset"]}
    both.apps.archives["sports"] = both.apps.archives["sports"].model_copy(update={"includes": ()})
    refused = await both.call("get_archive_article", **pair)
    assert "were not returned by ask_archive" in refused["error"]["message"]


async def test_locked_articles_of_an_included_archive_stay_locked(both: Combination) -> None:
    both.archives["wine"].access["3"] = "subscriber"
    results = (await both.result("ask_archive", question="cellar keeps wine cool"))["results"]
    assert ("Wine", "3") not in [(result["archive"], result["product_id"]) for result in results]
    assert both.archives["wine"].queries[-1].tiers == both.archives["sports"].queries[-1].tiers


async def test_an_included_archive_that_does_not_answer_or_is_closed_is_left_out(both: Combination) -> None:
    both.archives["wine"].wrong = Unavailable("loading")
    document = await both.result("ask_archive", question="wine")
    assert {result["archive"] for result in document["results"]} == {"Sports"}
    assert document["archives_without_answer"] == ["Wine"]
    del both.apps.archives["wine"]
    document = await both.result("ask_archive", question="wine")
    assert "archives_without_answer" not in document
    both.archives["sports"].wrong = Unavailable("loading")
    assert "error" in await both.call("ask_archive", question="wine")


async def test_an_archive_of_members_is_not_handed_on_by_one_that_is_open_to_all(both: Combination) -> None:
    results = (await both.result("ask_archive", question="red grapes Riga"))["results"]
    offset = next(result["offset"] for result in results if result["archive"] == "Wine")
    both.apps.archives["wine"] = both.apps.archives["wine"].model_copy(update={"members_only": True})
    results = (await both.result("ask_archive", question="red grapes Riga"))["results"]
    assert {result["archive"] for result in results} == {"Sports"}
    assert "error" in await both.call("get_archive_article", product_id="1", offset=offset)
    both.apps.archives["sports"] = both.apps.archives["sports"].model_copy(update={"members_only": True})
    results = (await both.result("ask_archive", question="red grapes Riga"))["results"]
    assert {result["archive"] for result in results} == {"Sports", "Wine"}


async def test_reports_and_corrections_keep_included_articles_apart(
    both: Combination,
) -> None:
    results = (await both.result("ask_archive", question="red grapes Riga"))["results"]
    pair = next(result for result in results if (result["archive"], result["product_id"]) == ("Wine", "1"))
    await both.result("get_archive_article", product_id="1", offset=pair["offset"])
    both.archives["sports"].correct("1", "The final of the cup was in Vilnius.", "It was in Vilnius.")
    assert "corrections" not in await both.result("ask_archive", question="cup")
    await both.corner.services.close()
    calls = await both.corner.stores.archive_calls.read_all("sports", "0")
    assert [call.articles for call in calls if call.tool == "get_archive_article"] == [("wine:1",)]


async def test_a_read_of_an_included_article_joins_the_question_that_returned_it(both: Combination) -> None:
    both.apps.settings["sports"] = AppSettings(citation_marks="landing")
    await both.result("ask_archive", question="final of the cup")
    results = (await both.result("ask_archive", question="red grapes cellar"))["results"]
    for result in results:
        await both.result("get_archive_article", product_id=result["product_id"], offset=result["offset"])
    await both.corner.services.close()
    calls = await both.corner.stores.archive_calls.read_all("sports", "0")
    first, second = (call.call_id for call in calls if call.tool == "ask_archive")
    assert first != second
    joined = {
        call.articles[0]: (call.question_id, call.marked)
        for call in calls
        if call.tool == "get_archive_article"
    }
    assert {"wine:1", "wine:3"} <= joined.keys()
    # The links of included articles carry no marks.
    assert joined == {name: (second, not name.startswith("wine:")) for name in joined}


async def test_an_archive_without_included_ones_answers_as_before(both: Combination) -> None:
    reply = await both.call("ask_archive", "wine", question="red grapes")
    assert all("archive" not in result for result in reply["result"]["structuredContent"]["results"])
    assert both.archives["wine"].queries[-1].app_id == "wine"
