"""The page of feeds: what is polled with its result, every role, and the form that adds one."""

from __future__ import annotations

from typing import Any

import pytest

from cluster.errors import Conflict, Invalid, NotFound
from cluster.records.administration import AppRole
from cluster.records.archive.feed import MOST_FEEDS, Feed, FeedArticle, FeedState
from tests.fakes.admin_shop import AdminShop
from tests.fakes.console import Visitor, visit_with_role
from tests.fakes.corner_shop import APP

PAGE = f"/apps/{APP}/feeds"
ADDRESS = "https://news.example.com/rss.xml"
HOSTILE = "<img src=x onerror=alert(1)>\"'{{7*7}}"


async def visit(shop: AdminShop, role: AppRole = "editor") -> Visitor:
    return await visit_with_role(
        shop.corner.stores, shop.corner.clock, role, username=role, services=shop.services
    )


async def feed(shop: AdminShop, name: str = "latest") -> Feed | None:
    return await shop.corner.stores.feeds.get(APP, name)


async def test_the_form_adds_a_feed_and_the_page_shows_its_last_result(shop: AdminShop) -> None:
    visitor = await visit(shop)
    assert "There are no feeds yet." in (await visitor.get(PAGE)).text
    form = {
        "feed": "latest", "address": ADDRESS, "every_minutes": "5", "reads_pages-shown": "1", "reads_pages": "on",
        "language": "en",
    }  # fmt: skip
    answer = await visitor.post(PAGE, **form)
    assert answer.status_code == 303
    assert (await feed(shop)) == Feed(
        app_id=APP, name="latest", address=ADDRESS, every_minutes=5, reads_pages=True, language="en",
        created_at=shop.services.now_ms(),
    )  # fmt: skip
    now_ms = shop.services.now_ms()
    state = FeedState(
        started_at=now_ms, ended_at=now_ms, next_at=now_ms + 1, result="failed", error=HOSTILE, failures=3,
        reasons=(HOSTILE,), moved_to="https://new.example.com/",
    )  # fmt: skip
    await shop.corner.stores.feeds.update_state(APP, "latest", lambda _: state)
    text = (await visitor.get(PAGE)).text
    assert "&lt;img src=x" in text
    assert "<img src=x" not in text
    assert "3 in a row" in text
    assert "https://new.example.com/" in text
    good = state.model_copy(update={"result": "changed", "error": "", "added": 12, "updated": 3})
    await shop.corner.stores.feeds.update_state(APP, "latest", lambda _: good)
    assert "12 added, 3 updated, 0 removed, 0 refused" in (await visitor.get(PAGE)).text


async def test_buttons_pause_resume_poll_and_remove(shop: AdminShop) -> None:
    visitor = await visit(shop)
    await shop.perform("feeds.add", feed="latest", address=ADDRESS)

    async def press(verb: str) -> Any:
        await visitor.get(PAGE)
        return await visitor.post(PAGE + "/change", verb=verb, feed="latest")

    assert (await press("poll")).status_code == 303
    assert (await shop.corner.stores.feeds.states(APP))["latest"].requested_at == shop.services.now_ms()
    await press("pause")
    assert (await feed(shop) or Feed(app_id="", name="", address="", created_at=0)).is_paused
    assert (await press("poll")).status_code == 409
    text = (await visitor.get(PAGE)).text
    assert "Paused" in text
    assert "Poll now" not in text
    await press("resume")
    assert not (
        await feed(shop) or Feed(app_id="", name="", address="", created_at=0, is_paused=True)
    ).is_paused
    await press("remove")
    assert await feed(shop) is None
    assert (await press("remove")).status_code == 404
    assert (await press("explode")).status_code == 400


async def test_a_viewer_sees_feeds_and_changes_none(shop: AdminShop) -> None:
    await shop.perform("feeds.add", feed="latest", address=ADDRESS)
    visitor = await visit(shop, "viewer")
    text = (await visitor.get(PAGE)).text
    assert ADDRESS in text
    assert "Add a feed" not in text
    assert (await visitor.post(PAGE + "/change", verb="remove", feed="latest")).status_code in (403, 404)
    assert await feed(shop) is not None


@pytest.mark.parametrize(
    "address",
    [
        "http://news.example.com/rss", "file:///etc/passwd", "https://ada:pw@news.example.com/rss", "news.example.com",
        "https://2130706433/", "https://news.example.com/../x", "https://news.example.com/#x", "https:///x",
    ],
)  # fmt: skip
async def test_an_address_that_may_not_be_fetched_is_refused(shop: AdminShop, address: str) -> None:
    with pytest.raises(Invalid):
        await shop.perform("feeds.add", feed="latest", address=address)
    assert await feed(shop) is None


async def test_names_are_unique_and_feeds_few(shop: AdminShop) -> None:
    await shop.perform("feeds.add", feed="latest", address=ADDRESS)
    with pytest.raises(Conflict):
        await shop.perform("feeds.add", feed="latest", address=ADDRESS)
    with pytest.raises(Invalid):
        await shop.perform("feeds.add", feed="Latest!", address=ADDRESS)
    with pytest.raises(NotFound):
        await shop.perform("feeds.show", feed="other")
    for number in range(MOST_FEEDS - 1):
        await shop.perform("feeds.add", feed=f"feed-{number}", address=ADDRESS)
    with pytest.raises(Conflict):
        await shop.perform("feeds.add", feed="more", address=ADDRESS)


async def test_a_feed_shows_how_many_articles_it_looks_after(shop: AdminShop) -> None:
    await shop.perform("feeds.add", feed="latest", address=ADDRESS)
    article = FeedArticle(feed="latest", address=ADDRESS, first_at=0)
    await shop.corner.stores.feeds.put_articles(APP, {"a": article}, checks={"a": 5}, addresses={})
    shown = (await shop.perform("feeds.show", feed="latest")).to_dict()
    assert (shown["articles"], shown["status"], shown["polled_at"]) == (1, "waiting", None)
