from __future__ import annotations

import hashlib
import json
from typing import Any

from cluster.errors import Unavailable
from cluster.records.apps import AppSettings
from cluster.records.interaction import RecentEvent
from tests.fakes.request_handler import BROWSER, PLENTY, Corner


async def post(corner: Corner, path: str, body: Any, **headers: str) -> Any:
    answer = await corner.send("POST", path, json=body, headers=headers)
    assert answer.status == 200, answer.body
    return answer.json()


async def test_types_that_clash_with_each_other_and_with_the_store_fail_alone(corner: Corner) -> None:
    await post(
        corner, "/v1/products", {"data": [{"product_id": "p0", "custom_attributes": {"a": 1, "b": "x"}}]}
    )
    await corner.apply()
    answer = await post(
        corner,
        "/v1/products",
        {
            "data": [
                {"product_id": "p1", "custom_attributes": {"a": 2, "new": True}},
                {"product_id": "p2", "custom_attributes": {"a": "text"}},
                {"product_id": "p3", "custom_attributes": {"b": 5}},
                {"product_id": "p4", "custom_attributes": {"new": "text"}},
                {"product_id": "p5", "custom_attributes": {"a": None, "b": ["y"]}},
            ]
        },
    )
    assert answer["errors"] is True
    assert [line.split(" ")[0] for line in answer["data"]] == [
        "data.1.custom_attributes.a", "data.2.custom_attributes.b", "data.3.custom_attributes.new",
    ]  # fmt: skip
    await corner.apply()
    assert await corner.stores.records.ids("shop", "product") == ["p0", "p1", "p5"]
    task = await corner.stores.tasks.get("shop", "product", answer["task_id"])
    assert task is not None
    assert (task.total, task.succeeded, task.failed, task.status) == (5, 2, 3, "finished")


async def test_an_upload_whose_records_all_clash_is_still_a_task(corner: Corner) -> None:
    await post(corner, "/v1/users", {"data": [{"user_id": "a", "custom_attributes": {"x": 1}}]})
    answer = await post(corner, "/v1/users", {"data": [{"user_id": "b", "custom_attributes": {"x": "1"}}]})
    await corner.apply()
    task = await corner.stores.tasks.get("shop", "user", answer["task_id"])
    assert task is not None
    assert (task.status, task.failed) == ("finished", 1)


async def test_a_replacement_character_in_an_id_is_no_invalid_utf_8(corner: Corner) -> None:
    await post(corner, "/v1/users", {"data": [{"user_id": "M\ufffdller"}]})
    await corner.apply()
    assert (await corner.send("GET", "/v1/users/M%EF%BF%BDller")).json()["data"] == {"user_id": "M\ufffdller"}
    assert (await corner.send("DELETE", "/v1/users/M%EF%BF%BDller")).status == 200
    for method in ("GET", "DELETE"):
        assert (await corner.send(method, "/v1/users/M%FFller")).status == 422


async def test_a_read_parses_nothing(corner: Corner) -> None:
    stored = b'{"user_id":"a",   "spaced" : 1}'

    async def get(*_: Any) -> bytes:
        return stored

    corner.stores.records.get = get  # type: ignore[method-assign]
    answer = await corner.send("GET", "/v1/users/a")
    assert answer.body == b'{"message":"success","data":' + stored + b"}"


