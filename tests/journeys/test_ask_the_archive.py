"""An article on its way: uploaded, found by an agent's question, read, cited, changed, gone."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from starlette.applications import Starlette

from actors.archive.host import ArchiveHost
from cluster.clock import SystemClock
from cluster.crypto import Vault
from cluster.meter import SilentMeter
from deployments.archive.archive_config import ArchiveConfig
from deployments.archive.services import build_archive_routes, open_archive
from tests.fakes.archive import ORIGIN, ArchiveCorner, SmallArchive
from tests.fakes.corner_shop import upload, withdraw
from tests.fakes.request_handler import MASTER
from tests.fakes.stores.memory import memory_stores
from tests.suites.waiting import until

APP = "news"
BRIDGE = {
    "product_id": "bridge-7",
    "type": "article",
    "title": "The old bridge reopens",
    "description": "After nine years of repairs the old stone bridge carries trams again..",
    "url": "https://news.example.com/bridge",
    "author": "M. Quill",
    "published_at": "2024-05-02",
}


@pytest.fixture
async def corner() -> AsyncIterator[ArchiveCorner]:
    """The archive's door over the real host."""
    clock = SystemClock()
    stores = memory_stores(clock)
    host = ArchiveHost(stores, None, None, clock, SilentMeter())
    services = open_archive(stores, Vault(MASTER), host, clock, ArchiveConfig(app_id=APP, public_url=ORIGIN))
    await services.start()
    app = Starlette(routes=build_archive_routes(services))
    yield ArchiveCorner(stores, clock, Vault(MASTER), SmallArchive(), services, app)  # type: ignore[arg-type]
    await services.close()
    await host.close()


async def test_search_finds_reads_and_cites_an_article_until_its_removal(corner: ArchiveCorner) -> None:
    await upload(corner.stores, [BRIDGE], app_id=APP)
    question = "when do trams cross the stone bridge again"

    async def is_listed() -> bool:
        return bool(await corner.ask(question))

    await until(is_listed, 4.0)
    passage = (await corner.ask(question))[0]
    assert passage["product_id"] == "bridge-7"
    assert "> The old bridge reopens <" in passage["product_title"]
    pair = {name: passage[name] for name in ("product_id", "offset")}
    article = (await corner.tool("get_archive_article", pair))["result"]["structuredContent"]
    assert "carries trams again" in article["content"]
    assert article["citation_format"] == "[The old bridge reopens](https://news.example.com/bridge)"
    await withdraw(corner.stores, ["bridge-7"], app_id=APP)

    async def is_gone() -> bool:
        return "error" in await corner.tool("get_archive_article", pair)

    await until(is_gone, 4.0)
    answer = await corner.tool("get_archive_article", pair)
    assert "were not returned by ask_archive" in answer["error"]["message"]
