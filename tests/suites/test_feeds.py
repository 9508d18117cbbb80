"""Feeds over memory and a real Redis, from real sites over HTTPS: the archive equals the publisher's journal."""

from __future__ import annotations

import asyncio
import gzip
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import closing
from functools import partial

import pytest

from cluster.records.apps import App
from cluster.records.archive.feed import Feed
from cluster.store.connect import open_stores
from cluster.store.stores import Stores
from jobs.feeds.article_addresses import digest_address
from jobs.feeds.polite_fetcher import FetchError, PoliteFetcher
from jobs.feeds.poller import LEASE, MOST_AT_ONCE
from tests.fakes.certificates import Authority
from tests.fakes.document_host import PUBLIC
from tests.fakes.dying_shelf import Killed
from tests.fakes.dying_stores import Life, mortal
from tests.fakes.publisher_site import PublisherSite, Reply
from tests.fakes.stores.memory import memory_stores
from tests.suites.feeds import APP, Newsstand, plain_text, site_client
from tests.suites.manual_clock import ManualClock

pytestmark = pytest.mark.redis
EACH = 40


@pytest.fixture(params=["memory", "redis"])
async def stores(request: pytest.FixtureRequest) -> AsyncIterator[Stores]:
    if request.param == "memory":
        yield memory_stores()
        return
    server = request.getfixturevalue("redis_server")
    assert server.say("FLUSHALL") == b"+OK\r\n"
    async with open_stores(server.url, hot_s=5.0, slow_s=10.0) as opened:
        yield opened


@pytest.fixture
def site(trusted_authority: Authority) -> Iterator[PublisherSite]:
    with closing(PublisherSite(trusted_authority)) as site:
        yield site


@pytest.fixture
async def stand(stores: Stores, site: PublisherSite) -> Newsstand:
    stand = Newsstand(stores, site_client(site))
    await stand.open()
    return stand


async def test_two_hundred_articles_in_five_formats_equal_the_journal(
    stand: Newsstand, site: PublisherSite
) -> None:
    site.fill(EACH)
    await stand.add_formats()
    await stand.settle()
    assert await stand.archive() == site.journal()
    writes = Counter(await stand.puts())
    # a sitemap may take over the three that it shares with another feed: it reads their pages
    shared = {article.guid for article in site.of("json")[:3]}
    assert max(writes.values()) <= 2
    assert {product_id for product_id, count in writes.items() if count > 1} <= shared
    assert set(site.connected) == {PUBLIC}


async def test_unchanged_feeds_cost_one_conditional_request_and_no_write(
    stand: Newsstand, site: PublisherSite
) -> None:
    site.fill(6)
    await stand.add_formats()
    await stand.settle()
    await stand.poll_again()  # a sitemap takes articles over that another feed has without their pages
    puts, before = await stand.puts(), site.calls.copy()
    site.statuses.clear()
    await stand.poll_again()
    assert await stand.puts() == puts
    assert site.calls["rss.example.com/feed"] == before["rss.example.com/feed"] + 1
    assert site.statuses[304] >= 3, (
        "RSS, Atom and WordPress; of documents that two feeds share, one may be read again"
    )
    assert {(await stand.state(name)).result for name in ("rss", "atom", "json", "sitemap", "wxr")} == {
        "unchanged"
    }


async def test_updates_corrections_and_removals_are_followed(stand: Newsstand, site: PublisherSite) -> None:
    site.fill(EACH)
    await stand.add_formats()
    await stand.settle()
    for article in site.articles:
        if article.number % 5 == 0:
            article.version += 1
        if article.number % 5 == 1:
            article.is_listed = False  # it dropped out of the feed, and stays an article
        if article.number % 5 == 2 and article.format in ("atom", "wxr"):
            article.is_announced = True
    noted = site.of("sitemap")[4]
    noted.note, noted.version, noted.is_free = "The year was wrong.", 2, False
    await stand.poll_again()
    await stand.poll_again()
    assert await stand.archive() == site.journal()
    record = next(record for record in await stand.records() if record["title"] == noted.title)
    assert (record["corrected_at"], record["correction_note"]) == ("2026-04-02", "The year was wrong.")
    assert record["access"] == "subscriber"
    assert record["authors"] == ["Ada"]
    assert record["cover_image"] == "https://sitemap.example.com/a.jpg"


