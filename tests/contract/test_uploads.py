"""What uploads say beside the fixed bodies of the interface: all faults, dry runs, what is most probably a mistake."""

from __future__ import annotations

from typing import Any

import pytest

from tests.fakes.asgi import Answer, call
from tests.fakes.request_handler import BROWSER, Corner, open_corner

PRODUCTS, INTERACTIONS = "/v1/products", "/v1/interactions"


@pytest.fixture
async def corner() -> Corner:
    return await open_corner()


async def send(corner: Corner, path: str, *records: Any) -> Answer:
    return await call(corner.handler, "POST", path, headers=corner.headers(), json={"data": records})


# --- all faults -------------------------------------------------------------------------------------------------


async def test_a_refused_upload_lists_every_fault_of_every_record(corner: Corner) -> None:
    bad = {"title": 1, "colour": "red", "price": "2,55"}
    answer = await send(corner, PRODUCTS, {"product_id": "fine"}, bad, {"product_id": "x", "tags": "y"})
    reply = answer.json()
    assert answer.status == 422
    assert reply["data"] == [
        "data.1.product_id is invalid. The attribute is required. (and 3 more)",
        "data.2.tags is invalid. The attribute expected to be of type 'array', but 'string' is given.",
    ]
    assert [(entry["index"], len(entry["messages"])) for entry in reply["details"]] == [(1, 4), (2, 1)]
    assert set(reply["details"][0]["messages"]) == {
        "data.1.product_id is invalid. The attribute is required.",
        "data.1.title is invalid. The attribute expected to be of type 'string', but 'integer' is given.",
        "data.1.price is invalid. The attribute expected to be of type 'number', but 'string' is given.",
        "data.1.colour is invalid. The attribute is not allowed.",
    }
    assert reply["details"][1]["messages"] == reply["data"][1:]


async def test_one_fault_a_record_needs_no_details(corner: Corner) -> None:
    reply = (await send(corner, PRODUCTS, {"product_id": "x", "tags": "y"}, {})).json()
    assert set(reply) == {"errors", "message", "data"}


async def test_the_faults_of_one_call_are_bounded(corner: Corner) -> None:
    wild = {"product_id": "x", **{f"c{at}": 1 for at in range(60)}}
    answer = await send(corner, PRODUCTS, wild, *[{"a": 1, "b": 2}] * 1_500)
    reply = answer.json()
    first = reply["details"][0]
    assert (len(first["messages"]), first["more"] > 0) == (20, True)
    assert sum(len(entry["messages"]) for entry in reply["details"]) == 1_000
    assert len(reply["data"]) == 1_501


async def test_attributes_that_clash_are_all_named(corner: Corner) -> None:
    first = {"product_id": "a", "custom_attributes": {"weight": 1, "year": 1999}}
    await send(corner, PRODUCTS, first)
    await corner.apply()
    clash = {"product_id": "b", "custom_attributes": {"weight": "x", "year": "y"}}
    reply = (await send(corner, PRODUCTS, clash)).json()
    assert reply["data"] == [
        "data.0.custom_attributes.weight is invalid. Its data type is not consistent with other records (and 1 more)"
    ]
    assert reply["details"] == [
        {
            "index": 0,
            "messages": [
                f"data.0.custom_attributes.{name} is invalid. Its data type is not consistent with other records"
                for name in ("weight", "year")
            ],
        }
    ]


@pytest.mark.parametrize("at", [1_772_442_930, 1_772_442_930_250, 1.5])
async def test_a_time_that_is_a_number_is_refused_with_the_form_it_should_have(
    corner: Corner, at: float
) -> None:
    for path, record, name in (
        (INTERACTIONS, {"type": "click"}, "timestamp"),
        (PRODUCTS, {"product_id": "x"}, "published_at"),
        ("/v1/users", {"user_id": "x"}, "created_at"),
    ):
        refused = (await send(corner, path, {**record, name: at})).json()
        (text,) = refused["data"]
        given = "integer" if type(at) is int else "number"
        start = f"data.0.{name} is invalid. The attribute expected to be of type 'string', but"
        assert text == f"{start} '{given}' is given."
        assert "'2026-03-02T09:15:30Z'" in refused["details"][0]["hint"]


