from __future__ import annotations

from dataclasses import replace
from hashlib import blake2b
from typing import Any

import pytest

from actors.experiments.messages import ExperimentTreatment
from actors.recommender.messages import Boost, Placements, RecommendationResult, RecommendedGroup, UserQuery
from actors.serving.client import PREVIEW, Preview
from cluster.artifacts.logs.day_files import ERASURE_MEMORY_MS
from cluster.query.language.tree import Everything
from cluster.records.apps import AppSettings
from cluster.records.experiment import Variant
from cluster.records.logged_query import pseudonym
from cluster.records.served_list import RANKED, RULE, SCHEMA, ServedAnswer
from cluster.store.archive.log_stream import MOST_BATCHES
from deployments.api.http.served_log_writer import (
    MOST_A_BATCH,
    MOST_PRODUCTS,
    MOST_PRODUCTS_A_BATCH,
    ServedLogWriter,
    digest_request,
)
from deployments.edge.http.request import ApiRequest
from tests.fakes.counting_meter import CountingMeter
from tests.fakes.request_handler import NOW_MS, Corner

QUERY = UserQuery("user_to_products", "shop", "default", user_id="gina-7", rows=2, start=4)
RESULT = RecommendationResult(
    products=[{"product_id": "p1", "title": "Tulip"}, {"product_id": "p2"}],
    served_by="personal",
    placements=Placements((1.5, 0.25), (RULE, RANKED), (1.0, 1.0), "0530", "shop"),
)


@pytest.fixture
def writer(corner: Corner) -> ServedLogWriter:
    return ServedLogWriter(corner.stores.served, corner.clock)


def request_from(corner: Corner, payload: Any = None, **settings: Any) -> ApiRequest:
    async def receive() -> Any:
        raise AssertionError("nothing to receive")

    agent = b"Mozilla/5.0 (iPhone; CPU iPhone OS 17_0) Mobile/15E148"
    scope = {"method": "POST", "headers": [(b"user-agent", agent)], "client": ("198.51.100.7", 1)}
    request = ApiRequest(scope, receive, corner.clock)
    credential = corner.keyring.find(corner.secret("shop"))
    assert credential is not None
    app = credential.app.model_copy(update={"settings": AppSettings(**settings)})
    request.credential, request.payload = replace(credential, app=app), payload
    return request


async def rows(corner: Corner) -> list[ServedAnswer]:
    return await corner.stores.served.read_all("shop", "0")


def treatment(*, forced: bool) -> ExperimentTreatment:
    variant = Variant.model_construct(variant_id="v2")
    return ExperimentTreatment("shop", "e1", variant, forced)


async def test_a_row_has_the_list_and_how_it_came_about(corner: Corner, writer: ServedLogWriter) -> None:
    request = request_from(corner, {"user_id": "gina-7", "fq": "brand:Alder"})
    corner.clock.pass_ms(4)
    rule = Boost(Everything(), name="spring", label="stored rule spring")
    writer.record(request, "service-1", replace(QUERY, boosts=(rule,)), RESULT, (treatment(forced=False),))
    await writer.write()
    [row] = await rows(corner)
    assert (row.schema, row.service_id, row.at, row.endpoint) == (
        SCHEMA, "service-1", NOW_MS + 4, "user_to_products",
    )  # fmt: skip
    assert (row.engine_id, row.snapshot, row.recipe, row.level) == ("default", "0530", "shop", "personal")
    assert (row.start, row.rows, row.device) == (4, 2, "phone")
    assert row.took_ms == pytest.approx(4, abs=0.01)
    assert (row.products, row.scores) == (("p1", "p2"), (1.5, 0.25))
    assert (row.origins, row.propensities) == ((RULE, RANKED), (1.0, 1.0))
    assert row.rules == ("spring",)
    assert row.experiments == ({"experiment": "e1", "variant": "v2"},)
    assert row.user == pseudonym(await corner.stores.served.salt("shop"), "u:gina-7")
    digest = digest_request({"fq": "brand:Alder", "user_id": "another"})
    salt = await corner.stores.served.salt("shop")
    assert row.request_digest == blake2b(digest, digest_size=8, key=salt).hexdigest()
    assert "gina" not in str(row)


async def test_rows_of_an_anonymous_log_name_no_user(corner: Corner, writer: ServedLogWriter) -> None:
    payload = {"user_id": "gina-7"}
    writer.record(request_from(corner, payload, served_log="anonymous"), "s1", QUERY, RESULT, ())
    writer.record(request_from(corner, payload, served_log="off"), "s2", QUERY, RESULT, ())
    await writer.write()
    assert [(row.service_id, row.user) for row in await rows(corner)] == [("s1", "")]


