"""Mistakes that web developers make, and the words that help them: over the corner shop, both ways in."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from cluster.crypto import mint_key
from deployments.api.http.application import build_application
from deployments.api.http.hot import HotPathMiddleware
from deployments.api.http.request_handler import KEY_IN_ADDRESS
from tests.contract.served_shop import open_served_shop
from tests.fakes.asgi import Answer, call
from tests.fakes.request_handler import BROWSER, Corner

RECOMMEND = "/v1/recommendation/user_to_products"


@pytest.fixture
async def corner() -> AsyncIterator[Corner]:
    async with open_served_shop() as corner:
        yield corner


@pytest.fixture(params=["framework", "front"])
def app(request: pytest.FixtureRequest, corner: Corner) -> Any:
    ordinary = build_application(corner.handler, version="0")
    return HotPathMiddleware(ordinary, lambda: corner.handler) if request.param == "front" else ordinary


async def ask(corner: Corner, app: Any, body: dict[str, Any], path: str = RECOMMEND) -> Answer:
    return await call(app, "POST", path, headers=corner.headers(), json=body)


# --- keys -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("headers", "reason"),
    [
        ({}, "no key was sent; send it in the header X-API-KEY or as the query parameter api_key"),
        ({"X-API-KEY": "my-key"}, "this is no Kiosk key"),
        ({"X-API-KEY": mint_key("secret", "development")}, "no app has this key"),
        ({"Authorization": f"Bearer {mint_key('secret', 'development')}"}, "the key came in Authorization"),
    ],
)
async def test_a_header_of_a_401_has_its_reason(app: Any, headers: dict[str, str], reason: str) -> None:
    for path in (RECOMMEND, "/v1/users/_delete"):
        answer = await call(app, "POST", path, headers=headers, json={})
        assert (answer.status, answer.json()) == (401, {"message": "invalid api key."})
        assert reason in answer.headers["www-authenticate"]
    answer = await call(app, "POST", "/v1/experiments/x/events", headers=headers, json={})
    assert answer.json() == {"message": "api_key is invalid. Please check your api_key in the dashboard."}, (
        "as the interface writes it"
    )
    assert reason in answer.headers["www-authenticate"]


async def test_a_secret_key_in_the_address_is_warned_of(corner: Corner, app: Any) -> None:
    address = f"?api_key={corner.secret()}"
    entry = {"field": "api_key", "message": KEY_IN_ADDRESS}
    recommended = await call(app, "POST", RECOMMEND + address, json={"rows": 1})
    assert recommended.status == 200
    assert recommended.json()["warnings"] == [entry]
    assert recommended.json()["data"]["products"]
    sent = await call(app, "POST", "/v1/interactions" + address, json={"data": []})
    assert sent.json() == {"message": "success", "warnings": [entry]}
    both = {"type": "click", "product_ids": ["nope"]}
    sent = await call(app, "POST", "/v1/interactions" + address, json={"data": [both]})
    assert [warning["field"] for warning in sent.json()["warnings"]] == ["api_key", "user_id", "product_ids"]
    product = await call(app, "GET", "/v1/products/hand-fork" + address)
    assert "warnings" not in product.json(), "the product itself is the body, and caches compare it"
    for answer in (recommended, sent, product):
        assert KEY_IN_ADDRESS in answer.headers["x-kiosk-warning"]
        assert corner.secret() not in str(answer.headers) + answer.body.decode()


async def test_a_key_in_the_right_place_gets_no_warning(corner: Corner, app: Any) -> None:
    for path in (RECOMMEND, f"{RECOMMEND}?api_key={corner.secret()}"):
        answer = await call(app, "POST", path, headers=corner.headers(), json={"rows": 1})
        assert "warnings" not in answer.json()
    path = f"{RECOMMEND}?api_key={corner.publishable()}"
    answer = await call(app, "POST", path, headers={"User-Agent": BROWSER}, json={"rows": 1})
    assert answer.status == 200
    assert "warnings" not in answer.json()


# --- names and values -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "msg"),
    [
        ({"row": 5}, "extra fields not permitted; did you mean rows?"),
        ({"userid": "ada"}, "extra fields not permitted; did you mean user_id?"),
        ({"geo": {"filters": []}}, "extra fields not permitted; did you mean filter?"),
        (
            {"geo": {"filter": [{"lat": 1, "lon": 1, "distance": 1, "distance_units": "km"}]}},
            "extra fields not permitted; did you mean distance_unit?",
        ),
        ({"zzz": 5}, "extra fields not permitted"),
        ({"user_id": 15311}, 'str type expected; send it as text: "15311"'),
        ({"exclude": [7]}, 'str type expected; send it as text: "7"'),
        ({"user_id": ["ada"]}, "str type expected"),
        ({"user_id": True}, "str type expected"),
    ],
)
async def test_a_message_names_the_right_field_or_type(
    corner: Corner, app: Any, body: dict[str, Any], msg: str
) -> None:
    answer = await ask(corner, app, body)
    assert answer.status == 422
    assert [fault["msg"] for fault in answer.json()["detail"] if fault["type"] != "value_error.missing"] == [
        msg
    ]


async def test_counts_name_the_right_field_too(corner: Corner, app: Any) -> None:
    answer = await ask(corner, app, {"feild": "genre"}, "/v1/products/_aggregate")
    assert answer.status == 422
    assert "extra fields not permitted; did you mean field?" in str(answer.json()["detail"])


@pytest.mark.parametrize(
    ("path", "meant"),
    [
        ("/v1/recommend", "/v1/recommendation/user_to_products"),
        ("/v1/recommendation/user_to_product", "/v1/recommendation/user_to_products"),
        ("/v1/search/autocompletion", "/v1/search/autocomplete"),
        ("/v1/interaction", "/v1/interactions"),
        ("/v1/product", "/v1/products"),
    ],
)
async def test_a_path_that_does_not_exist_names_a_similar_one(
    corner: Corner, app: Any, path: str, meant: str
) -> None:
    answer = await ask(corner, app, {}, path)
    assert answer.status == 404
    assert answer.json() == {"message": f"not found: there is no such path; did you mean {meant}?"}
    assert (await call(app, "POST", path, json={})).json() == {"message": "not found"}


@pytest.mark.parametrize("path", ["/v1/nowhere", "/", "/v1", "/v1/" + "recommend" * 20, "/v1/%00%ff"])
async def test_a_path_that_resembles_none_gets_no_suggestion(corner: Corner, app: Any, path: str) -> None:
    answer = await ask(corner, app, {}, path)
    assert (answer.status, answer.json()) in ((404, {"message": "not found"}), (405, answer.json()))


# --- fields and products that do not exist ----------------------------------------------------------------------


async def test_a_field_to_return_that_no_product_has_is_warned_of(corner: Corner, app: Any) -> None:
    answer = await ask(corner, app, {"fl": ["titel", "title", "custom_attributes.*", "i18n_de", "_score"]})
    assert answer.json()["data"]["warnings"] == [
        {
            "field": "titel",
            "parameter": "fl",
            "message": "no product has the field titel",
            "did_you_mean": "title",
        }
    ]
    for path, body in (
        ("/v1/search/search", {"q": "*", "fl": ["titel"]}),
        ("/v1/search/mget", {"product_ids": ["trowel"], "fl": ["titel"]}),
        ("/v1/search/autocomplete", {"q": "t", "fl": ["titel"]}),
    ):
        answer = await ask(corner, app, body, path)
        assert [warning["did_you_mean"] for warning in answer.json()["data"]["warnings"]] == ["title"], path
    for fine in (["title", "price", "brand"], ["*"], ["custom_attributes.grip", "i18n_de.title"], []):
        assert "warnings" not in (await ask(corner, app, {"fl": fine})).json()["data"]


async def test_an_event_of_an_unknown_product_or_without_a_user_is_warned_of(
    corner: Corner, app: Any
) -> None:
    await ask(corner, app, {"rows": 1})
    events = [
        {"type": "click", "user_id": "ada", "product_ids": ["hand-fork"]},
        {"type": "click", "user_id": "ada", "product_ids": ["hand-forc", "hand-fork"]},
    ]
    answer = await ask(corner, app, {"data": events}, "/v1/interactions")
    assert answer.json() == {
        "message": "success",
        "warnings": [{"index": 1, "field": "product_ids", "message": "no product has the id hand-forc"}],
    }
    answer = await ask(corner, app, {"data": [{"type": "home_page_view"}]}, "/v1/interactions")
    (warning,) = answer.json()["warnings"]
    assert warning["field"] == "user_id"
    assert "neither user_id nor anonymous_id" in warning["message"]
    answer = await ask(corner, app, {"data": events[:1]}, "/v1/interactions")
    assert answer.json() == {"message": "success"}


async def test_warnings_of_one_upload_are_few(corner: Corner, app: Any) -> None:
    await ask(corner, app, {"rows": 1})
    events = [{"type": "click", "user_id": "ada", "product_ids": [f"x{n}"]} for n in range(90)]
    assert len((await ask(corner, app, {"data": events}, "/v1/interactions")).json()["warnings"]) == 20


async def test_few_users_behind_a_completion_are_warned_of(corner: Corner, app: Any) -> None:
    path, body = "/v1/search/autocomplete", {"q": "t", "completion_fields": ["historical_queries"]}
    for users, count in ((4, 1), ("1", 1), ("4.0", 1), (5, 0), ("5.0", 0), (None, 0)):
        data = (await ask(corner, app, {**body, "min_query_users": users}, path)).json()["data"]
        assert len(data.get("warnings", ())) == count, users
    browser = await call(
        app,
        "POST",
        f"{path}?api_key={corner.publishable()}",
        headers={"User-Agent": BROWSER},
        json={**body, "min_query_users": 2},
    )
    (warning,) = browser.json()["data"]["warnings"]
    assert "with a publishable key 5 is used" in warning["message"]
    plain = await ask(corner, app, {"q": "t", "min_query_users": 2}, path)
    assert "warnings" not in plain.json()["data"], "titles reveal nobody"
