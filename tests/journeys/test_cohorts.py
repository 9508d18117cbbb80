"""Cohorts from upload to answer, without Ray and without a training: before and after a restart, and after erasure."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from cluster.store.stores import Stores
from tests.journeys.test_upload_to_recommendation import House, open_house, stores
from tests.suites.waiting import until

__all__ = ["stores"]
pytestmark = pytest.mark.redis

PRODUCTS = [
    {"product_id": f"{kind}{n:02d}", "title": f"Thing {kind}{n}", "type": "product"}
    for kind in "bt"
    for n in range(1, 11)
]
FR, GB = [f"u{n:02d}" for n in range(1, 9)], [f"u{n:02d}" for n in range(9, 17)]
USERS = [
    *({"user_id": user, "country": "FR"} for user in FR),
    *({"user_id": user, "country": "GB"} for user in GB),
    *({"user_id": f"u{n}"} for n in range(17, 21)),
]
INTERACTIONS = [
    {"type": kind, "user_id": user, "product_ids": [product_id], **more}
    for users, product_ids in ((FR, ("b07", "b08")), (GB, ("t05", "t10")))
    for user in users
    for product_id in product_ids
    for kind, more in (("product_detail_page_view", {}), ("checkout", {"quantities": [1]}))
]


async def upload(house: House, noun: str, records: list[dict[str, Any]]) -> None:
    task = await house.ask("POST", f"/v1/{noun}s", {"data": records})
    assert (await house.ended(noun, task["data"]["task_id"]))["status"] == "finished"


async def delete_user(house: House, user_id: str) -> None:
    await house.ask("DELETE", "/v1/interactions", {"user_ids": [user_id]})
    task = await house.ask("DELETE", f"/v1/users/{user_id}")
    await house.ended("user", task["data"]["task_id"])


async def prefers(house: House, kind: str, country: str, first: str, second: str) -> bool:
    product_ids = await house.recommended(
        kind, anonymous_id="cold", rows=20, user_cohort={"country": country}
    )
    return product_ids.index(first) < product_ids.index(second)


async def assert_cohorts(house: House) -> None:
    for kind in ("user_to_products", "user_to_trending"):

        async def turned(kind: str = kind) -> bool:
            return await prefers(house, kind, "FR", "b07", "t05") and await prefers(
                house, kind, "GB", "t05", "b07"
            )

        await until(turned, 7.5)
        plain = await house.recommended(kind, anonymous_id="cold", rows=20)
        unknown = {"country": "XX"}
        assert await house.recommended(kind, anonymous_id="cold", rows=20, user_cohort=unknown) == plain


@pytest.mark.parametrize("users_first", [True, False])
async def test_readers_of_a_country_see_first_what_it_takes(
    stores: Stores, tmp_path: Path, users_first: bool
) -> None:
    async with open_house(stores, tmp_path) as house:
        await upload(house, "product", PRODUCTS)
        if users_first:
            await upload(house, "user", USERS)
        assert len(await house.recommended("user_to_products", rows=20)) == 20, "a recommender follows by now"
        await house.ask("POST", "/v1/interactions", {"data": INTERACTIONS})
        if not users_first:
            await upload(house, "user", USERS)
        await assert_cohorts(house)
        body = {"anonymous_id": "cold", "rows": 3, "user_cohort": {"country": "FR"}, "explain": True}
        reply = await house.ask("POST", "/v1/recommendation/user_to_products", body)
        assert "live:cohort" in reply["data"]["products"][0]["_explain"]["came_from"]


@pytest.mark.parametrize("settled", ["nothing", "everything", "users", "interactions"])
async def test_cohorts_survive_a_restart_and_erased_users_leave_them(
    stores: Stores, tmp_path: Path, settled: str
) -> None:
    async with open_house(stores, tmp_path) as house:
        await upload(house, "product", PRODUCTS)
        if settled != "interactions":
            await upload(house, "user", USERS)
        if settled == "users":
            await house.intake.compact_round(at_once=True)
        await house.ask("POST", "/v1/interactions", {"data": INTERACTIONS})
        if settled in ("interactions", "everything"):
            await house.intake.compact_round(at_once=True)
        if settled == "interactions":
            await upload(house, "user", USERS)
    async with open_house(stores, tmp_path) as house:
        await assert_cohorts(house)
        for user_id in FR[:4]:
            await delete_user(house, user_id)

        async def is_forgotten() -> bool:
            cohort = {"country": "FR"}
            plain = await house.recommended("user_to_products", anonymous_id="cold", rows=20)
            return (
                await house.recommended("user_to_products", anonymous_id="cold", rows=20, user_cohort=cohort)
                == plain
            )

        await until(is_forgotten, 7.5)
    async with open_house(stores, tmp_path) as house:
        assert await is_forgotten()