# --- dry runs ---------------------------------------------------------------------------------------------------


async def test_a_header_marks_a_dry_run(corner: Corner) -> None:
    for path, record in (
        (PRODUCTS, {"product_id": "x"}),
        ("/v1/users", {"user_id": "x"}),
        (INTERACTIONS, {"type": "click", "user_id": "x"}),
    ):
        dry = await send(corner, path + "?dry_run=1", record)
        real = await send(corner, path, record)
        assert (dry.status, dry.headers["x-dry-run"]) == (200, "1")
        assert "X-Dry-Run" in dry.headers["access-control-expose-headers"]
        assert "x-dry-run" not in real.headers
        assert dry.json().keys() == real.json().keys()


async def test_a_repeated_dry_run_is_marked_too(corner: Corner) -> None:
    headers = {**corner.headers(), "Idempotency-Key": "k1"}
    body = {"data": [{"product_id": "x"}]}
    first, again = [
        await call(corner.handler, "POST", PRODUCTS + "?dry_run=1", headers=headers, json=body)
        for _ in range(2)
    ]
    assert (first.headers["x-dry-run"], again.headers["x-dry-run"]) == ("1", "1")
    assert again.headers["idempotency-replayed"] == "true"


# --- warnings ---------------------------------------------------------------------------------------------------


async def test_a_time_in_the_future_is_taken_with_a_warning(corner: Corner) -> None:
    records = [
        {"type": "click", "user_id": "x", "timestamp": when}
        for when in ("2026-03-02T09:15:30Z", "2099-01-01T00:00:00Z", "2026-03-03T09:00:00Z")
    ]
    answer = await send(corner, INTERACTIONS, *records)
    assert answer.json() == {
        "message": "success",
        "warnings": [
            {
                "index": 1,
                "field": "timestamp",
                "message": "the time is more than a day ahead; recommendations count it as now",
            }
        ],
    }
    many = await send(corner, INTERACTIONS, *[records[1]] * 300)
    assert len(many.json()["warnings"]) == 20


async def test_a_dry_run_names_products_that_do_not_exist(corner: Corner) -> None:
    await send(corner, PRODUCTS, {"product_id": "hoe-11"})
    await corner.apply()
    records = [
        {"type": "click", "user_id": "x", "product_ids": ["hoe-11", "hoe-12"]},
        {"type": "checkout", "user_id": "x", "product_ids": ["hoe-12", "hoe-11"]},
    ]
    dry = await send(corner, INTERACTIONS + "?dry_run=1", *records)
    assert dry.json()["warnings"] == [
        {"index": 0, "field": "product_ids", "message": "no product has the id hoe-12"}
    ]
    assert (await send(corner, INTERACTIONS, *records)).json() == {"message": "success"}


async def test_a_server_hears_that_its_events_name_nobody(corner: Corner) -> None:
    nobody, somebody = {"type": "click", "product_ids": ["a"]}, {"type": "click", "user_id": "x"}
    answer = await send(corner, INTERACTIONS, nobody, somebody, nobody)
    assert answer.headers["x-kiosk-warning"].startswith(
        "2 interactions name neither user_id nor anonymous_id"
    )
    assert "x-kiosk-warning" not in (await send(corner, INTERACTIONS, somebody)).headers
    browser = {"X-API-KEY": corner.publishable(), "User-Agent": BROWSER}
    answer = await call(corner.handler, "POST", INTERACTIONS, headers=browser, json={"data": [nobody]})
    assert (answer.status, "x-kiosk-warning" in answer.headers) == (200, False)
