"""Tiers of accounts: they stand in access tokens, and end within a second on every replica."""

from __future__ import annotations

import pytest

from cluster.access_tier import may_read
from cluster.admin.accounts import AccountAdmin
from cluster.records.account import Account, Grant
from deployments.archive.oauth.access_tokens import AccessTokens
from tests.contract.oauth.conftest import Scene
from tests.fakes.archive import ArchiveCorner, open_archive_corner
from tests.fakes.archive_oauth import RESOURCE, an_account

HOUR_MS = 3_600_000


def account_admin(scene: Scene) -> AccountAdmin:
    return AccountAdmin(scene.services.accounts, scene.services.grants)


async def tiers_of(scene: Scene, token: str) -> frozenset[str] | None:
    caller = await scene.services.access_tokens.find_caller(token, RESOURCE)
    return None if caller is None else caller.tiers


async def test_a_subscription_opens_and_closes_without_a_new_sign_in(scene: Scene) -> None:
    tokens = await scene.tokens()
    assert await tiers_of(scene, tokens["access_token"]) == {"registered"}
    await account_admin(scene).set_tiers("ada", {"subscriber": 0, "gold": 0}, scene.clock.now_ms())
    await scene.heard()
    assert await tiers_of(scene, tokens["access_token"]) is None
    tokens = (await scene.program.refresh(tokens["refresh_token"])).json()
    assert await tiers_of(scene, tokens["access_token"]) == {"registered", "subscriber", "gold"}
    await account_admin(scene).set_tiers("ada", {}, scene.clock.now_ms())
    await scene.heard()
    assert await scene.program.use(tokens["access_token"]) == 401
    tokens = (await scene.program.refresh(tokens["refresh_token"])).json()
    assert await tiers_of(scene, tokens["access_token"]) == {"registered"}


async def test_every_replica_refuses_the_old_tiers_after_its_next_poll(scene: Scene) -> None:
    await account_admin(scene).set_tiers("ada", {"subscriber": 0}, scene.clock.now_ms())
    await scene.heard()
    token = (await scene.tokens())["access_token"]
    replicas = [AccessTokens(scene.services.grants, scene.services.signing, scene.clock) for _ in range(3)]
    for replica in replicas:
        assert await replica.find_caller(token, RESOURCE) is not None
    await account_admin(scene).set_tiers("ada", {}, scene.clock.now_ms())
    for replica in replicas:
        await replica.refresh()
        assert await replica.find_caller(token, RESOURCE) is None


async def test_a_tier_with_an_end_ends_with_its_token(scene: Scene) -> None:
    now_ms = scene.clock.now_ms()
    ends = {"subscriber": now_ms + 90_500, "gold": now_ms + 2 * HOUR_MS, "gone": now_ms - 1}
    await account_admin(scene).set_tiers("ada", ends, now_ms)
    answer = await scene.tokens()
    assert int(answer["expires_in"]) == 90
    assert await tiers_of(scene, answer["access_token"]) == {"registered", "subscriber", "gold"}
    scene.clock.advance(91_000)
    assert await tiers_of(scene, answer["access_token"]) is None
    later = (await scene.program.refresh(answer["refresh_token"])).json()
    assert later["expires_in"] == 3600
    assert await tiers_of(scene, later["access_token"]) == {"registered", "gold"}


async def test_concurrent_changes_leave_no_token_of_an_earlier_state(scene: Scene) -> None:
    admin = account_admin(scene)
    await admin.set_tiers("ada", {"subscriber": 0}, scene.clock.now_ms())
    await scene.heard()
    first = (await scene.tokens())["access_token"]
    before = await admin.find("ada")
    # Another change between the read and the write of this one.
    await scene.services.accounts.update(
        "ada", lambda account: account.model_copy(update={"tier_epoch": account.tier_epoch + 1})
    )
    between = scene.services.access_tokens.issue(await a_grant(scene), 3600, await admin.find("ada"))
    await admin.set_tiers("ada", {}, scene.clock.now_ms())
    await scene.services.grants.revoke_tiers(before.user_id, [before.tier_epoch], now_ms=scene.clock.now_ms())
    await scene.heard()
    for token in (first, between):
        assert await tiers_of(scene, token) is None


