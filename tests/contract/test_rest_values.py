"""Values of queries, tokens in bodies, and sentences of the REST interface that no scenario keeps."""

from __future__ import annotations

import statistics
import time
from pathlib import Path
from typing import Any

import pytest

from actors.language.hashing_embedder import HashingEmbedder
from actors.recommender.messages import UserQuery
from actors.serving.host import EngineHost
from cluster.clock import SystemClock
from cluster.meter import SilentMeter
from deployments.api.http.application import build_application
from deployments.api.http.hot import HotPathMiddleware
from deployments.api.wire.autocomplete import Autocomplete
from deployments.api.wire.query_bodies import GeoFilter
from deployments.api.wire.recommendation import (
    UserToAttributes,
    UserToCategories,
    UserToTrending,
    to_query,
)
from jobs.playground.loader import load_playground
from tests.fakes.asgi import Answer, call
from tests.fakes.local_recommender import LocalRecommenderClient
from tests.fakes.request_handler import BROWSER, Corner, open_corner
from tests.fakes.stores.memory import memory_stores
from tests.fakes.tokens import token_of

GUIDE = Path(__file__).parents[2] / "docs" / "api.md"
QUERIES: dict[str, dict[str, Any]] = {
    "/v1/recommendation/user_to_products": {},
    "/v1/recommendation/user_to_categories": {},
    "/v1/recommendation/user_to_attributes": {"field": "brand"},
    "/v1/recommendation/user_to_trending": {},
    "/v1/recommendation/user_to_history": {},
    "/v1/recommendation/product_to_products": {"product_id": "hoe-11"},
    "/v1/search/search": {"q": "*"},
    "/v1/search/autocomplete": {"q": "a"},
    "/v1/search/mget": {"product_ids": ["hoe-11"]},
}


@pytest.fixture
async def corner() -> Corner:
    corner = await open_corner()
    products = {"data": [{"product_id": "hoe-11", "title": "Draw hoe"}]}
    answer = await call(corner.handler, "POST", "/v1/products", headers=corner.headers(), json=products)
    assert answer.status == 200
    await corner.apply()
    return corner


@pytest.fixture(params=["framework", "front"])
def app(request: pytest.FixtureRequest, corner: Corner) -> Any:
    ordinary = build_application(corner.handler, version="0")
    return HotPathMiddleware(ordinary, lambda: corner.handler) if request.param == "front" else ordinary


async def ask(corner: Corner, app: Any, path: str, body: dict[str, Any], **headers: str) -> Answer:
    address = f"{path}?api_key={corner.publishable()}"
    return await call(app, "POST", address, headers={"User-Agent": BROWSER, **headers}, json=body)