async def test_an_update_in_another_feed_makes_the_page_read_again(
    stand: Newsstand, site: PublisherSite
) -> None:
    site.fill(4)
    await stand.add_formats()
    await stand.settle()
    await stand.poll_again()
    site.of("json")[0].version += 1  # the sitemap lists this article too, reads its page, and shows no change
    await stand.poll_again()
    await stand.poll_again()
    assert await stand.archive() == site.journal()


async def test_an_article_whose_page_is_gone_is_removed(stand: Newsstand, site: PublisherSite) -> None:
    site.fill(8)
    await stand.add_formats()
    await stand.settle()
    for name in ("rss", "sitemap"):
        site.of(name)[1].status = 410
        site.of(name)[2].status = 404
        site.of(name)[3].status = 500
    for _ in range(3):
        await stand.poll_again(minutes=7 * 60)
    assert await stand.archive() == site.journal()
    assert len(site.journal()) == 8 * 5 - 4
    back = site.of("sitemap")[1]
    back.status = 200
    for _ in range(3):
        await stand.poll_again(minutes=7 * 60)
    assert back.title in await stand.archive()


async def test_entries_without_an_id_and_an_address_are_refused(
    stand: Newsstand, site: PublisherSite
) -> None:
    items = "".join(
        f"<item><title>T {number}</title><description>x</description></item>" for number in range(3)
    )
    site.replies["broken.example.com/feed"] = Reply(f"<rss><channel>{items}</channel></rss>".encode())
    await stand.add("broken", "https://broken.example.com/feed")
    await stand.settle()
    assert (await stand.archive(), (await stand.state("broken")).refused) == ({}, 3)


async def test_a_host_that_sends_304_for_nothing_changes_nothing(
    stand: Newsstand, site: PublisherSite
) -> None:
    site.replies["broken.example.com/feed"] = Reply(status=304)
    await stand.add("broken", "https://broken.example.com/feed")
    await stand.settle()
    assert (await stand.state("broken")).result == "unchanged"


async def test_an_article_absent_once_is_not_removed(stand: Newsstand, site: PublisherSite) -> None:
    site.fill(3)
    await stand.add_formats()
    await stand.settle()
    article = site.of("sitemap")[1]
    article.status = 404
    await stand.poll_again(minutes=7 * 60)
    assert article.title in await stand.archive()
    article.status = 200
    await stand.poll_again(minutes=7 * 60)
    assert article.title in await stand.archive()


def endless(head: str) -> Reply:
    return Reply(head.encode() + b" " * (17 << 20))


