"""Broken bytes under the keys of people: nobody is let in by them, and nobody else is kept out."""

from __future__ import annotations

import pytest

from cluster.records.account import Code
from cluster.store import keys
from cluster.store.connect import OpenStores
from tests.suites.doing import NOW
from tests.suites.test_people import a_code, a_grant, an_account, begin, sha

pytestmark = pytest.mark.redis


async def test_a_broken_account_is_set_aside_and_the_others_stay(redis_stores: OpenStores) -> None:
    for name in ("ada", "grace", "eve"):
        await redis_stores.accounts.add(an_account(name))
    server = redis_stores.server
    whole = await server.execute_slow("HGET", keys.account(), "ada")
    # Somebody else's account under her name, and one flipped byte.
    await server.execute_slow("HSET", keys.account(), "grace", whole)
    await server.execute_slow("HSET", keys.account(), "eve", whole[:-2] + b"x" + whole[-1:])
    assert await redis_stores.accounts.get("grace") is None
    assert [account.username for account in await redis_stores.accounts.all()] == ["ada"]
    assert await server.execute_slow("XLEN", keys.account_quarantine()) == 2
    assert await redis_stores.accounts.add(an_account("grace"))


async def test_a_broken_code_or_grant_is_no_code_or_grant(redis_stores: OpenStores) -> None:
    server, grants = redis_stores.server, redis_stores.grants
    await begin(redis_stores, a_grant("g1"))
    await begin(redis_stores, a_grant("g2"))
    await server.execute_slow("HSET", keys.oauth_grant("g1"), "grant", b"100000000{}")
    assert await grants.grant("g1") is None
    assert await grants.rotate("g1", sha("r0"), sha("r1"), now_ms=NOW, grace_ms=1000) == "gone"
    assert [active.grant.grant_id for active in await grants.of_user("usr-ada")] == ["g2"]
    # Ended all the same, though nobody can read whose it was.
    assert await grants.revoke("g1", now_ms=NOW)
    assert "g1" in (await grants.revocations()).grant_ids
    await grants.put_code(sha("c"), a_code(a_grant("g3")))
    await server.execute_slow("HSET", keys.oauth_code(sha("c")), "code", b"")
    assert await grants.redeem(sha("c"), a_grant("g3"), sha("r"), now_ms=NOW) == "gone"
    await grants.burn(sha("c"), now_ms=NOW)


async def test_everything_that_can_go_away_by_itself_does(redis_stores: OpenStores) -> None:
    await begin(redis_stores, a_grant("g1"))
    server = redis_stores.server
    code_ms = await server.execute_slow("PTTL", keys.oauth_code(sha("code of g1")))
    assert 0 < code_ms <= 600_000
    for key in (keys.oauth_grant("g1"), keys.oauth_grants("usr-ada")):
        assert 0 < await server.execute_slow("PTTL", key) <= 30 * 24 * 3_600_000


async def test_a_code_that_expires_while_it_is_burnt_leaves_nothing(
    redis_stores: OpenStores, monkeypatch: pytest.MonkeyPatch
) -> None:
    server, grants = redis_stores.server, redis_stores.grants
    await grants.put_code(sha("c"), a_code(a_grant("g1")))
    read_code = grants.code

    async def read_and_expire(sha256: str) -> Code | None:
        code = await read_code(sha256)
        await server.execute_slow("DEL", keys.oauth_code(sha256))
        return code

    monkeypatch.setattr(grants, "code", read_and_expire)
    await grants.burn(sha("c"), now_ms=NOW)
    assert await server.execute_slow("EXISTS", keys.oauth_code(sha("c"))) == 0
    assert await grants.version() == 0