def token(corner: Corner, user_id: str, *, ends_in_s: int = 60, **claims: Any) -> str:
    now_s = int(corner.clock.now_ms() // 1000)
    return token_of({"user_id": user_id, "exp": now_s + ends_in_s, **claims}, corner.secret())


@pytest.mark.parametrize("path", list(QUERIES))
async def test_a_token_may_stand_in_the_body_of_every_query(corner: Corner, app: Any, path: str) -> None:
    body = QUERIES[path]
    good = await ask(corner, app, path, {**body, "jwt_token": token(corner, "gina-7")})
    assert good.status == 200, good.body
    if "mget" not in path:
        assert corner.recommender.requests[-1].user_id == "gina-7"
    named = await ask(corner, app, path, {**body, "user_id": "gina-7", "jwt_token": token(corner, "gina-7")})
    assert named.status == 200
    for wrong, message in (
        ({"jwt_token": "made up"}, "Invalid JWT token"),
        ({"jwt_token": token(corner, "gina-7", ends_in_s=-5)}, "JWT token expired"),
        ({"user_id": "omar", "jwt_token": token(corner, "gina-7")}, "Token does not match the user"),
    ):
        answer = await ask(corner, app, path, {**body, **wrong})
        assert answer.status == 401
        assert answer.json()["message"].startswith(message)
    assert (await ask(corner, app, path, {**body, "jwt_token": 7})).status == 422
    assert (await ask(corner, app, path, {**body, "jwt_token": None})).status == 200


async def test_the_token_of_the_header_wins(corner: Corner, app: Any) -> None:
    path, bearer = (
        "/v1/recommendation/user_to_products",
        {"Authorization": f"Bearer {token(corner, 'gina-7')}"},
    )
    answer = await ask(corner, app, path, {"jwt_token": token(corner, "omar-2")}, **bearer)
    assert answer.status == 200
    assert corner.recommender.requests[-1].user_id == "gina-7"
    assert (await ask(corner, app, path, {"jwt_token": "made up"}, **bearer)).status == 200


@pytest.mark.parametrize("nought", [0, "0", 0.0, 1, 1.0])
async def test_dithering_nought_is_off(corner: Corner, app: Any, nought: float | str) -> None:
    answer = await ask(corner, app, "/v1/recommendation/user_to_trending", {"dithering": nought})
    assert answer.status == 200
    assert corner.recommender.requests[-1].dithering == 1.0


def _query(body: Any, kind: Any) -> UserQuery:
    return to_query(body, kind, app_id="shop", user_id="", now_ms=0)


def test_the_defaults_of_the_interface_are_those_of_the_bodies() -> None:
    trending = _query(UserToTrending(), "user_to_trending")
    assert (trending.rows, trending.start, trending.dithering, trending.fields) == (5, 0, 1.0, ())
    attributes = _query(UserToAttributes(field="brand"), "user_to_attributes")
    assert (attributes.rows, attributes.group_rows, attributes.dedupe) == (5, 2, True)
    assert (
        _query(UserToAttributes(field="brand", products_per_attribute=0), "user_to_attributes").group_rows
        == 0
    )
    assert _query(UserToCategories(products_per_category=0), "user_to_categories").group_rows == 0
    completion = Autocomplete(q="a ")
    assert (completion.q, completion.completion_fields, completion.min_query_users) == ("a ", ["title"], 5)


def test_a_distance_is_in_miles_by_default() -> None:
    place = {"lat": 1, "lon": 2, "distance": 10}
    assert GeoFilter(**place).circle().distance_km == pytest.approx(16.09344)
    assert GeoFilter(**place, distance_unit="km").circle().distance_km == 10
    assert GeoFilter(**place).circle().field == "location"


async def test_a_hundred_records_a_call_are_taken(corner: Corner, app: Any) -> None:
    for noun in ("user", "product"):
        records = [{f"{noun}_id": f"{noun}-{n}"} for n in range(100)]
        answer = await call(app, "POST", f"/v1/{noun}s", headers=corner.headers(), json={"data": records})
        assert answer.status == 200
        assert set(answer.json()["data"]) == {"task_id"}


def test_every_path_has_the_version_in_front(corner: Corner) -> None:
    assert {endpoint.path.split("/")[1] for endpoint in corner.handler.endpoints} == {"v1"}


def test_the_guide_asks_for_the_backoff_of_the_interface() -> None:
    text = " ".join(GUIDE.read_text("utf-8").split())
    assert "exponential backoff: wait a few seconds first, double each pause" in text


def test_the_page_of_identities_names_the_lifetime_of_the_interface() -> None:
    page = (GUIDE.parent / "concepts" / "identities.md").read_text("utf-8")
    assert "15 to 60 minutes are a good lifetime" in page


async def test_categories_of_a_user_come_in_the_time_of_the_interface() -> None:
    clock = SystemClock()
    stores = memory_stores(clock)
    await load_playground(stores, now_ms=clock.now_ms(), embedder=HashingEmbedder(), app_id="shop")
    host = EngineHost(stores, None, clock, SilentMeter())
    await host.start()
    corner = await open_corner(clock=clock, stores=stores, client=LocalRecommenderClient(host))
    body = {"anonymous_id": "v1", "rows": 10, "root_category": ["*"]}
    for products, most_ms in ((0, 100), (5, 100), (20, 200)):
        took_ms = []
        for _ in range(12):
            begun_s = time.perf_counter()
            answer = await ask(
                corner, corner.handler, "/v1/recommendation/user_to_categories",
                {**body, "products_per_category": products},
            )  # fmt: skip
            took_ms.append((time.perf_counter() - begun_s) * 1000)
            assert len(answer.json()["data"]["categories"]) == 10
        assert statistics.median(took_ms[2:]) < most_ms
    await corner.close()
    await host.close()


async def test_claims_of_a_token_are_shown_to_their_user_and_to_servers(corner: Corner, app: Any) -> None:
    mine = {"Authorization": f"Bearer {token(corner, 'gina-7', plan='gold')}"}
    accepted = await ask(corner, app, "/v1/ask/questions", {"question": "How deep do tulips go?"}, **mine)
    assert accepted.status == 200, accepted.body
    path = f"/v1/ask/questions/{accepted.json()['data']['question_id']}/answer"
    browser = {"User-Agent": BROWSER, "X-API-KEY": corner.publishable()}
    foreign = {"Authorization": f"Bearer {token(corner, 'omar-2')}"}
    shown = [
        (await call(app, "GET", path, headers=headers)).json()["data"]["metadata"].get("plan")
        for headers in ({**browser, **mine}, corner.headers(), browser, {**browser, **foreign})
    ]
    assert shown == ["gold", "gold", None, None]
