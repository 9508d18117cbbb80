from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from actors.experiments.messages import ExperimentTreatment
from actors.recommender.messages import Boost, Placements, RecommendationResult, RecommendedGroup, UserQuery
from actors.serving.client import PREVIEW, Preview
from cluster.query.language.tree import Everything
from cluster.records.access import AppSettings
from cluster.records.experiment import Variant
from cluster.records.logged_query import pseudonym
from cluster.records.served_answer import RANKED, RULE, SCHEMA, ServedAnswer
from deployments.api.http.served_log_writer import ServedLogWriter, digest_request
from deployments.edge.caller import Caller
from deployments.edge.request import ApiRequest
from tests.fakes.request_handler import NOW_MS, Corner, open_corner

QUERY = UserQuery("user_to_products", "shop", "default", user_id="gina-7", rows=2, start=4)
RESULT = RecommendationResult(
    products=[{"product_id": "p1", "title": "Tulip"}, {"product_id": "p2"}],
    served_by="personal",
    placements=Placements((1.5, 0.25), (RULE, RANKED), (1.0, 1.0), "0530", "shop"),
)


@pytest.fixture
async def corner() -> Corner:
    return await open_corner()


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
    request.caller, request.payload = Caller(replace(credential, app=app)), payload
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
    assert row.request_digest == digest_request({"fq": "brand:Alder", "user_id": "somebody else"})
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
    assert digest_request({"user_id": "a", "rows": 5}) == ""
    assert digest_request(None) == ""
    first = digest_request({"q": "tulip", "fq": "price:[1 TO 5]", "user_id": "a"})
    assert first == digest_request({"fq": "price:[1 TO 5]", "q": "tulip", "user_id": "b"})
    assert first != digest_request({"q": "tulips", "fq": "price:[1 TO 5]"})
    assert digest_request({"q": 1 << 70}) != digest_request({"q": 1 << 71})
