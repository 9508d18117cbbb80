"""What integrators tripped over: keys, slashes, tags, compression, over both ways in."""

from __future__ import annotations

import gzip
from typing import Any

import pytest

from cluster.crypto import mint_key
from cluster.records.engine import Engine
from deployments.api.http.application import build_application
from deployments.api.http.hot import HotPathMiddleware
from deployments.edge.http.compression import LEAST_BYTES, LEAST_HOT_BYTES
from tests.fakes.asgi import Answer, call
from tests.fakes.request_handler import BROWSER, Corner, open_corner

RECOMMEND = "/v1/recommendation/user_to_products"


@pytest.fixture
async def corner() -> Corner:
    corner = await open_corner()
    await corner.stores.engines.put(Engine(app_id="shop", engine_id="default"))
    return corner


@pytest.fixture(params=["framework", "front"])
def app(request: pytest.FixtureRequest, corner: Corner) -> Any:
    ordinary = build_application(corner.handler, version="0")
    return HotPathMiddleware(ordinary, lambda: corner.handler) if request.param == "front" else ordinary


async def upload(corner: Corner, app: Any, *products: dict[str, Any]) -> None:
    answer = await call(app, "POST", "/v1/products", headers=corner.headers(), json={"data": products})
    assert answer.status == 200, answer.body
    await corner.apply()


# --- keys -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["/v1/users/_ids", RECOMMEND])
async def test_a_header_describes_the_fault_of_a_refused_key(corner: Corner, app: Any, path: str) -> None:
    method = "GET" if path.endswith("_ids") else "POST"
    secret = corner.secret()
    broken = secret[:-1] + ("a" if secret[-1] != "a" else "b")
    cases: list[tuple[dict[str, str], str]] = [
        ({}, "no key was sent; send it in the header X-API-KEY"),
        ({"X-API-KEY": "my-key"}, "no Kiosk key"),
        ({"X-API-KEY": broken}, "no Kiosk key"),
        ({"X-API-KEY": mint_key("secret", "development")}, "no app has this key"),
        ({"Authorization": f"Bearer {secret}"}, "send it in the header X-API-KEY"),
    ]
    for headers, text in cases:
        answer = await call(app, method, path, headers=headers, json={})
        assert (answer.status, answer.json()["message"]) == (401, "invalid api key.")
        assert text in answer.headers["www-authenticate"]
        assert "WWW-Authenticate" in answer.headers["access-control-expose-headers"]
        assert not any(key in str(answer.headers) for key in (secret, broken, "my-key"))


async def test_two_keys_in_one_address_are_refused_by_name(corner: Corner, app: Any) -> None:
    first_key, second_key = corner.publishable(), corner.publishable("other")
    for first, second in ((first_key, second_key), (second_key, first_key)):
        path = f"{RECOMMEND}?api_key={first}&api_key={second}"
        answer = await call(app, "POST", path, headers={"User-Agent": BROWSER}, json={})
        assert answer.status == 400
        assert answer.json()["message"] == "api_key was sent more than once; send one key"
        assert answer.json()["detail"][0]["loc"] == ["query", "api_key"]
    same = f"{RECOMMEND}?api_key={first_key}&api_key={first_key}"
    assert (await call(app, "POST", same, headers={"User-Agent": BROWSER}, json={})).status == 200
    both = await call(app, "POST", path, headers={"User-Agent": BROWSER, **corner.headers()}, json={})
    assert both.status == 200, "the header wins over whatever the address says"


async def test_a_preflight_allows_what_jquery_and_axios_add(app: Any) -> None:
    answer = await call(app, "OPTIONS", RECOMMEND)
    assert "X-Requested-With" in answer.headers["access-control-allow-headers"].split(", ")


# --- paths ------------------------------------------------------------------------------------------------------


async def test_what_stands_behind_an_id_may_have_a_slash_behind_it(corner: Corner, app: Any) -> None:
    draft = {
        "name": "Blue buttons",
        "reports_exposure": True,
        "variants": [{"name": "Now"}, {"name": "Blue"}],
    }
    made = await call(app, "POST", "/v1/experiments", headers=corner.headers(), json=draft)
    assert made.status == 200, made.body
    path = "/v1/experiments/blue-buttons"
    assert (await call(app, "POST", f"{path}/start/", headers=corner.headers())).status == 200
    answers = [
        await call(app, "POST", f"{path}/events{slash}", headers=corner.headers(), json={"user_id": "gina"})
        for slash in ("", "/")
    ]
    assert [answer.status for answer in answers] == [200, 200]
    assert answers[0].json()["variant"] == answers[1].json()["variant"]


