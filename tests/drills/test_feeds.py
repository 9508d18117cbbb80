"""Two thousand articles in five formats, every fault, and pollers that are killed: the archive equals the journal."""

from __future__ import annotations

import asyncio
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from actors.intake.loop import IntakeLoop
from actors.language.hashing_embedder import HashingEmbedder
from cluster.clock import SystemClock
from cluster.meter import SilentMeter
from cluster.store.connect import open_stores
from jobs.feeds.poller import LEASE
from tests.fakes.certificates import Authority
from tests.fakes.document_host import PUBLIC
from tests.fakes.publisher_site import FORMATS, PublisherSite
from tests.suites.feeds import APP, Newsstand, site_client
from tests.suites.test_feeds import BROKEN

pytestmark = [pytest.mark.drill, pytest.mark.redis, pytest.mark.timeout(900)]
EACH = 400
KILLS = 8


@pytest.fixture
def site(trusted_authority: Authority) -> Iterator[PublisherSite]:
    with closing(PublisherSite(trusted_authority)) as site:
        yield site


def change_everything(site: PublisherSite) -> None:
    """Update, correct, remove and hide articles of every format."""
    for article in site.articles:
        if article.number % 7 == 0:
            article.version += 1
        if article.number % 7 == 1:
            article.is_listed = False
        if article.number % 7 == 2 and article.format in ("atom", "wxr"):
            article.is_announced = True
        if article.number % 7 == 3 and article.format == "sitemap":
            article.version, article.note = article.version + 1, "Corrected."


async def test_two_thousand_articles_equal_the_journal(site: PublisherSite, redis_server: Any) -> None:
    assert redis_server.say("FLUSHALL") == b"+OK\r\n"
    site.fill(EACH)
    for name, (reply, _) in BROKEN.items():
        site.replies["broken.example.com/" + name] = reply
    rng = random.Random(5)
    async with open_stores(redis_server.url, hot_s=5.0, slow_s=10.0) as stores:
        stand = Newsstand(stores, site_client(site))
        await stand.open()
        await stand.add_formats()
        await stand.add("dead", "https://dead.example.com/feed")
        for name in BROKEN:
            await stand.add("broken-" + name, f"https://broken.example.com/{name}", every_minutes=1_000)
        intake = IntakeLoop(stores, None, HashingEmbedder(), SystemClock(), SilentMeter(), owner="intake")
        applying = asyncio.create_task(intake.run())
        for number in range(KILLS):
            await _live_and_die(stand, redis_server.url, site.port, f"poller-{number}", rng.uniform(1.5, 6.0))
        await _poll_until(stand, redis_server.url, site.port, "second")
        assert await stand.archive() == site.journal()
        change_everything(site)
        await _poll_until(stand, redis_server.url, site.port, "third")
        # an article that one feed lists and another one reads is read again by that one's next poll
        await _poll_until(stand, redis_server.url, site.port, "fourth")
        assert await stand.archive() == site.journal()
        states = await stores.feeds.states(APP)
        assert {states["broken-" + name].result for name in BROKEN} == {"failed"}
        assert set(site.connected) <= {PUBLIC}
        assert max(site.most_at_once.values()) == 1
        intake.stop()
        await applying


def _start(url: str, port: int, owner: str) -> subprocess.Popen[bytes]:
    words = [sys.executable, "-m", "tests.drills.feed_process", url, str(port), owner]
    return subprocess.Popen(words, stdout=subprocess.DEVNULL)


async def _request_all(stand: Newsstand) -> None:
    """Order a poll of every feed, as an editor would who does not wait for the pause after a crash."""
    now_ms = SystemClock().now_ms()
    for feed in await stand.stores.feeds.all(APP):
        await stand.stores.feeds.update_state(
            APP, feed.name, lambda state: state.model_copy(update={"requested_at": now_ms})
        )


async def _live_and_die(stand: Newsstand, url: str, port: int, owner: str, life_s: float) -> None:
    await _request_all(stand)
    process = _start(url, port, owner)
    await asyncio.sleep(life_s)
    process.send_signal(signal.SIGKILL)
    process.wait()
    await stand.stores.leases.release(LEASE, owner)  # what it does by itself in ten seconds


async def _poll_until(stand: Newsstand, url: str, port: int, owner: str) -> None:
    """Poll until every feed was polled to its end."""
    await _request_all(stand)
    began_ms = SystemClock().now_ms()
    process = _start(url, port, owner)
    until_s = time.monotonic() + 300
    try:
        while time.monotonic() < until_s:
            states = await stand.stores.feeds.states(APP)
            names = (*FORMATS, "dead", *("broken-" + name for name in BROKEN))
            waiting = [
                name
                for name in names
                if name not in states or states[name].ended_at < began_ms or states[name].has_more
            ]
            if not waiting:
                return
            await asyncio.sleep(0.5)
        raise AssertionError(f"not polled: {waiting}")
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
        await stand.stores.leases.release(LEASE, owner)
