"""Use cases of terms: set, show and remove them, for an archive and for articles of one licence."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cluster.errors import Conflict, Forbidden, Invalid, NotFound
from cluster.records.archive.archive_terms import MOST_TERMS, ArchiveTerms
from deployments.operations.framework.services import AdminConfig
from tests.fakes.admin_shop import AdminShop, open_admin_shop
from tests.fakes.corner_shop import APP

PUBLIC = "https://news.example.com"


@pytest.fixture
async def shop(tmp_path: Path) -> AsyncIterator[AdminShop]:
    async with open_admin_shop(tmp_path) as opened:
        opened.services = replace(opened.services, config=AdminConfig(archive_app=APP, public_url=PUBLIC))
        yield opened


async def stored(shop: AdminShop) -> dict[str, ArchiveTerms]:
    return (await shop.services.stores.access.read_all()).apps[APP].terms


async def test_terms_are_set_changed_shown_and_removed(shop: AdminShop) -> None:
    assert (await shop.perform("archive.terms", role="viewer")).to_dict() == {
        "app_id": APP, "terms": [], "robots_txt": "",
    }  # fmt: skip
    await shop.perform("archive.set_terms", permits=["search"], contact="mailto:licences@example.com")
    changed = await shop.perform("archive.set_terms", holder="The Gazette", payment="attribution")
    expected = ArchiveTerms(
        permits=("search",),
        contact="mailto:licences@example.com",
        holder="The Gazette",
        payment="attribution",
    )
    assert await stored(shop) == {"": expected}
    (entry,) = changed.to_dict()["terms"]
    assert entry["license_url"] == f"{PUBLIC}/mcp/license.xml"
    assert entry["link"] == f'<{PUBLIC}/mcp/license.xml>; rel="license"; type="application/rsl+xml"'
    assert entry["content_usage"] == "train-ai=n, search=y"
    lines = changed.to_lines()
    assert lines[0].rows == [("*", "search", "", "attribution", f"{PUBLIC}/mcp/license.xml")]
    assert lines[4:] == (
        f"License: {PUBLIC}/mcp/license.xml", "", "User-agent: *", "Content-Usage: train-ai=n, search=y",
    )  # fmt: skip
    await shop.corner.keyring.refresh()
    assert shop.corner.keyring.list_archive_terms() == {APP: {"": expected}}
    row = shop.audit.rows[-1]
    assert (row.operation, row.before["holder"], row.app_id) == ("archive.set_terms", "", APP)
    removed = await shop.perform("archive.remove_terms")
    assert removed.to_dict()["terms"] == []
    await shop.corner.keyring.refresh()
    assert shop.corner.keyring.list_archive_terms() == {}
    with pytest.raises(NotFound, match="has no such terms; it has: none"):
        await shop.perform("archive.remove_terms")


async def test_a_licence_has_other_terms_than_the_archive(shop: AdminShop) -> None:
    await shop.perform("archive.set_terms", permits=["all"])
    both = await shop.perform(
        "archive.set_terms", licence="Agency Wire", prohibits=["all"], paths=["/agency/"]
    )
    assert [entry["name"] for entry in both.to_dict()["terms"]] == ["", "agency-wire"]
    assert both.to_dict()["terms"][1]["license_url"] == f"{PUBLIC}/mcp/license-agency-wire.xml"
    assert "Content-Usage: /agency/ train-ai=n, search=n" in both.robots_txt
    left = await shop.perform("archive.remove_terms", licence="agency-wire")
    assert list(left.terms) == [""]


async def test_the_address_is_that_by_which_agents_read_the_app(shop: AdminShop) -> None:
    shop.services = replace(shop.services, config=AdminConfig(archive_app="news"))
    away = await shop.perform("archive.set_terms", permits=["search"])
    assert (away.to_dict()["terms"][0]["license_url"], away.robots_txt, len(away.to_lines())) == ("", "", 1)
    await shop.perform("archive.open")
    shown = await shop.perform("archive.terms")
    assert shown.to_dict()["terms"][0]["license_url"] == f"https://your.host/mcp/{APP}/license.xml"
    shop.services = replace(shop.services, config=AdminConfig(archive_app=APP))
    assert (await shop.perform("archive.terms")).resource == "https://your.host/mcp"


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({}, "the terms say nothing"), ({"permits": ["train-ai"]}, "permits: input should be"),
        ({"permits": ["all"], "prohibits": ["all"]}, "allowed and excluded"), ({"payment": "money"}, "payment"),
        ({"payment": "crawl", "amount": "1"}, "currency"),
        ({"permits": ["all"], "terms_url": "javascript:x"}, "terms_url"),
        ({"permits": ["all"], "holder": "a\nb"}, "holder"), ({"permits": ["all"], "paths": ["news"]}, "paths"),
        ({"permits": ["all"], "valid_days": 0}, "valid_days"), ({"permits": ["all"], "licence": "--"}, "no letter"),
        ({"permits": ["all"], "licence": "x" * 201}, "licence"), ({"permits": ["all"] * 9}, "permits"),
        ({"permits": ["all"], "name": "x"}, "name"),
    ],
)  # fmt: skip
async def test_wrong_terms_are_refused_and_change_nothing(
    shop: AdminShop, wrong: dict[str, Any], message: str
) -> None:
    with pytest.raises(Invalid, match=message):
        await shop.perform("archive.set_terms", **wrong)
    assert await stored(shop) == {}


async def test_owners_set_terms_and_editors_do_not(shop: AdminShop) -> None:
    for name in ("archive.set_terms", "archive.remove_terms"):
        with pytest.raises(Forbidden):
            await shop.perform(name, role="editor")


async def test_the_number_of_licences_is_bounded(shop: AdminShop) -> None:
    access = shop.services.stores.access
    app = (await access.read_all()).apps[APP]
    full = {f"licence-{number}": ArchiveTerms(permits=("all",)) for number in range(MOST_TERMS)}
    await access.put_app(app.model_copy(update={"terms": full}))
    with pytest.raises(Conflict, match="50 licences"):
        await shop.perform("archive.set_terms", licence="one more", permits=["all"])
    await shop.perform("archive.set_terms", licence="licence 7", permits=["search"])
