"""Two snapshots fill the lists of one engine by turns: from the request over HTTP to the report, credit by credit.

The journal of the test knows what each side would have shown alone, drafts the lists by a plain loop of its own, and
counts the clicks of its people. The report has to equal it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from typing import Any, cast

import pytest

from actors.experiments.team_draft import DraftCoins, seed_draft
from actors.intake.loop import IntakeLoop
from actors.language.hashing_embedder import HashingEmbedder
from actors.recommender.messages import RecommendationResult, UserQuery
from actors.serving.host import EngineHost
from actors.serving.model_registry import SnapshotLoader
from cluster.artifacts.logs.served_log import ServedLogStore
from cluster.artifacts.segments import SegmentStore
from cluster.artifacts.snapshots import SnapshotStore
from cluster.artifacts.storage.artifact_store import ArtifactStore
from cluster.clock import iso_ms
from cluster.errors import Conflict, Invalid, NotFound
from cluster.meter import SilentMeter
from cluster.records.apps import AppSettings
from cluster.records.boost_rule import BoostRule
from cluster.records.engine import Engine
from cluster.records.experiment import Experiment
from cluster.store.connect import OpenStores
from deployments.api.http.local_api import LocalApi
from deployments.api.http.served_log_writer import ServedLogWriter
from deployments.operations.framework.services import AdminConfig, AdminServices
from tests.fakes.admin_shop import AdminShop
from tests.fakes.asgi import call
from tests.fakes.audit_list import AuditList
from tests.fakes.corner_shop import APP, upload
from tests.fakes.local_recommender import LocalRecommenderClient
from tests.fakes.request_handler import PLENTY, StillClock, open_corner
from tests.fakes.stores.memory import memory_stores
from tests.fakes.trained_snapshot import build_ring_snapshot, name, ring_products
from tests.suites.waiting import until

DAY_MS = 86_400_000
ROWS = 6


@dataclass
class InterleavedShop:
    admin: AdminShop
    host: EngineHost
    intake: IntakeLoop
    served_log: ServedLogWriter
    artifacts: ArtifactStore
    versions: tuple[str, str]
    clicks: Counter[int] = field(default_factory=Counter)
    days: dict[tuple[str, int], Counter[int]] = field(default_factory=dict)
    "(person, day) -> side -> credit."

    @property
    def clock(self) -> StillClock:
        return cast(StillClock, self.admin.corner.clock)

    async def post(self, path: str, body: dict[str, Any]) -> Any:
        reply = await call(
            self.admin.corner.handler,
            "POST",
            f"/v1/{path}",
            headers={"X-API-KEY": self.admin.corner.secret(APP), "User-Agent": "Mozilla/5.0"},
            json=body,
        )
        assert reply.status == 200, reply.body
        return reply.json().get("data")

    async def recommend(self, person: str, **body: Any) -> tuple[str, list[str]]:
        """Return the id and the products of a list over HTTP."""
        given = {"anonymous_id": person, "rows": ROWS, **body}
        data = await self.post("recommendation/user_to_products", given)
        return data["service_id"], [product["product_id"] for product in data["products"]]

    async def rank(self, person: str, version: str, rows: int, **fields: Any) -> list[str]:
        """Return what a snapshot shows to a person alone."""
        query = UserQuery(
            "user_to_products", APP, "default", anonymous_id=person, rows=rows, snapshot=version
        )
        result = await self.host.answer(replace(query, **fields))
        assert isinstance(result, RecommendationResult), result
        return [product["product_id"] for product in result.products]

    async def expect(
        self, experiment: Experiment, person: str, rows: int, page: str = ""
    ) -> tuple[list[str], list[int]]:
        """Return the products of a drafted list and the side of each, by a plain loop."""
        sides = [await self.rank(person, version, rows) for version in self.versions]
        page = page or f"day {self.clock.now_ms() // DAY_MS}"
        coins = DraftCoins(seed_draft(experiment, f"a:{person}", "user_to_products", page))
        drafted: list[str] = []
        credits = []
        for place in range(rows):
            best = [next(product for product in side if product not in drafted) for side in sides]
            turn = coins.find_side(place)
            drafted.append(best[turn])
            credits.append(0 if best[0] == best[1] else turn + 1)
        return drafted, credits

    async def click(self, person: str, service_id: str, product: str, side: int) -> None:
        event = {
            "type": "click", "anonymous_id": person, "product_ids": [product], "service_id": service_id,
            "timestamp": iso_ms(self.clock.now_ms()),
        }  # fmt: skip
        await self.post("interactions", {"data": [event]})
        last = await self.admin.services.stores.changes.last(APP, "interaction")
        ((_, follower),) = self.host.loaded
        await until(lambda: follower.recommender.overlay.offsets.get("interaction") == last)
        self.clock.pass_ms(1_500)
        if side:
            self.clicks[side] += 1
            self.days.setdefault((person, self.clock.now_ms() // DAY_MS), Counter())[side] += 1

    async def settle(self) -> None:
        await self.served_log.write()
        await self.intake.compact_round(at_once=True)
        await self.intake.attribute_round(at_once=True)

    async def load_sides(self) -> None:
        """Wait until both versions answer: the first interleaved request starts the load."""
        await self.recommend("nobody-1")
        registry = (await self.host._followers.get(APP)).model_registry
        await until(lambda: all(registry.find_loaded("default", version) for version in self.versions), 20)


@pytest.fixture(scope="module")
def snapshots(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, tuple[str, str]]:
    """Artifacts with two snapshots of one engine that rank differently."""
    folder = tmp_path_factory.mktemp("snapshots")
    store = SnapshotStore(ArtifactStore.open(folder / "artifacts"))
    versions = []
    for number, weights in enumerate(({"trend": 1.0}, {"always": 1.0})):
        blend = {"weights": weights, "weights_new": weights}
        place, _ = build_ring_snapshot(folder / f"{number}", seed=6 + 11 * number, blend=blend)
        versions.append(store.publish(APP, "default", place))
    return folder / "artifacts", (versions[0], versions[1])


@asynccontextmanager
async def open_shop(folder: Path, snapshots: tuple[Path, tuple[str, str]]) -> AsyncIterator[InterleavedShop]:
    clock = StillClock()
    stores = memory_stores(clock)
    await upload(stores, ring_products())
    artifacts = ArtifactStore.open(snapshots[0])
    served_log = ServedLogWriter(stores.served, clock)
    host = EngineHost(stores, None, clock, SilentMeter(), models=SnapshotLoader(SnapshotStore(artifacts)))
    corner = await open_corner(
        clock=clock,
        stores=stores,
        client=LocalRecommenderClient(host),
        served_log=served_log,
        artifacts=artifacts,
    )
    await stores.engines.put(Engine(app_id=APP, engine_id="default", snapshot=snapshots[1][0]))
    logs = ArtifactStore.open(folder / "logs")
    services = AdminServices(
        stores=cast(OpenStores, stores), vault=corner.vault, clock=clock, artifact_source=artifacts,
        config=AdminConfig(data_dir=folder / "data"), api=LocalApi(corner.handler, corner.keyring.secret_of),
    )  # fmt: skip
    intake = IntakeLoop(
        stores, SegmentStore(logs, clock), HashingEmbedder(), clock, SilentMeter(), owner="test"
    )
    try:
        yield InterleavedShop(
            AdminShop(corner, services, AuditList()), host, intake, served_log, logs, snapshots[1]
        )
    finally:
        await corner.close()
        await host.close()


@pytest.fixture
async def shop(tmp_path: Path, snapshots: tuple[Path, tuple[str, str]]) -> AsyncIterator[InterleavedShop]:
    async with open_shop(tmp_path, snapshots) as opened:
        yield opened


async def start(shop: InterleavedShop, **arguments: Any) -> Experiment:
    given = {"name": "New", "snapshot": shop.versions[1], **arguments}
    started = await shop.admin.perform("experiments.interleave", **given)
    shop.clock.pass_ms(1_000)
    experiment: Experiment = started.experiment
    return experiment


async def test_credit_of_a_report_equals_the_journal(shop: InterleavedShop) -> None:
    experiment = await start(shop)
    await shop.load_sides()
    random, lists = Random(4), 0
    for day in range(3):
        for number in range(25):
            person = f"visitor-{number}"
            expected, sides = await shop.expect(experiment, person, ROWS)
            service_id, products = await shop.recommend(person)
            assert products == expected, (day, number)
            lists += 1
            for product, side in zip(products, sides, strict=True):
                if random.random() < (0.4 if side == 2 else 0.2):
                    await shop.click(person, service_id, product, side)
            await shop.served_log.write()
        shop.clock.pass_ms(DAY_MS)
    await shop.settle()
    services = replace(shop.admin.services, artifact_source=shop.artifacts)
    view = await replace(shop.admin, services=services).perform("experiments.interleaving", experiment="new")
    report = view.to_dict()
    first, second = report["sides"]
    assert (first["clicks"], second["clicks"]) == (shop.clicks[1], shop.clicks[2])
    won = Counter(
        1 if credit[1] > credit[2] else 2 if credit[2] > credit[1] else 0 for credit in shop.days.values()
    )
    assert (first["wins"], second["wins"], report["ties"]) == (won[1], won[2], won[0])
    assert (report["lists"], report["requests"], report["people"]) == (lists, report["requests"], 25)
    assert min(shop.clicks[1], shop.clicks[2]) > 10
    rows = ServedLogStore(shop.artifacts).read(APP, 0).to_pylist()
    drafted = [row for row in rows if row["sides"]]
    assert len(drafted) == lists
    assert {version for row in drafted for version in row["snapshot"].split(" + ")} == set(shop.versions)
    assert all(propensity is None for row in drafted for propensity in row["propensities"])
    assert all(
        row["experiments"] == [{"experiment": experiment.experiment_id, "variant": "both"}] for row in drafted
    )


async def test_pages_of_one_pagination_id_are_one_draft(shop: InterleavedShop) -> None:
    experiment = await start(shop)
    await shop.load_sides()
    for number in range(12):
        person = f"visitor-{number}"
        expected, _ = await shop.expect(experiment, person, 12, "page-7")
        pages = [(await shop.recommend(person, rows=4, pagination_id="page-7"))[1] for _ in range(3)]
        assert [product for page in pages for product in page] == expected
        by_start = [(await shop.recommend(person, rows=3, start=at))[1] for at in range(0, 12, 3)]
        expected, _ = await shop.expect(experiment, person, 12)
        assert [product for page in by_start for product in page] == expected


async def test_a_side_that_is_not_loaded_fails_no_request(shop: InterleavedShop) -> None:
    experiment = await start(shop)
    alone = await shop.rank("ada", shop.versions[0], ROWS)
    assert (await shop.recommend("ada"))[1] == alone
    await shop.load_sides()
    assert (await shop.recommend("ada"))[1] == (await shop.expect(experiment, "ada", ROWS))[0]
    await shop.admin.perform("experiments.complete", experiment="new")
    shop.clock.pass_ms(1_000)
    assert (await shop.recommend("ada"))[1] == alone


async def test_a_version_that_does_not_exist_any_more_leaves_the_first_side(shop: InterleavedShop) -> None:
    experiment = await start(shop)
    broken = experiment.model_copy(
        update={
            "variants": (
                experiment.variants[0],
                experiment.variants[1].model_copy(update={"snapshot": "gone"}),
            )
        }
    )
    stores = shop.admin.services.stores
    assert await stores.experiments.compare_and_set(broken, await stores.experiments.version(APP))
    shop.clock.pass_ms(1_000)
    alone = await shop.rank("ada", shop.versions[0], ROWS)
    for _ in range(5):
        assert (await shop.recommend("ada"))[1] == alone


async def test_pins_and_rules_of_both_sides_stay(shop: InterleavedShop) -> None:
    pinned = BoostRule(name="pin", boost_fq=f"product_id:{name(3)}", position=[2])
    await shop.admin.services.stores.boost_rules.put(APP, [pinned])
    await start(shop)
    await shop.load_sides()
    for number in range(20):
        assert (await shop.recommend(f"visitor-{number}"))[1][1] == name(3)


async def test_lists_with_random_places_and_people_without_an_id_are_not_interleaved(
    shop: InterleavedShop,
) -> None:
    await start(shop)
    await shop.load_sides()
    await shop.recommend("ada", dithering=3)
    await shop.recommend("ada", diversification={"brand": {"minimum_distance": 1}})
    await shop.post("recommendation/user_to_products", {"rows": ROWS})
    await shop.settle()
    rows = ServedLogStore(shop.artifacts).read(APP, 0).to_pylist()
    assert [row["sides"] for row in rows if row["user"] != ""] == [[], [], []]


async def test_an_engine_and_a_rule_can_be_the_second_side(shop: InterleavedShop) -> None:
    stores = shop.admin.services.stores
    await stores.engines.put(Engine(app_id=APP, engine_id="plain"))
    rule = BoostRule(name="beads", boost_fq=f"product_id:{name(29)}", position=[1], boosting_tags=["test"])
    await stores.boost_rules.put(APP, [rule])
    await start(shop, snapshot=None, rule="beads")
    await shop.recommend("ada")
    tops = {(await shop.recommend(f"visitor-{number}"))[1][0] for number in range(40)}
    assert name(29) in tops
    assert len(tops) > 1
    await shop.admin.perform("experiments.complete", experiment="new")
    await start(shop, name="Engine", snapshot=None, rival_engine="plain")
    shop.clock.pass_ms(1_000)
    registry = (await shop.host._followers.get(APP)).model_registry
    await until(lambda: registry.find_loaded("plain", "") is not None, 20)
    for number in range(10):
        best = [
            (await shop.rank(f"v{number}", "", 1, engine_id=engine_id))[0]
            for engine_id in ("default", "plain")
        ]
        assert set(best) <= set((await shop.recommend(f"v{number}"))[1][:2])


async def test_an_interleaving_needs_two_sides_and_a_log_of_users(shop: InterleavedShop) -> None:
    with pytest.raises(Invalid, match="name a snapshot, an engine or a rule"):
        await start(shop, snapshot=None)
    with pytest.raises(NotFound):
        await start(shop, snapshot="nothing")
    with pytest.raises(NotFound):
        await start(shop, snapshot=None, rival_engine="nothing")
    with pytest.raises(NotFound, match="no stored rule"):
        await start(shop, snapshot=None, rule="nothing")
    await start(shop)
    with pytest.raises(Conflict, match="new interleaves the engine default"):
        await start(shop, name="Other")
    with pytest.raises(Invalid, match="see `kiosk experiments interleaving`"):
        await shop.admin.perform("experiments.report", experiment="new")
    assert [row.operation for row in shop.admin.audit.rows if row.operation == "experiments.interleave"]
    await shop.admin.perform("experiments.complete", experiment="new")
    settings = AppSettings(limits=PLENTY, served_log="anonymous")
    await shop.admin.corner.open_app(APP, settings=settings)
    with pytest.raises(Invalid, match="served log of shop is anonymous"):
        await start(shop, name="Other")