LAUGHS = (
    b"<!DOCTYPE rss [<!ENTITY a 'aaaaaaaaaa'><!ENTITY b '&a;&a;&a;&a;&a;&a;&a;&a;'>]>"
    b"<rss><channel><item><title>&b;</title></item></channel></rss>"
)
FILE = (
    b"<!DOCTYPE rss [<!ENTITY f SYSTEM 'file:///etc/passwd'>]>"
    b"<rss><channel><item><guid>x</guid><title>&f;</title><description>y</description></item></channel></rss>"
)
BROKEN: dict[str, tuple[Reply, str]] = {
    "bomb": (Reply(gzip.compress(b"<rss>" + b" " * (200 << 20))), "larger than"),
    "parts": (Reply(gzip.compress(b"") * 5_000), "too many compressed parts"),
    "coded": (Reply(b"x", headers={"content-encoding": "br"}), "compressed as 'br'"),
    "huge": (endless("<rss>"), "bytes"),
    "laughs": (Reply(LAUGHS), "declares entities"),
    "file": (Reply(FILE), "declares entities"),
    "tags": (Reply(b"<rss>" + b"<a/>" * 1_100_000), "tags"),
    "html": (Reply(b"<!doctype html><p>hello", "text/html"), "no feed"),
    "cut": (Reply(gzip.compress(b"<rss></rss>" * 1_000)[:-20]), "cut off"),
    "empty": (Reply(b""), "no feed"),
    "json": (Reply(b'{"version": 1}'), "JSON"),
    "nested": (Reply(b'{"version":"https://jsonfeed.org/version/1","items":' + b"[" * 9_999), "JSON"),
    "busy": (Reply(status=503, headers={"retry-after": "7200"}), "answers 503"),
    "slow": (Reply(status=429, headers={"retry-after": "Fri, 01 Jan 2100 00:00:00 GMT"}), "answers 429"),
    "error": (Reply(status=500), "answers 500"),
    "gone": (Reply(status=410), "answers 410"),
    "loop": (Reply(status=302, headers={"location": "/loop"}), "redirects more than 5 times"),
    "nowhere": (Reply(status=302), "redirects to no address"),
    "inside": (Reply(status=302, headers={"location": "https://internal.example.com/"}), "not a public host"),
    "metadata": (
        Reply(status=301, headers={"location": "http://169.254.169.254/latest"}),
        "not an https address",
    ),
    "number": (Reply(status=307, headers={"location": "https://2130706433/"}), "address"),
    "socket": (
        Reply(status=302, headers={"location": "gopher://127.0.0.1:6379/_FLUSHALL"}),
        "not an https address",
    ),
}


@pytest.mark.parametrize("name", BROKEN)
async def test_a_hostile_feed_fails_with_a_reason_and_backs_off(
    stand: Newsstand, site: PublisherSite, name: str
) -> None:
    site.replies["broken.example.com/" + name], reason = BROKEN[name]
    await stand.add("broken", f"https://broken.example.com/{name}")
    await stand.settle()
    state = await stand.state("broken")
    assert (state.result, state.failures) == ("failed", 1)
    assert reason in state.error
    assert state.next_at - state.ended_at >= 13 * 60_000
    assert set(site.connected) <= {PUBLIC}
    assert await stand.archive() == {}
    if name == "busy":
        assert state.next_at - state.ended_at >= 7_200_000
    await stand.poll_again(minutes=8 * 24 * 60)
    later = await stand.state("broken")
    assert later.failures == 2


@pytest.mark.parametrize(
    "more", [b"<a>" * 100_000, b"<item><guid>2</guid><title>&nbsp;\x00\xff", b"<item", b"]]>"]
)
async def test_a_damaged_feed_gives_the_articles_before_the_damage(
    stand: Newsstand, site: PublisherSite, more: bytes
) -> None:
    item = (
        b"<item><guid>https://x.example/1</guid><title>First</title><description>Text.</description></item>"
    )
    site.replies["broken.example.com/feed"] = Reply(b"<rss><channel>" + item + more)
    await stand.add("broken", "https://broken.example.com/feed")
    await stand.settle()
    assert await stand.archive() == {"First": "Text."}


async def test_a_dead_host_delays_no_other_feed(stand: Newsstand, site: PublisherSite) -> None:
    site.fill(4)
    await stand.add("dead", "https://dead.example.com/feed")
    await stand.add("rss", "https://rss.example.com/feed")
    await stand.settle()
    assert "not known under its name" in (await stand.state("dead")).error
    assert len(await stand.archive()) == 4


async def test_many_feeds_of_one_app_leave_a_poll_to_another_app(
    stand: Newsstand, site: PublisherSite
) -> None:
    await stand.stores.access.put_app(App(app_id="quiet", environment="production", created_at=0))
    for number in range(1, 7):
        await stand.add(f"slow{number}", f"https://broken.example.com:{number}/feed")
    feed = Feed(app_id="quiet", name="rss", address="https://rss.example.com/feed", created_at=0)
    assert await stand.stores.feeds.add(feed)
    assert await stand.poller.run_once() == MOST_AT_ONCE
    while not (states := await stand.stores.feeds.states("quiet")):  # noqa: ASYNC110 - of another task
        await asyncio.sleep(0.001)
    assert states["rss"].started_at
    await stand.poller.release()


