"""Use cases of tiers: who sets them, and what is refused."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from cluster.admin.accounts import AccountAdmin
from cluster.errors import Forbidden, Invalid, NotFound
from deployments.operations.all_operations import OPERATIONS
from deployments.operations.framework.operation_executor import Administration
from deployments.operations.framework.principal import Principal
from tests.fakes.admin_shop import AdminShop, open_admin_shop
from tests.fakes.archive_oauth import an_account


@pytest.fixture
async def shop(tmp_path: Path) -> AsyncIterator[AdminShop]:
    async with open_admin_shop(tmp_path) as opened:
        await opened.services.stores.accounts.add(an_account("ada"))
        yield opened


async def perform(shop: AdminShop, name: str, **given: Any) -> Any:
    root = Principal("root", "1", "console", is_administrator=True)
    return await Administration(shop.services, OPERATIONS, shop.audit, shop.corner.clock).perform(
        root, name, given
    )


async def test_tiers_are_set_shown_and_taken_away(shop: AdminShop) -> None:
    nothing = {"username": "ada", "tiers": [], "claimed": []}
    assert (await perform(shop, "tiers.show", username="ada")).to_dict() == nothing
    until = shop.corner.clock.now_ms() + 1000
    changed = await perform(shop, "tiers.set", username="Ada", tiers=["subscriber", "gold"], until=until)
    assert changed.to_dict()["tiers"] == [
        {"tier": "gold", "until": until},
        {"tier": "subscriber", "until": until},
    ]
    assert changed.to_lines()[0].rows[0][0] == "gold"
    admin = AccountAdmin(shop.services.stores.accounts, shop.services.stores.grants)
    ada = await admin.find("ada")
    await admin.set_claimed_tiers(ada, {"silver": until}, "", shop.corner.clock.now_ms())
    shown = await perform(shop, "tiers.show", username="ada")
    assert shown.to_dict()["claimed"] == [{"tier": "silver", "until": until}]
    assert [row[::2] for row in shown.to_lines()[0].rows][-1] == ("silver", "claim")
    ended = await perform(shop, "tiers.set", username="ada", tiers=[])
    assert (ended.tiers, ended.claimed) == ({}, {})
    account = await shop.services.stores.accounts.get("ada")
    assert account is not None
    assert account.tier_epoch == 3
    revoked = (await shop.services.stores.grants.revocations()).grant_ids
    assert {f"tiers:{epoch}:usr-ada" for epoch in (0, 1, 2)} <= revoked
    assert len(shop.audit.rows) == 2


async def test_equal_tiers_end_no_token_and_a_moment_of_zero_is_an_end(shop: AdminShop) -> None:
    for _ in range(3):
        await perform(shop, "tiers.set", username="ada", tiers=["gold"], until=0)
    account = await shop.services.stores.accounts.get("ada")
    assert account is not None
    assert account.tier_epoch == 1
    assert account.tiers_at(shop.corner.clock.now_ms())[0] == frozenset()
    assert len((await shop.services.stores.grants.revocations()).grant_ids) == 1


@pytest.mark.parametrize("tiers", [["open"], ["registered"], ["Gold"], ["a b"], [""], ["x" * 65], ["a"] * 21])
async def test_what_is_no_tier_is_refused(shop: AdminShop, tiers: list[str]) -> None:
    with pytest.raises(Invalid):
        await perform(shop, "tiers.set", username="ada", tiers=tiers)


async def test_only_administrators_set_tiers_of_accounts_that_exist(shop: AdminShop) -> None:
    with pytest.raises(NotFound):
        await perform(shop, "tiers.set", username="bob", tiers=[])
    owner = Principal("o", "2", "console", roles={"shop": "owner"})
    administration = Administration(shop.services, OPERATIONS, shop.audit, shop.corner.clock)
    with pytest.raises(Forbidden):
        await administration.perform(owner, "tiers.set", {"username": "ada", "tiers": ["gold"]})
