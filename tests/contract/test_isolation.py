"""Another app's data looks exactly like data that does not exist."""

from __future__ import annotations

import json
import random
import re

import pytest

from tests.contract.ways import Way
from tests.fakes.asgi import Answer
from tests.fakes.request_handler import BROWSER

MINE, UNKNOWN = "only-in-other", "nowhere-at-all"


async def send(way: Way, app: str, method: str, target: str, body: object = None) -> Answer:
    headers = {"X-API-KEY": way.key(app, "secret"), "User-Agent": BROWSER}
    return await way.send(method, target, headers, None if body is None else json.dumps(body).encode())


def plain(answer: Answer) -> tuple[int, str]:
    """Status and body without what is new in every reply."""
    text = re.sub(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "<uuid>", answer.body.decode())
    return answer.status, re.sub(r'"took":\d+', '"took":0', text)


@pytest.fixture
async def task(way: Way) -> str:
    """The task of the other app's upload, after which both apps hold something."""
    for app, noun_id in (("shop", "mine"), ("other", MINE)):
        for noun in ("user", "product"):
            record = {f"{noun}_id": noun_id, "custom_attributes": {f"secret_of_{app}": 1}}
            answer = await send(way, app, "POST", f"/v1/{noun}s", {"data": [record]})
            task_id: str = answer.json()["data"]["task_id"]
            await way.settle(app, task_id)
    click = {"type": "click", "user_id": MINE, "product_ids": [MINE]}
    assert (await send(way, "other", "POST", "/v1/interactions", {"data": [click]})).status == 200
    return task_id


async def test_a_foreign_id_is_answered_like_an_unknown_one(way: Way, task: str) -> None:
    requests = [
        ("GET", "/v1/users/{id}", None), ("GET", "/v1/products/{id}", None), ("DELETE", "/v1/users/{id}", None),
        ("DELETE", "/v1/products/{id}", None), ("POST", "/v1/users/_delete", {"data": {"user_ids": ["{id}"]}}),
        ("POST", "/v1/products/_delete", {"data": {"product_ids": ["{id}"]}}),
        ("DELETE", "/v1/interactions", {"user_ids": ["{id}"]}), ("POST", "/v1/users/_aggregate", {"field": "{id}"}),
        ("POST", "/v1/recommendation/user_to_products", {"user_id": "{id}", "engine_id": "{id}"}),
        ("POST", "/v1/recommendation/user_to_history", {"user_id": "{id}"}),
        ("POST", "/v1/recommendation/product_to_products", {"product_id": "{id}"}),
    ]  # fmt: skip
    for method, target, body in requests:
        answers = []
        for name in (MINE, UNKNOWN):
            filled = None if body is None else json.loads(json.dumps(body).replace("{id}", name))
            answers.append(plain(await send(way, "shop", method, target.replace("{id}", name), filled)))
        assert answers[0] == answers[1], (method, target)
    assert (await send(way, "other", "GET", f"/v1/users/{MINE}")).status == 200
    assert (await send(way, "other", "GET", f"/v1/products/{MINE}")).status == 200


async def test_a_foreign_task_is_answered_like_an_unknown_one(way: Way, task: str) -> None:
    for noun in ("users", "products"):
        foreign = await send(way, "shop", "GET", f"/v1/{noun}/_status/{task}")
        unknown = await send(way, "shop", "GET", f"/v1/{noun}/_status/{UNKNOWN}")
        assert plain(foreign) == plain(unknown)
        assert foreign.status == 404
    assert (await send(way, "other", "GET", f"/v1/products/_status/{task}")).status == 200


async def test_lists_and_counts_contain_only_records_of_the_app(way: Way, task: str) -> None:
    for noun in ("users", "products"):
        answer = await send(way, "shop", "GET", f"/v1/{noun}/_ids")
        assert MINE not in answer.json()["data"]["ids"]
        field = "custom_attributes.secret_of_other"
        counted = await send(way, "shop", "POST", f"/v1/{noun}/_aggregate", {"field": field})
        assert (counted.status, counted.json()) == (404, {"message": "field is not found"})


async def test_attribute_types_of_one_app_bind_no_other(way: Way, task: str) -> None:
    record = {"product_id": "typed", "custom_attributes": {"secret_of_other": "a text, not a number"}}
    answer = await send(way, "shop", "POST", "/v1/products", {"data": [record]})
    assert "errors" not in answer.json()


async def test_no_pair_of_app_and_id_ever_crosses(way: Way, task: str) -> None:
    if way.live:
        pytest.skip("thousands of requests; the drills do that to live servers")
    chance = random.Random(5)
    owned: dict[str, list[str]] = {"shop": [], "other": []}
    for app in owned:
        ids = [f"{chance.choice('ab')}/{chance.randrange(50)}" for _ in range(60)]
        records = [{"user_id": user_id, "name": app} for user_id in dict.fromkeys(ids)]
        owned[app] = [record["user_id"] for record in records]
        answer = await send(way, app, "POST", "/v1/users", {"data": records})
        await way.settle(app, answer.json()["data"]["task_id"])
    for _ in range(2000):
        app = chance.choice(("shop", "other"))
        user_id = f"{chance.choice('ab')}/{chance.randrange(50)}"
        answer = await send(way, app, "GET", f"/v1/users/{user_id}")
        if user_id in owned[app]:
            assert answer.json()["data"]["name"] == app
        else:
            assert plain(answer) == (404, '{"message":"not found"}')
