"""Evaluations by the log of answers, against lists that a live host served and clicks whose chances are given."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

from actors.intake.loop import IntakeLoop
from actors.language.hashing_embedder import HashingEmbedder
from actors.recommender.messages import RecommendationResult, UserQuery
from actors.serving.host import EngineHost
from actors.serving.model_registry import SnapshotLoader
from actors.serving.replay.logged_requests import encode_request
from cluster.artifacts.segments import SegmentStore
from cluster.artifacts.snapshots import SnapshotStore
from cluster.artifacts.storage.artifact_store import ArtifactStore
from cluster.clock import iso_ms
from cluster.crypto import Vault
from cluster.errors import Invalid, NotFound
from cluster.meter import SilentMeter
from cluster.query.language.parser import parse
from cluster.records.apps import App
from cluster.records.engine import Engine, Exploration
from cluster.records.logged_query import pseudonym
from cluster.records.run import Run
from cluster.records.served_list import RANKED, ServedAnswer
from cluster.store.connect import OpenStores
from cluster.store.stores import Stores
from deployments.operations.all_operations import OPERATIONS
from deployments.operations.framework.operation_executor import Administration
from deployments.operations.framework.principal import Principal
from deployments.operations.framework.services import AdminServices
from jobs.refresh.evaluation.off_policy_report import REFUSED, list_notes
from jobs.refresh.runs.worker import TrainingWorker, WorkerResources
from tests.fakes.audit_list import AuditList
from tests.fakes.corner_shop import NOW_MS, happen, upload
from tests.fakes.stores.memory import memory_stores
from tests.suites.doing import require
from tests.suites.manual_clock import ManualClock
from tests.suites.waiting import until

APP = "shop"
PRODUCTS, PEOPLE, ROWS, TOPICS = 60, 40, 4, 4
EXAMINED = (0.9, 0.7, 0.5, 0.4)
MINUTE_MS = 60_000
LISTS_A_ROUND = 5
FOLLOWED_S = 30
"Real seconds within which the host must apply what was written."
POPULAR = {
    "name": "popular",
    "parts": {"popular": {"learner": "popularity"}},
    "blend": {"weights": {"popular": 1.0}, "weights_new": {"popular": 1.0}},
}
"A recipe that ranks by popularity alone."


def click_chance(user: int, product: str, place: int) -> float:
    """Return the chance of a click: products of the user's topic are liked more."""
    number = int(product[1:])
    likes = 0.6 if number % TOPICS == user % TOPICS else 0.1
    return EXAMINED[place] * likes


