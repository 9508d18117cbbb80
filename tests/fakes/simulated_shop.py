"""A seeded world that uses the real REST interface and keeps a journal of the truth.

People with a latent preference look at lists of two engines. They examine places from the top, click what they like,
and buy days later. Some clients misbehave: they send events twice, late, for answers of other people, or for answers
that nobody got. The journal holds what each answer really led to; reports are compared with it, never with each other.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any, TypeVar
from uuid import UUID

from actors.intake.loop import IntakeLoop
from actors.language.hashing_embedder import HashingEmbedder
from actors.recommender.messages import Placements, RecommendationResult, UserQuery
from cluster.artifacts.logs.outcomes import OutcomeStore
from cluster.artifacts.segments import SegmentStore
from cluster.artifacts.storage.artifact_store import ArtifactStore
from cluster.clock import iso_ms
from cluster.meter import SilentMeter
from cluster.records.engine import Engine
from cluster.store.stores import Stores
from deployments.api.http.served_log_writer import ServedLogWriter
from deployments.operations.insight.outcome_report import OutcomeReport
from deployments.operations.insight.outcomes import load_report
from tests.fakes.asgi import call
from tests.fakes.request_handler import BROWSER, Corner, StillClock, open_corner
from tests.fakes.stores.memory import memory_stores

APP = "shop"
PRODUCTS = 60
ROWS = 6
INTERESTS = 4
MINUTE_MS = 60_000
DAY_MS = 86_400_000


@dataclass
class Journal:
    """What really happened."""

    lists: Counter[str] = field(default_factory=Counter)
    "Engine -> answers."
    credits: Counter[tuple[str, str, int]] = field(default_factory=Counter)
    "(type, engine, place) -> interactions that followed from an answer."
    revenue: Counter[str] = field(default_factory=Counter)
    "Engine -> cents."
    verdicts: Counter[str] = field(default_factory=Counter)
    "Verdict of attribution -> interactions that deserve it."
    people: set[str] = field(default_factory=set)


CREDIT_NOTHING = ("unknown", "foreign", "future", "late")


def check_report(report: OutcomeReport, journal: Journal) -> None:
    """Compare a report by engine with the journal, to the count."""
    assert report.total.lists == journal.lists.total()
    assert report.total.places == ROWS * report.total.lists
    assert report.total.people == len(journal.people)
    for group in report.groups:
        clicks = [
            count
            for (kind, engine, _), count in journal.credits.items()
            if (kind, engine) == ("click", group.group)
        ]
        assert (group.lists, group.clicks) == (journal.lists[group.group], sum(clicks))
        assert round(group.revenue.value * 100) == journal.revenue[group.group]
    assert {name: report.verdicts.get(name, 0) for name in CREDIT_NOTHING} == {
        name: journal.verdicts[name] for name in CREDIT_NOTHING
    }


@dataclass(frozen=True)
class ShownList:
    """An answer that a person got."""

    service_id: str
    person: str
    engine: str
    products: tuple[str, ...]
    at_ms: int


class SimulatedEngines:
    """Two engines: `good` ranks by the interest of people, `plain` in random order."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self.interests: dict[str, int] = {}

    async def answer(self, query: UserQuery) -> RecommendationResult:
        """Return products with their places."""
        order = [f"p{number}" for number in range(PRODUCTS)]
        self._random.shuffle(order)
        if query.engine_id == "good":
            interest = self.interests[query.user_keys[0]]
            order.sort(key=lambda product: int(product[1:]) % INTERESTS != interest)
        chosen = order[:ROWS]
        return RecommendationResult(
            products=[{"product_id": product} for product in chosen],
            served_by="personal",
            placements=Placements((1.0,) * ROWS, (0,) * ROWS, (1.0,) * ROWS, "v1", "default"),
        )


