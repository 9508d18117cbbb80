"""A publisher's sites, a poller, an intake that applies, and what the archive has afterwards."""

from __future__ import annotations

import asyncio
import random
import socket
from dataclasses import dataclass, field
from typing import Any

import orjson

from actors.intake.loop import IntakeLoop
from actors.language.hashing_embedder import HashingEmbedder
from cluster.clock import SystemClock
from cluster.external_fetcher import ExternalFetcher
from cluster.meter import SilentMeter
from cluster.records.apps import App
from cluster.records.archive.feed import Feed, FeedState
from cluster.store.stores import Stores
from jobs.feeds.polite_fetcher import PoliteFetcher
from jobs.feeds.poller import FeedPoller
from tests.fakes.publisher_site import FORMATS, PublisherSite
from tests.suites.manual_clock import ManualClock

APP = "news"
STEP_S = 2.0


@dataclass
class Newsstand:
    """Feeds of one app, polled in a time that passes only while somebody waits."""

    stores: Stores
    client: ExternalFetcher
    clock: ManualClock = field(default_factory=lambda: ManualClock(1_780_000_000_000))
    rounds: int = 0

    def __post_init__(self) -> None:
        self.poller = self.new_poller()

    def new_poller(self, stores: Stores | None = None, owner: str = "poller") -> FeedPoller:
        fetcher = PoliteFetcher(self.client, self.clock, self.sleep)
        return FeedPoller(stores or self.stores, fetcher, self.clock, random.Random(3), owner=owner)

    async def open(self) -> None:
        await self.stores.access.put_app(App(app_id=APP, environment="production", created_at=0))

    async def sleep(self, seconds: float) -> None:
        """Let time pass, in steps after which the poller renews its lease."""
        while seconds > 0:
            self.clock.advance(round(min(seconds, STEP_S) * 1000))
            seconds -= STEP_S
            until = self.rounds + 2
            while self.rounds < until:  # noqa: ASYNC110 - the rounds are those of another task
                await asyncio.sleep(0.001)

    async def add(self, name: str, address: str, **more: Any) -> None:
        feed = Feed(app_id=APP, name=name, address=address, created_at=0, **more)
        assert await self.stores.feeds.add(feed)

    async def add_formats(self) -> None:
        for name in FORMATS:
            await self.add(name, f"https://{name}.example.com/feed")

    async def state(self, name: str) -> FeedState:
        return (await self.stores.feeds.states(APP)).get(name, FeedState())

    async def settle(self, poller: FeedPoller | None = None) -> None:
        """Poll until no feed is due any more."""
        poller = poller or self.poller
        intake = IntakeLoop(
            self.stores, None, HashingEmbedder(), SystemClock(), SilentMeter(), owner="intake"
        )
        applying = asyncio.create_task(intake.run())
        try:
            while True:
                self.clock.advance(1_000)
                await poller.run_once()
                self.rounds += 1
                await asyncio.sleep(0.002)
                if not poller.is_busy and not await self._is_any_due():
                    return
        finally:
            intake.stop()
            await applying

    async def poll_again(self, minutes: float = 20) -> None:
        """Let the time of the next polls come, and poll."""
        self.clock.advance(round(minutes * 60_000))
        await self.settle()

    async def _is_any_due(self) -> bool:
        states = await self.stores.feeds.states(APP)
        now_ms = self.clock.now_ms()
        return any(
            states.get(feed.name, FeedState()).next_at <= now_ms for feed in await self.stores.feeds.all(APP)
        )

    async def records(self) -> list[dict[str, Any]]:
        """Return what the app has."""
        ids = await self.stores.records.ids(APP, "product")
        values = [await self.stores.records.get(APP, "product", product_id) for product_id in ids]
        return [orjson.loads(value) for value in values if value is not None]

    async def archive(self) -> dict[str, str]:
        """Return title -> text, as the journal of the site has them; an article that is there twice shows."""
        texts: dict[str, str] = {}
        for record in await self.records():
            title = record["title"] + ("" if record["title"] not in texts else " (twice)")
            texts[title] = plain_text(record)
        return texts

    async def puts(self) -> list[str]:
        """Return the ids of all records that were written, in order and as often as they were."""
        changes = await self.stores.changes.read(APP, {"product": "0"}, count=100_000, block_ms=0)
        return [
            record["product_id"]
            for change in changes
            if change.op == "put"
            for record in orjson.loads(change.payload)
        ]


def plain_text(record: dict[str, Any]) -> str:
    from html import unescape

    text = record.get("html") or "\n".join(record.get("paragraphs", ()))
    return unescape(text.replace("<p>", "").replace("</p>", "").strip())


def site_client(site: PublisherSite) -> ExternalFetcher:
    """Return a client for which the hosts of the publisher are public, except the internal one."""
    from jobs.feeds.polite_fetcher import RULES
    from tests.fakes.document_host import PUBLIC

    def look_up(host: str, port: int) -> list[str]:
        if host.startswith("dead"):
            raise socket.gaierror("unknown")
        return ["10.0.0.7"] if host.startswith("internal") else [PUBLIC]

    return ExternalFetcher(look_up=look_up, connect=site._connect, rules=RULES)