async def test_redirects_share_the_deadline_of_the_poll(site: PublisherSite) -> None:
    clock = ManualClock(1_780_000_000_000)

    async def pass_time(seconds: float) -> None:
        clock.advance(round(seconds * 1000))

    def redirect(number: int) -> Reply:
        clock.advance(60_000)
        return Reply(status=302, headers={"location": f"/{number + 1}"})

    for number in range(5):
        site.replies[f"broken.example.com/{number}"] = partial(redirect, number)
    fetcher = PoliteFetcher(site_client(site), clock, pass_time)
    with pytest.raises(FetchError, match="takes too long"):
        await fetcher.get(
            "https://broken.example.com/0", person="news/feed", until_s=clock.monotonic_s() + 100
        )
    assert site.calls["broken.example.com/1"] == 1
    assert site.calls["broken.example.com/2"] == 0


async def test_pages_that_are_too_large_let_no_host_rest(stand: Newsstand, site: PublisherSite) -> None:
    site.fill(2)
    places = [f"rss.example.com/huge/{number}" for number in range(4)]
    site.replies |= dict.fromkeys(places, endless("<html>"))
    pages = "".join(f"<url><loc>https://{place}</loc></url>" for place in places)
    site.replies["broken.example.com/feed"] = Reply(f"<urlset>{pages}</urlset>".encode())
    await stand.add("hostile", "https://broken.example.com/feed")
    await stand.settle()
    assert (await stand.state("hostile")).refused == 4
    await stand.add("rss", "https://rss.example.com/feed")
    await stand.settle()
    assert (await stand.state("rss")).error == ""
    assert len(await stand.archive()) == 2


async def test_a_permanent_redirect_is_followed_and_shown(stand: Newsstand, site: PublisherSite) -> None:
    site.fill(2)
    site.replies["broken.example.com/old"] = Reply(
        status=301, headers={"location": "https://rss.example.com/feed"}
    )
    await stand.add("rss", "https://broken.example.com/old")
    await stand.settle()
    assert len(await stand.archive()) == 2
    assert (await stand.state("rss")).moved_to == "https://rss.example.com/feed"


async def test_robots_rules_hold_for_feeds_and_pages(stand: Newsstand, site: PublisherSite) -> None:
    site.fill(6)
    site.robots["rss.example.com"] = "User-agent: *\nDisallow: /feed\n"
    site.robots["sitemap.example.com"] = (
        "User-agent: kiosk\nCrawl-delay: 30\nDisallow: /news/*\nAllow: /news/1$\n\nUser-agent: *\nDisallow: /"
    )
    await stand.add("rss", "https://rss.example.com/feed")
    await stand.add("sitemap", "https://sitemap.example.com/feed")
    began_ms = stand.clock.now_ms()
    await stand.settle()
    assert "does not allow robots" in (await stand.state("rss")).error
    assert site.calls["rss.example.com/feed"] == 0
    assert [title for title in await stand.archive() if title.startswith("Story sitemap")] == [
        "Story sitemap 1"
    ]
    assert not any(site.calls[f"sitemap.example.com/news/{number}"] for number in (0, 2, 3, 4, 5))
    requests = sum(count for place, count in site.calls.items() if place.startswith("sitemap."))
    assert stand.clock.now_ms() - began_ms >= (requests - 2) * 30_000
    assert site.most_at_once["sitemap.example.com"] == 1


async def test_a_feed_takes_nothing_from_hosts_inside(stand: Newsstand, site: PublisherSite) -> None:
    item = "<url><loc>https://internal.example.com/news/1</loc></url><url><loc>http://10.0.0.1/x</loc></url>"
    site.replies["broken.example.com/map"] = Reply(f"<urlset>{item}</urlset>".encode())
    await stand.add("map", "https://broken.example.com/map")
    await stand.settle()
    state = await stand.state("map")
    assert (state.refused, await stand.archive()) == (2, {})
    assert set(site.connected) == {PUBLIC}