async def test_visitors_who_name_nobody_get_the_id_of_the_interface(corner: Corner) -> None:
    click = {"data": [{"type": "click", "product_ids": ["a"]}, {"type": "click", "product_ids": ["b"]}]}
    await post(
        corner,
        "/v1/interactions",
        click,
        **{"User-Agent": BROWSER, "X-Forwarded-For": "203.0.113.9, 10.0.0.1"},  # a header nobody believes
    )
    text = f"{corner.secret()}:192.0.2.7:{BROWSER}:2026-03-02"
    visitor = hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest()
    (change,) = await corner.stores.changes.read("shop", {"interaction": "0"}, count=10, block_ms=0)
    assert [item["anonymous_id"] for item in json.loads(change.payload)] == [visitor, visitor]
    recent = await corner.stores.interactions.recent("shop", [f"a:{visitor}"])
    assert [RecentEvent.unpack(packed).product_ids for packed in recent] == [("b",), ("a",)]
    await post(corner, "/v1/interactions", click, **{"User-Agent": BROWSER})
    other = hashlib.sha1(text.replace("203.0.113.9", "192.0.2.7").encode(), usedforsecurity=False).hexdigest()
    assert await corner.stores.interactions.recent("shop", [f"a:{other}"])


async def test_an_interaction_without_products_links_a_visitor(corner: Corner) -> None:
    await post(
        corner, "/v1/interactions", {"data": [{"type": "click", "anonymous_id": "v", "product_ids": ["a"]}]}
    )
    await post(
        corner,
        "/v1/interactions",
        {"data": [{"type": "home_page_view", "anonymous_id": "v", "user_id": "u"}]},
    )
    recent = await corner.stores.interactions.recent("shop", ["u:u"])
    assert [RecentEvent.unpack(packed).product_ids for packed in recent] == [("a",)]


async def test_an_empty_call_appends_nothing(corner: Corner) -> None:
    await post(corner, "/v1/interactions", {"data": []})
    assert await corner.stores.changes.last("shop", "interaction") == "0"


async def test_an_alias_of_service_id_is_accepted_when_the_app_allows_it(corner: Corner) -> None:
    service_id = "0b8d4a52-3f0c-4e0b-9a63-1f2f6a5d8c11"
    body = {"data": [{"type": "click", "product_ids": ["a"], "reply_id": service_id}]}
    refused = await corner.send("POST", "/v1/interactions", json=body)
    assert refused.status == 422
    await corner.open_app("shop", settings=AppSettings(service_id_aliases=("reply_id",), limits=PLENTY))
    await post(corner, "/v1/interactions", body)
    (change,) = await corner.stores.changes.read("shop", {"interaction": "0"}, count=10, block_ms=0)
    assert json.loads(change.payload)[0]["service_id"] == service_id


async def test_erasing_forgets_the_user_and_linked_visitors(corner: Corner) -> None:
    click = {"type": "click", "user_id": "u", "anonymous_id": "v", "product_ids": ["a"]}
    await post(corner, "/v1/interactions", {"data": [click]})
    answer = await corner.send("DELETE", "/v1/interactions", json={"user_ids": ["u"]})
    assert answer.status == 200
    assert await corner.stores.interactions.recent("shop", ["u:u", "a:v"]) == []


async def test_counting_streams_in_slices_and_lets_others_in_between(corner: Corner) -> None:
    records = [{"product_id": f"p{at:04}", "brand": "AB"[at % 2]} for at in range(1201)]
    await post(corner, "/v1/products", {"data": records})
    await corner.apply()
    slices: list[int] = []
    plain = corner.stores.records.get_many

    async def get_many(app_id: str, noun: Any, ids: Any) -> Any:
        slices.append(len(ids))
        return await plain(app_id, noun, ids)

    corner.stores.records.get_many = get_many  # type: ignore[method-assign]
    answer = await post(corner, "/v1/products/_aggregate", {"field": "brand"})
    assert answer["data"] == {"field": "brand", "total": 1201, "values": [["A", 601], ["B", 600]]}
    assert slices == [500, 500, 201]


async def test_counting_over_a_store_that_goes_away_is_503(corner: Corner) -> None:
    await post(corner, "/v1/products", {"data": [{"product_id": "p", "brand": "A"}]})
    await corner.apply()

    async def away(*_: Any) -> Any:
        raise Unavailable("away")

    corner.stores.records.get_many = away  # type: ignore[method-assign]
    answer = await corner.send("GET", "/v1/products/_aggregate?field=brand")
    assert answer.status == 503