class SimulatedShop:
    """The world: `run` lets people come, `settle` lets the intake do its work."""

    def __init__(
        self,
        corner: Corner,
        clock: StillClock,
        folder: Path,
        engines: SimulatedEngines,
        served_log: ServedLogWriter,
        random: Random,
    ) -> None:
        self.corner = corner
        self.clock = clock
        self.journal = Journal()
        self.artifacts = ArtifactStore.open(folder)
        self.intake = IntakeLoop(
            corner.stores,
            SegmentStore(self.artifacts, clock),
            HashingEmbedder(),
            clock,
            SilentMeter(),
            owner="world",
        )
        self.engines = engines
        self._served_log = served_log
        self._random = random
        self._last: dict[tuple[str, str], ShownList] = {}
        "(person, product) -> the last answer that showed it to them."
        self._credited: set[tuple[str, str, str]] = set()
        self._bought: dict[tuple[str, str], tuple[ShownList, int, int]] = {}
        "(person, product) -> the answer that the newest purchase followed from, its cents, and its time."
        self._events = 0

    async def run(self, sessions: int, *, people: int) -> None:
        """Let people come, one session after the other, minutes apart."""
        for _ in range(sessions):
            number = self._random.randrange(people)
            await self.visit(f"v{number}", number % INTERESTS)
            self.clock.pass_ms(self._random.randrange(20_000, 10 * MINUTE_MS))

    async def settle(self) -> None:
        """Write the logs, compact them, and attribute."""
        await self._served_log.write()
        await self.intake.compact_round(at_once=True)
        await self.intake.attribute_round(at_once=True)

    def report(self) -> OutcomeReport:
        """Report the outcomes of all time by engine."""
        now_ms = self.clock.now_ms()
        return load_report(self.artifacts, APP, "engine", now_ms - 90 * DAY_MS, now_ms + 1)

    @property
    def outcomes(self) -> OutcomeStore:
        return OutcomeStore(self.artifacts, self.clock)

    async def visit(self, person: str, interest: int) -> None:
        """Let a person look at lists, and react to them."""
        self.engines.interests[f"a:{person}"] = interest
        for _ in range(self._random.randint(1, 2)):
            shown = await self.ask(person)
            for place, product in enumerate(shown.products, start=1):
                liking = 0.6 if int(product[1:]) % INTERESTS == interest else 0.05
                if self._random.random() < liking / math.log2(place + 1):
                    self.clock.pass_ms(self._random.randrange(2_000, 20_000))
                    await self._react(shown, product)
            if self._random.random() < 0.2:
                await self._misbehave(shown)
            self.clock.pass_ms(self._random.randrange(2_000, MINUTE_MS))
        if self._random.random() < 0.15:
            await self._refund(person)

    async def ask(self, person: str) -> ShownList:
        engine = self._random.choice(("good", "plain"))
        body = {"anonymous_id": person, "rows": ROWS, "engine_id": engine}
        data = await self.post("recommendation/user_to_products", body)
        # a replica writes twice a second; rows that wait for an hour are dropped and counted as lost
        await self._served_log.write()
        shown = self.show(person, engine, data)
        if self._random.random() < 0.3:  # a robot gets nothing, and leaves no row
            await self.post("recommendation/user_to_products", body, agent="Googlebot/2.1", status=403)
        return shown

    def show(self, person: str, engine: str, data: dict[str, Any]) -> ShownList:
        """Note a list that the API answered."""
        products = tuple(product["product_id"] for product in data["products"])
        shown = ShownList(data["service_id"], person, engine, products, self.clock.now_ms())
        self._last |= {(person, product): shown for product in products}
        self.journal.lists[engine] += 1
        self.journal.people.add(person)
        return shown

    def is_named(self, kind: str) -> bool:
        """Return whether an interaction names the list that it followed from."""
        return kind == "click" and self._random.random() < 0.7

    async def _react(self, shown: ShownList, product: str) -> None:
        is_named = self.is_named("click")
        await self.track("click", shown, [product], service_id=shown.service_id if is_named else None)
        self._credit(
            "click", self._last[shown.person, product] if not is_named else shown, product, named=is_named
        )
        if self._random.random() < 0.4:
            self.clock.pass_ms(self._random.randrange(2_000, 20_000))
            cents = self._random.randrange(100, 9_000)
            source = self._last[shown.person, product]
            await self.track("checkout", shown, [product], revenue=cents / 100)
            if self._credit("checkout", source, product, named=self.is_named("checkout")):
                self.journal.revenue[source.engine] += cents
                self._bought[shown.person, product] = (source, cents, self.clock.now_ms())

    async def _misbehave(self, shown: ShownList) -> None:
        """Send interactions that must not count."""
        product, kind = self._random.choice(shown.products), self._random.randrange(5)
        self.clock.pass_ms(2_000)
        if kind == 0:
            await self.track(
                "click", shown, [product], service_id=str(UUID(int=self._random.getrandbits(128), version=4))
            )
            self.journal.verdicts["unknown"] += 1
        elif kind == 1:
            await self.track("click", shown, [product], service_id=shown.service_id, person="stranger")
            self.journal.verdicts["foreign"] += 1
        elif kind == 2:
            before = iso_ms(shown.at_ms - 5 * MINUTE_MS)
            await self.track("like", shown, [product], service_id=shown.service_id, timestamp=before)
            self.journal.verdicts["future"] += 1
        elif kind == 3:
            self.clock.pass_ms(31 * MINUTE_MS)
            await self.track("click", shown, [product], service_id=shown.service_id)
            self.journal.verdicts["late"] += 1
        else:
            await self.repeat(shown, product)
            self._credit("share", shown, product, named=True)

    async def repeat(self, shown: ShownList, product: str) -> None:
        """Send one interaction ten times."""
        event_id = f"beacon-{self._events}"
        for _ in range(10):
            await self.track("share", shown, [product], service_id=shown.service_id, event_id=event_id)
            self.clock.pass_ms(3_000)
        self.journal.verdicts["repeated"] += 9

    async def _refund(self, person: str) -> None:
        bought = [key for key in self._bought if key[0] == person]
        if not bought:
            return
        source, cents, bought_ms = self._bought.pop(bought[0])
        self.clock.pass_ms(2_000)
        await self.track("refund", source, [bought[0][1]])
        if self.clock.now_ms() - bought_ms > 30 * DAY_MS:
            self.journal.verdicts["refund_unmatched"] += 1
            return
        self.journal.revenue[source.engine] -= cents
        self.journal.verdicts["refund"] += 1

    def _credit(self, kind: str, source: ShownList, product: str, *, named: bool) -> bool:
        """Note what followed from an answer; False if the same followed from it before."""
        self.journal.verdicts["id" if named else "person"] += 1
        key = (source.service_id, kind, product)
        if key in self._credited:
            return False
        self._credited.add(key)
        self.journal.credits[kind, source.engine, source.products.index(product) + 1] += 1
        return True

    async def track(
        self, kind: str, shown: ShownList, products: list[str], *, person: str = "", **more: Any
    ) -> None:
        """Send an interaction."""
        self._events += 1
        event = {
            "type": kind, "anonymous_id": person or shown.person, "product_ids": products,
            "timestamp": iso_ms(self.clock.now_ms()), "event_id": f"e{self._events}", **more,
        }  # fmt: skip
        await self.post(
            "interactions", {"data": [{name: value for name, value in event.items() if value is not None}]}
        )

    async def post(self, path: str, body: dict[str, Any], *, agent: str = BROWSER, status: int = 200) -> Any:
        reply = await call(
            self.corner.handler, "POST", f"/v1/{path}",
            headers={"X-API-KEY": self.corner.publishable(APP), "User-Agent": agent}, json=body,
        )  # fmt: skip
        assert reply.status == status, reply.body
        return reply.json().get("data")


async def open_simulated_shop(folder: Path, seed: int) -> SimulatedShop:
    """Open the world over stores in memory, with an empty journal."""
    clock = StillClock()
    return await open_world(SimulatedShop, folder, seed, clock, memory_stores(clock))


async def open_world(kind: type[Shop], folder: Path, seed: int, clock: StillClock, stores: Stores) -> Shop:
    """Open a kind of the world over empty stores, with an empty journal."""
    random = Random(seed)
    engines, served_log = SimulatedEngines(random), ServedLogWriter(stores.served, clock)
    corner = await open_corner(clock=clock, stores=stores, client=engines, served_log=served_log)
    for engine_id in ("good", "plain"):
        await stores.engines.put(Engine(app_id=APP, engine_id=engine_id, created_at=0))
    return kind(corner, clock, folder, engines, served_log, random)


Shop = TypeVar("Shop", bound=SimulatedShop)