async def test_a_page_claims_no_article_of_another_host(stand: Newsstand, site: PublisherSite) -> None:
    site.fill(2)
    await stand.add("json", "https://json.example.com/feed")
    await stand.settle()
    page = (
        b"<link rel=canonical href='https://json.example.com/news/1'><script type='application/ld+json'>"
        b'{"@type":"NewsArticle","headline":"Story json 1","articleBody":"Forged.","url":"https://json.example.com/news/1"}'
        b"</script>"
    )
    site.replies["broken.example.com/page"] = Reply(page, "text/html")
    site.replies["broken.example.com/map"] = Reply(
        b"<urlset><url><loc>https://broken.example.com/page</loc></url></urlset>"
    )
    await stand.add("map", "https://broken.example.com/map")
    await stand.settle()
    texts = {record["url"]: plain_text(record) for record in await stand.records()}
    assert texts["https://json.example.com/news/1"] == site.of("json")[1].text
    assert texts["https://broken.example.com/page"] == "Forged."


async def test_an_id_claims_no_article_of_another_host(stand: Newsstand, site: PublisherSite) -> None:
    site.fill(2)
    await stand.add("json", "https://json.example.com/feed")
    await stand.settle()
    page = (
        b"<script type='application/ld+json'>"
        b'{"@type":"NewsArticle","headline":"Story json 0","articleBody":"Forged."}</script>'
    )
    site.replies["broken.example.com/page"] = Reply(page, "text/html")
    guid = site.of("json")[0].guid.encode()
    site.replies["broken.example.com/feed"] = Reply(
        b"<rss><channel><item><guid>" + guid + b"</guid><title>x</title><description>y</description>"
        b"<link>https://broken.example.com/page</link></item></channel></rss>"
    )
    await stand.add("forger", "https://broken.example.com/feed", reads_pages=True)
    await stand.settle()
    assert (await stand.archive())["Story json 0"] == site.of("json")[0].text


async def test_entries_without_text_leave_nothing_in_the_store(stand: Newsstand, site: PublisherSite) -> None:
    items = "".join(
        f"<item><guid>x:{number}</guid><title>T</title><link>/{number}</link></item>" for number in range(60)
    )
    site.replies["broken.example.com/feed"] = Reply(f"<rss><channel>{items}</channel></rss>".encode())
    await stand.add("nonsense", "https://broken.example.com/feed")
    await stand.settle()
    assert (await stand.state("nonsense")).refused == 60
    ids = [f"x:{number}" for number in range(60)]
    assert not any(await stand.stores.feeds.articles(APP, ids))
    assert await stand.stores.feeds.count_articles(APP, "nonsense") == 0


async def test_an_article_that_an_editor_deleted_stays_deleted_until_it_changes(
    stand: Newsstand, site: PublisherSite
) -> None:
    site.fill(2)
    await stand.add("rss", "https://rss.example.com/feed")
    await stand.settle()
    (first,) = (record for record in await stand.records() if record["title"] == "Story rss 0")
    payload = f'["{first["product_id"]}"]'.encode()
    await stand.stores.intake.accept(
        APP, "product", "remove", payload, task_id="delete", total=1, now_ms=stand.clock.now_ms()
    )
    await stand.settle()
    site.of("rss")[1].version += 1
    await stand.poll_again()
    assert set(await stand.archive()) == {"Story rss 1"}
    site.of("rss")[0].version += 1
    await stand.poll_again()
    assert set(await stand.archive()) == {"Story rss 0", "Story rss 1"}