@dataclass
class LiveShop:
    """An app that a host serves while users click, its administration, and a worker."""

    stores: Stores
    clock: ManualClock
    artifacts: ArtifactStore
    intake: IntakeLoop
    administration: Administration[AdminServices]
    place: WorkerResources
    host: EngineHost
    random: np.random.Generator = field(default_factory=lambda: np.random.default_rng(3))
    expected: float = 0.0
    "Clicks that lists without an explored place can expect."
    plain_lists: int = 0
    "Number of these lists."

    async def perform(self, name: str, **given: Any) -> Any:
        principal = Principal("ada", "usr-1", "token", roles={APP: "editor"})
        return await self.administration.perform(principal, name, {"app_id": APP, **given})

    async def work(self, run: Run) -> Run:
        done = require(await TrainingWorker(self.place, "worker").work(APP, run.run_id))
        return done

    async def settle(self) -> None:
        await self.intake.compact_round(at_once=True)
        await self.intake.attribute_round(at_once=True)

    async def interact(self, user: int, product: str, service_id: str = "") -> None:
        item = {
            "type": "click", "user_id": f"u{user}", "product_ids": [product], "timestamp": iso_ms(self.clock.now_ms()),
            **({"service_id": service_id} if service_id else {}),
        }  # fmt: skip
        await happen(self.stores, [item], app_id=APP)

    async def live_before(self, events: int) -> None:
        """Let users act for some weeks before anything is served."""
        for _ in range(events):
            self.clock.advance(15 * MINUTE_MS)
            user = int(self.random.integers(PEOPLE))
            topic = user % TOPICS if self.random.random() < 0.8 else int(self.random.integers(TOPICS))
            number = topic + TOPICS * min(int(self.random.exponential(4)), PRODUCTS // TOPICS - 1)
            await self.interact(user, f"p{number}")

    async def serve(self, lists: int) -> None:
        """Answer users, log the answers, and let users click: five lists from one state, then their clicks."""
        salt = await self.stores.served.salt(APP)
        for start in range(0, lists, LISTS_A_ROUND):
            await self.follow()
            shown = [await self.answer(number, salt) for number in range(start, start + LISTS_A_ROUND)]
            for user, row in shown:
                self.clock.advance(1_000)
                if set(row.origins) == {RANKED}:
                    self.plain_lists += 1
                    self.expected += sum(
                        click_chance(user, name, place) for place, name in enumerate(row.products)
                    )
                for place, name in enumerate(row.products):
                    if self.random.random() < click_chance(user, name, place):
                        await self.interact(user, name, row.service_id)
            if start % 300 == 0:
                await self.intake.compact_round(at_once=True)

    async def answer(self, number: int, salt: bytes) -> tuple[int, ServedAnswer]:
        """Answer a random user, and return the user and the row of the log."""
        self.clock.advance(2 * MINUTE_MS)
        user, service_id = int(self.random.integers(PEOPLE)), f"00000000-0000-4000-8000-{number:012d}"
        query = UserQuery(
            "user_to_products", APP, "default", user_id=f"u{user}", rows=ROWS, service_id=service_id
        )
        return user, await self.answer_query(query, salt)

    async def answer_query(self, query: UserQuery, salt: bytes) -> ServedAnswer:
        """Answer a query, and write the row of the log."""
        result = await self.host.answer(query)
        assert isinstance(result, RecommendationResult)
        placed, names = result.placements, [product["product_id"] for product in result.products]
        assert placed is not None
        row = ServedAnswer(
            query.service_id, self.clock.now_ms(), query.kind, "default", snapshot=placed.snapshot,
            level=result.served_by, user=pseudonym(salt, query.user_keys[0]) if query.user_id else "",
            start=query.start, rows=ROWS,
            products=tuple(names), scores=placed.scores, origins=placed.origins, propensities=placed.propensities,
            request_digest="filtered" if query.filter else "", state=placed.state,
            request=encode_request(query, "default", names_people=True, keeps_texts=True),
        )  # fmt: skip
        await self.stores.served.append(APP, [row])
        return row

    async def follow(self) -> None:
        """Wait until the host has applied every interaction.

        The host pauses in real time between two reads, so turns of the event loop are no measure of the wait.
        """
        last = await self.stores.changes.last(APP, "interaction")
        for _, follower in self.host.loaded:

            def has_applied(follower: Any = follower) -> bool:  # a renewal replaces its recommender
                return bool(follower.recommender.overlay.offsets.get("interaction") == last)

            await until(has_applied, FOLLOWED_S)


@pytest.fixture
async def shop(tmp_path: Path) -> Any:
    clock, audit = ManualClock(NOW_MS), AuditList()
    stores = memory_stores(clock)
    artifacts = ArtifactStore.open(tmp_path / "shelf")
    segments = SegmentStore(artifacts)
    await stores.access.put_app(App(app_id=APP, environment="development", created_at=0))
    exploration = Exploration(share=0.2, pool=5, secret="5eed" * 8)
    await stores.engines.put(Engine(app_id=APP, engine_id="default", exploration=exploration))
    products = [
        {"product_id": f"p{number}", "title": f"Thing {number} of kind {number % TOPICS}", "type": "thing"}
        for number in range(PRODUCTS)
    ]
    await upload(stores, products, app_id=APP)
    services = AdminServices(cast(OpenStores, stores), Vault(b"v" * 32), clock, artifacts)
    place = WorkerResources(
        stores, artifacts, clock, tmp_path / "scratch", beat_s=0.02, patience_s=0.0, settle_s=0.0
    )
    administration = Administration(services, OPERATIONS, audit, clock, AdminServices.for_principal)
    host = EngineHost(stores, segments, clock, SilentMeter(), models=SnapshotLoader(SnapshotStore(artifacts)))
    intake = IntakeLoop(stores, segments, HashingEmbedder(), clock, SilentMeter(), owner="test")
    shop = LiveShop(stores, clock, artifacts, intake, administration, place, host)
    await shop.live_before(1_500)
    await shop.settle()
    version = (await shop.work((await shop.perform("runs.order", recipe="fast")).run)).version
    await shop.perform("promotions.promote", engine_id="default", version=version, force="the first")
    yield shop
    await host.close()


@pytest.mark.usefixtures("allow_world")
@pytest.mark.timeout(300)
async def test_lists_are_ranked_again_as_they_were_and_others_are_judged_or_refused(shop: LiveShop) -> None:
    since_ms = shop.clock.now_ms()
    await shop.serve(600)
    await shop.settle()
    shop.clock.advance(MINUTE_MS)
    span = f"{(shop.clock.now_ms() - since_ms) // MINUTE_MS}m"

    async def judge(**given: Any) -> tuple[Run, dict[str, Any]]:
        run = await shop.work((await shop.perform("evaluations.order", logged=True, since=span, **given)).run)
        assert (run.status, run.error) == ("finished", "")
        result = await shop.perform("evaluations.report", run_id=run.run_id)
        (report,) = result.report.reports
        assert result.to_lines()[0].startswith("# ")
        return run, report

    run, report = await judge()
    assert (report.lists, report.people, set(report.left_out.values())) == (600, PEOPLE, {0})
    assert report.agreement.places > 2_000
    assert report.agreement.share == 1.0
    truth = shop.expected / shop.plain_lists
    for name, estimate in report.estimates.items():
        assert estimate.low <= truth <= estimate.high, name
        assert estimate.difference.low <= 0 <= estimate.difference.high, name
    assert run.verdict.startswith("not certainly different: ")
    assert run.figures["clicks_dr"] == report.estimates["dr"].value

    run, report = await judge(recipe=POPULAR)
    assert run.verdict.startswith("no estimate: the log can show ")
    assert "`kiosk engines explore shop default --share " in run.verdict
    assert not report.estimates
    assert report.agreement.share == 1.0

    _, report = await judge(lists=100)
    assert report.sample == {"of": 600, "seed": 26}
    assert 60 < report.lists < 140


@pytest.mark.usefixtures("allow_world")
@pytest.mark.timeout(300)
async def test_lists_with_filters_pauses_and_anchors_count_and_agree(shop: LiveShop) -> None:
    engine = require(await shop.stores.engines.get(APP, "default"))
    await shop.stores.engines.put(engine.model_copy(update={"repeat_after_days": {"click": 30.0}}))
    since_ms, salt = shop.clock.now_ms(), await shop.stores.served.salt(APP)
    shop.clock.advance(MINUTE_MS)
    for number in range(60):
        await shop.follow()
        shop.clock.advance(2 * MINUTE_MS)
        plain = UserQuery(
            "user_to_products", APP, "default", user_id=f"u{number % PEOPLE}", rows=ROWS, service_id=f"list-{number}"
        )  # fmt: skip
        similar = replace(plain, kind="product_to_products", anchors=(f"p{number}",))
        query = (
            plain, replace(plain, filter=parse("product_id:p1*")), similar, replace(similar, user_id=""),
        )[number % 4]  # fmt: skip
        row = await shop.answer_query(query, salt)
        await shop.interact(number % PEOPLE, row.products[0])
    await shop.stores.served.append(APP, [replace(row, service_id="newer", request="{")])
    await shop.settle()
    shop.clock.advance(MINUTE_MS)
    span = f"{(shop.clock.now_ms() - since_ms) // MINUTE_MS}m"
    run = await shop.work((await shop.perform("evaluations.order", logged=True, since=span)).run)
    (report,) = (await shop.perform("evaluations.report", run_id=run.run_id)).report.reports
    assert report.lists == 60
    assert {reason: count for reason, count in report.left_out.items() if count} == {
        "requests that can't be rebuilt": 1
    }
    assert report.agreement.share == 1.0


@pytest.mark.usefixtures("allow_world")
@pytest.mark.timeout(300)
async def test_later_pages_count_after_the_pages_before_them_and_other_lists_are_refused(
    shop: LiveShop,
) -> None:
    since_ms, salt = shop.clock.now_ms(), await shop.stores.served.salt(APP)
    await shop.follow()
    for number in range(20):
        shop.clock.advance(2 * MINUTE_MS)
        user_id = f"u{number % PEOPLE}"
        for start in (0, ROWS, 2 * ROWS):
            shop.clock.advance(1_000)
            page = UserQuery("user_to_products", APP, "default", user_id=user_id, rows=ROWS, start=start)
            paged = replace(page, pagination_id=f'walk "{number}', service_id=f"page-{number}-{start}")
            row = await shop.answer_query(paged, salt)
    later = replace(row, service_id="later", request="", start=ROWS)
    grouped = replace(later, service_id="grouped", endpoint="user_to_categories", start=0)
    others = [later, grouped, replace(grouped, service_id="search", endpoint="search")]
    await shop.stores.served.append(APP, others)
    await shop.settle()
    shop.clock.advance(MINUTE_MS)
    span = f"{(shop.clock.now_ms() - since_ms) // MINUTE_MS}m"
    run = await shop.work((await shop.perform("evaluations.order", logged=True, since=span)).run)
    (report,) = (await shop.perform("evaluations.report", run_id=run.run_id)).report.reports
    assert report.lists == 60
    assert report.agreement.share == 1.0
    assert {reason for reason, count in report.left_out.items() if count} == set(REFUSED)
    assert set(REFUSED.values()) <= set(list_notes(report))


async def test_an_order_that_can_not_be_judged_is_refused_at_once(shop: LiveShop) -> None:
    await shop.stores.engines.put(Engine(app_id=APP, engine_id="empty"))
    refusals: list[tuple[type[Exception], dict[str, Any], str]] = [
        (Invalid, {"candidate": "empty"}, "a candidate needs logged"),
        (Invalid, {"candidate": "empty", "logged": True}, "no trained version serves engine empty"),
        (Invalid, {"candidate": "empty", "recipe": "fast", "logged": True}, "choose one of"),
        (Invalid, {"since": "soon", "logged": True}, "is no span of time"),
        (NotFound, {"candidate": "absent", "logged": True}, "has no engine absent"),
        (NotFound, {"snapshot": "absent", "logged": True}, "absent"),
    ]
    for error, given, message in refusals:
        with pytest.raises(error, match=message):
            await shop.perform("evaluations.order", **given)


@pytest.mark.usefixtures("allow_world")
async def test_a_log_without_lists_is_refused_with_the_reason(shop: LiveShop) -> None:
    run = await shop.work((await shop.perform("evaluations.order", logged=True)).run)
    assert run.verdict == "no estimate: the log has no list that can be judged (no answers)"