async def test_previews_forced_variants_and_robots_leave_no_row(
    corner: Corner, writer: ServedLogWriter
) -> None:
    token = PREVIEW.set(Preview())
    writer.record(request_from(corner), "preview", QUERY, RESULT, ())
    PREVIEW.reset(token)
    writer.record(request_from(corner), "forced", QUERY, RESULT, (treatment(forced=True),))
    robot = request_from(corner)
    robot.is_automated = True
    writer.record(robot, "robot", QUERY, RESULT, ())
    writer.record(request_from(corner), "plain", QUERY, RESULT, (treatment(forced=False),))
    await writer.write()
    assert [row.service_id for row in await rows(corner)] == ["plain"]


async def test_products_of_groups_stand_one_group_after_the_other(
    corner: Corner, writer: ServedLogWriter
) -> None:
    groups = [
        RecommendedGroup(("Books",), 2, [{"product_id": "p1"}], Placements((2.0,), (0,), (1.0,), "0530")),
        RecommendedGroup(("Tools",), 1, [{"product_id": "p2"}], Placements((1.0,), (0,), (None,), "0530")),
    ]
    writer.record(request_from(corner), "s1", QUERY, RecommendationResult(groups=groups), ())
    await writer.write()
    [row] = await rows(corner)
    assert (row.products, row.scores, row.propensities) == (("p1", "p2"), (2.0, 1.0), (1.0, None))
    assert row.snapshot == "0530"


def test_equal_questions_have_one_digest_and_plain_lists_none() -> None:
    assert digest_request({"user_id": "a", "rows": 5}) == b""
    assert digest_request(None) == b""
    first = digest_request({"q": "tulip", "fq": "price:[1 TO 5]", "user_id": "a"})
    assert first == digest_request({"fq": "price:[1 TO 5]", "q": "tulip", "user_id": "b"})
    assert first != digest_request({"q": "tulips", "fq": "price:[1 TO 5]"})
    assert digest_request({"q": 1 << 70}) != digest_request({"q": 1 << 71})


async def test_a_full_queue_of_one_app_refuses_its_rows_alone(corner: Corner) -> None:
    meter = CountingMeter()
    writer = ServedLogWriter(corner.stores.served, corner.clock, meter)
    row = ServedAnswer("old", NOW_MS, "user_to_products", "default")
    for _ in range(MOST_BATCHES):
        assert await corner.stores.served.append("shop", [row])
    full, other = request_from(corner), request_from(corner)
    app = other.credential.app.model_copy(update={"app_id": "library"})
    other.credential = replace(other.credential, app=app)
    writer.record(full, "s1", QUERY, RESULT, ())
    writer.record(other, "s2", QUERY, RESULT, ())
    await writer.write()
    await writer.write()
    assert [row.service_id for row in await corner.stores.served.read_all("library", "0")] == ["s2"]
    assert "s1" not in {row.service_id for row in await rows(corner)}
    assert meter.counts == {"kiosk_served_answers_lost": 1}


async def test_rows_that_an_erasure_may_have_missed_are_dropped(corner: Corner) -> None:
    meter = CountingMeter()
    writer = ServedLogWriter(corner.stores.served, corner.clock, meter)
    writer.record(request_from(corner), "old", QUERY, RESULT, ())
    corner.clock.pass_ms(ERASURE_MEMORY_MS)
    writer.record(request_from(corner), "new", QUERY, RESULT, ())
    await writer.write()
    assert [row.service_id for row in await rows(corner)] == ["new"]
    assert meter.counts == {"kiosk_served_answers_lost": 1}


async def test_long_answers_are_cut_and_make_small_batches(corner: Corner, writer: ServedLogWriter) -> None:
    count = 1_000
    products = [{"product_id": f"p{number}"} for number in range(count)]
    placements = Placements((1.0,) * count, (RANKED,) * count, (1.0,) * count)
    result = RecommendationResult(products=products, placements=placements)
    for number in range(MOST_A_BATCH):
        writer.record(request_from(corner), f"s{number}", QUERY, result, ())
    await writer.write()
    batches = await corner.stores.served.read("shop", "0", count=1_000)
    answers = [row for batch in batches for row in batch.rows]
    assert [row.service_id for row in answers] == [f"s{number}" for number in range(MOST_A_BATCH)]
    assert (
        {len(row.products) for row in answers}
        == {len(row.propensities) for row in answers}
        == {MOST_PRODUCTS}
    )
    assert max(sum(len(row.products) for row in batch.rows) for batch in batches) <= MOST_PRODUCTS_A_BATCH


@pytest.mark.parametrize(
    ("stored", "mode"),
    [
        ({}, "on"),
        ({"query_log": "off"}, "off"),
        ({"query_log": "anonymous"}, "anonymous"),
        ({"query_log": "off", "served_log": "on"}, "on"),
    ],
)
def test_apps_of_earlier_releases_log_answers_no_more_freely_than_queries(
    stored: dict[str, str], mode: str
) -> None:
    assert AppSettings.model_validate(stored).served_log == mode