async def a_grant(scene: Scene) -> Grant:
    (active, *_) = await scene.services.grants.of_user("usr-ada")
    return active.grant


async def test_a_token_of_an_earlier_release_reads_open_and_registered_articles(scene: Scene) -> None:
    await scene.tokens()
    token = scene.services.access_tokens.issue(await a_grant(scene), 3600)
    assert await tiers_of(scene, token) == {"registered"}


@pytest.fixture
async def corner() -> ArchiveCorner:
    return await open_archive_corner()


ACCESSES = {"na-1002": "subscriber", "na-7 (b)": "registered", "na-8": "gold"}


async def test_over_every_tool_a_user_gets_the_articles_of_their_tiers_alone(corner: ArchiveCorner) -> None:
    corner.archive.access = ACCESSES
    everything = ("river rules", "brackets and a comet", "comet seen again in June")
    pairs = {}
    whole = account_with({"subscriber": 0, "gold": 0})
    token = corner.services.oauth.access_tokens.issue(grant_of(corner), 3600, whole)
    for question in everything:
        for result in await corner.ask(question, token=token):
            pairs[result["product_id"]] = result["offset"]
    assert set(pairs) == set(ACCESSES)
    for tiers in ({}, {"subscriber": 0}, {"gold": 0}, {"subscriber": 0, "gold": 0}):
        token = corner.services.oauth.access_tokens.issue(grant_of(corner), 3600, account_with(tiers))
        readable = frozenset(tiers) | {"registered"}
        for question in everything:
            for result in await corner.ask(question, token=token):
                assert may_read(ACCESSES[result["product_id"]], readable)
        for product_id, access in ACCESSES.items():
            read, unknown = [
                await corner.tool(
                    "get_archive_article", {"product_id": product_id, "offset": offset}, token=token
                )
                for offset in (pairs[product_id], 1)
            ]
            assert ("result" in read) == may_read(access, readable)
            if "error" in read:
                assert read["error"] == unknown["error"], "a locked article is refused as one that never was"


def account_with(tiers: dict[str, int]) -> Account:
    return an_account("ida").model_copy(update={"user_id": "ida", "tiers": tiers, "tier_epoch": 1})


def grant_of(corner: ArchiveCorner) -> Grant:
    return Grant(
        grant_id="g-ida", user_id="ida", username="ida", client_id="client-1", client_name="Example Agent",
        resource=RESOURCE, created_at=corner.clock.now_ms(),
    )  # fmt: skip


async def test_the_switch_of_teasers_names_locked_articles_and_changes_nothing_else() -> None:
    plain, teasing = await open_archive_corner(), await open_archive_corner(has_teasers=True)
    corners = (plain, teasing)
    for corner in corners:
        corner.archive.access = ACCESSES
    whole = plain.archive.articles
    named: set[str] = set()
    for question in ("river rules", "brackets and a comet", "comet seen again in June"):
        for tiers in ({}, {"subscriber": 0}, {"subscriber": 0, "gold": 0}):
            before, after = [
                (await corner.tool("ask_archive", {"question": question}, token=token_of(corner, tiers)))["result"]
                for corner in corners
            ]  # fmt: skip
            assert "locked_articles" not in before["structuredContent"]
            assert before["structuredContent"]["results"] == after["structuredContent"]["results"]
            for teaser in after["structuredContent"].get("locked_articles", ()):
                assert set(teaser) == {"product_title", "url"}
                (article,) = [entry for entry in whole.values() if entry.url == teaser["url"]]
                assert not may_read(ACCESSES.get(article.product_id, ""), frozenset(tiers) | {"registered"})
                named.add(article.product_id)
    assert named == {"na-1002"}, "na-8 has no address"


def token_of(corner: ArchiveCorner, tiers: dict[str, int]) -> str:
    return corner.services.oauth.access_tokens.issue(grant_of(corner), 3600, account_with(tiers))