# --- tags -------------------------------------------------------------------------------------------------------


async def test_an_unchanged_record_is_not_sent_again(corner: Corner, app: Any) -> None:
    await upload(corner, app, {"product_id": "hoe-11", "title": "Draw hoe"})
    users = {"data": [{"user_id": "gina", "name": "Gina"}]}
    assert (await call(app, "POST", "/v1/users", headers=corner.headers(), json=users)).status == 200
    await corner.apply()
    path = "/v1/products/hoe-11"
    tag = (await call(app, "GET", path, headers=corner.headers())).headers["etag"]
    again = await call(app, "GET", path, headers={**corner.headers(), "If-None-Match": tag})
    assert (again.status, again.body) == (304, b"")
    assert (await call(app, "GET", path, headers={"If-None-Match": tag})).status == 401
    # nobody on the way keeps what belongs to a person, so there is nothing to compare with
    person = await call(app, "GET", "/v1/users/gina", headers=corner.headers())
    assert (person.headers["cache-control"], "etag" in person.headers) == ("no-store", False)
    await upload(corner, app, {"product_id": "hoe-11", "title": "Dutch hoe"})
    first = await call(app, "GET", "/v1/products/hoe-11", headers={**corner.headers(), "If-None-Match": tag})
    assert (first.status, first.json()["title"]) == (200, "Dutch hoe")


@pytest.mark.parametrize("path", ["/openapi.json", "/docs"])
async def test_the_documents_have_a_tag_and_are_compressed(app: Any, path: str) -> None:
    plain = await call(app, "GET", path)
    short = await call(app, "GET", path, headers={"Accept-Encoding": "gzip, br"})
    assert short.headers["content-encoding"] == "gzip"
    assert gzip.decompress(short.body) == plain.body
    assert len(short.body) * 4 < len(plain.body)
    for answer in (plain, short):
        assert answer.headers["vary"] == "Accept-Encoding"
        again = await call(app, "GET", path, headers={"If-None-Match": answer.headers["etag"]})
        assert (again.status, again.body) == (304, b"")
    assert short.headers["etag"] == "W/" + plain.headers["etag"]


# --- compression ------------------------------------------------------------------------------------------------


def is_compressed(answer: Answer, plain: Answer) -> bool:
    if "content-encoding" not in answer.headers:
        assert answer.body == plain.body
        return False
    assert answer.headers["content-encoding"] == "gzip"
    assert "Accept-Encoding" in answer.headers["vary"]
    assert answer.headers["content-length"] == str(len(answer.body))
    return gzip.decompress(answer.body) == plain.body


async def test_long_answers_are_compressed_for_those_who_take_it_and_short_ones_never(
    corner: Corner, app: Any
) -> None:
    await upload(corner, app, *({"product_id": f"p-{at}"} for at in range(5)))
    await upload(corner, app, {"product_id": "long", "description": "word " * LEAST_HOT_BYTES})
    await upload(corner, app, {"product_id": "middling", "description": "word " * (LEAST_BYTES // 4)})

    async def compressed(path: str, accept: str = "gzip") -> bool:
        plain = await call(app, "GET", path, headers=corner.headers())
        answer = await call(app, "GET", path, headers={**corner.headers(), "Accept-Encoding": accept})
        assert answer.status == plain.status == 200
        return is_compressed(answer, plain)

    assert not await compressed("/v1/products/_ids")
    assert not await compressed("/v1/products/p-1")
    assert not await compressed("/v1/products/middling"), "a hot endpoint compresses long answers only"
    assert await compressed("/v1/products/long")
    assert await compressed("/v1/products/long", "br;q=1, gzip;q=0.5")
    assert not await compressed("/v1/products/long", "br, gzip;q=0")
    assert not await compressed("/v1/products/long", "identity")
    await upload(corner, app, *({"product_id": f"q-{at}"} for at in range(300)))
    assert await compressed("/v1/products/_ids")
    answer = await call(
        app, "GET", "/v1/products/long", headers={**corner.headers(), "Accept-Encoding": "gzip"}
    )
    assert answer.headers["etag"].startswith('W/"')
    again = {**corner.headers(), "Accept-Encoding": "gzip", "If-None-Match": answer.headers["etag"]}
    assert (await call(app, "GET", "/v1/products/long", headers=again)).status == 304