async def test_a_paused_feed_rests_and_a_removed_one_leaves_its_articles(
    stand: Newsstand, site: PublisherSite
) -> None:
    site.fill(3)
    await stand.add("rss", "https://rss.example.com/feed")
    await stand.settle()
    await stand.stores.feeds.update(APP, "rss", lambda feed: feed.model_copy(update={"is_paused": True}))
    calls = site.calls["rss.example.com/feed"]
    stand.clock.advance(3_600_000)
    assert await stand.poller.run_once() == 0
    assert site.calls["rss.example.com/feed"] == calls
    assert await stand.stores.feeds.count_articles(APP, "rss") == 3
    product_ids = [record["product_id"] for record in await stand.records()]
    digests = [
        digest_address(article.address)
        for article in await stand.stores.feeds.articles(APP, product_ids)
        if article
    ]
    assert len(digests) == 3
    assert all(await stand.stores.feeds.find_ids(APP, digests))
    assert await stand.stores.feeds.remove(APP, "rss")
    archive = await stand.archive()
    assert len(archive) == 3
    assert await stand.stores.feeds.count_articles(APP, "rss") == 0
    assert await stand.stores.feeds.articles(APP, product_ids) == [None] * 3
    assert await stand.stores.feeds.find_ids(APP, digests) == [""] * 3
    await stand.add("again", "https://rss.example.com/feed")
    await stand.settle()
    assert await stand.archive() == archive


async def test_articles_that_another_feed_lists_are_taken_once(stand: Newsstand, site: PublisherSite) -> None:
    site.fill(4)
    await stand.add_formats()
    await stand.settle()
    await stand.poll_again()
    for name in ("json", "sitemap"):
        assert await stand.stores.feeds.remove(APP, name)
    await stand.poll_again()
    for name in ("json", "sitemap"):
        await stand.add(f"{name}-again", f"https://{name}.example.com/feed")
    await stand.settle()
    assert await stand.archive() == site.journal()


async def test_a_pause_that_a_host_asks_for_outlives_the_poller(
    stand: Newsstand, site: PublisherSite
) -> None:
    site.replies["broken.example.com/busy"] = Reply(status=503, headers={"retry-after": "7200"})
    await stand.add("busy", "https://broken.example.com/busy")
    await stand.settle()
    await stand.poller.release()
    await stand.add("other", "https://broken.example.com/other")
    calls = site.calls.copy()
    await stand.settle(stand.new_poller(owner="another"))
    assert site.calls == calls
    assert "asked for a pause" in (await stand.state("other")).error
    site.replies["broken.example.com/busy"] = Reply(status=304)
    stand.clock.advance(7_200_000)
    await stand.settle(stand.new_poller(owner="another"))
    assert site.calls["broken.example.com/other"] == 1


async def test_only_one_poller_works(stand: Newsstand, site: PublisherSite) -> None:
    site.fill(1)
    await stand.add("rss", "https://rss.example.com/feed")
    assert await stand.poller.run_once() == 1
    other = stand.new_poller(owner="other")
    assert await other.run_once() == 0
    await stand.poller.release()
    stand.clock.advance(61_000)
    assert await other.run_once() == 1
    await other.release()


async def test_a_poller_that_is_killed_anywhere_loses_and_repeats_no_article(
    stand: Newsstand, site: PublisherSite
) -> None:
    site.fill(4)
    for name in ("atom", "sitemap"):
        await stand.add(name, f"https://{name}.example.com/feed")
    kills = 0
    for number in range(200):
        life = Life(2 * number + 3)
        poller = stand.new_poller(mortal(stand.stores, life), owner=f"poller {number}")
        try:
            await stand.settle(poller)
        except Killed:
            kills += 1
            await poller.stop()
        else:
            break
        # what the lease does by itself in ten seconds
        await stand.stores.leases.release(LEASE, f"poller {number}")
        stand.clock.advance(3_600_000)
        site.articles[number % 8 + 8 if number % 2 else number % 4 + 4].version += 1
    assert kills > 5
    await stand.poll_again(minutes=24 * 60)
    expected = {
        title: text for title, text in site.journal().items() if " atom " in title or " sitemap " in title
    }
    assert {title: text for title, text in (await stand.archive()).items() if title in expected} == expected
    assert not [title for title in await stand.archive() if title.endswith("(twice)")]
