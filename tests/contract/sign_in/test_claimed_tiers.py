"""Tiers by a claim of the provider of identities: at the sign-in, and at each refresh of a grant."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass

import pytest

from cluster.access_tier import parse_claim_values, tiers_from_claims
from cluster.admin.accounts import AccountAdmin
from cluster.clock import SystemClock
from cluster.records.account import Account
from cluster.store.stores import Stores
from deployments.archive.oauth.services import OAuthServices
from deployments.sign_in.claimed_tier_sync import CLAIM_LIFE_MS, EVERY_MS
from deployments.sign_in.identity_provider import ProviderConfig
from tests.contract.console.test_identity_provider import come_back
from tests.fakes.archive_oauth import (
    RESOURCE,
    Person,
    Program,
    an_account,
    answer_of,
    app_over,
    http_over,
    oauth_services,
)
from tests.fakes.console import Visitor, console_app, open_console_services
from tests.fakes.openid_provider import CLIENT, EMAIL, SECRET, Provider, serving
from tests.suites.manual_clock import ManualClock

TIERS = {"premium": "subscriber", "archive": "gold"}


@dataclass
class Subscriber:
    """A person of the provider, a browser and an agent."""

    provider: Provider
    config: ProviderConfig
    stores: Stores
    clock: ManualClock
    services: OAuthServices
    program: Program
    person: Person

    async def sign_in(self) -> int:
        """Sign in through the provider, and return the status."""
        services = open_console_services(self.stores, self.clock, provider=self.config)
        return int((await come_back(Visitor(console_app(services)))).status_code)

    async def connect(self) -> dict[str, str]:
        """Return the tokens of an agent that the person allows."""
        page = await self.person.open("/oauth/authorize/archive", **self.program.asks())
        if 'name="password"' in page.text:
            await self.person.sign_in()
        code = answer_of(await self.person.press("allow"))["code"]
        tokens: dict[str, str] = (await self.program.redeem(code)).json()
        return tokens

    async def refresh(self, tokens: dict[str, str]) -> dict[str, str]:
        """Return the next tokens, a minute later."""
        self.clock.advance(EVERY_MS)
        fresh: dict[str, str] = (await self.program.refresh(tokens["refresh_token"])).json()
        return fresh

    async def tiers(self, tokens: dict[str, str]) -> set[str] | None:
        """Return the tiers of an access token; None if it is refused."""
        await self.services.access_tokens.refresh()
        caller = await self.services.access_tokens.find_caller(tokens["access_token"], RESOURCE)
        return None if caller is None else set(caller.tiers) - {"registered"}

    async def account(self) -> Account:
        """Return the account as it is stored."""
        account = await self.stores.accounts.get(EMAIL)
        assert account is not None
        return account


@pytest.fixture
async def subscriber(memory_stores: Stores) -> AsyncIterator[Subscriber]:
    provider = Provider()
    async with serving(provider):
        config = ProviderConfig(provider.issuer, CLIENT, SECRET, "subscription", TIERS)
        clock = ManualClock(SystemClock().now_ms())
        services = oauth_services(memory_stores, clock, provider=config)
        await memory_stores.accounts.add(an_account(EMAIL))
        app = app_over(services)
        async with http_over(app) as http, http_over(app) as browser:
            program = Program(http)
            await program.register()
            person = Person(browser, EMAIL)
            yield Subscriber(provider, config, memory_stores, clock, services, program, person)


async def test_a_claim_opens_articles_at_the_sign_in_and_closes_them_at_the_next_refresh(
    subscriber: Subscriber,
) -> None:
    subscriber.provider.claims = {"subscription": ["premium", "newsletter"]}
    assert await subscriber.sign_in() == 303
    tokens = await subscriber.connect()
    assert await subscriber.tiers(tokens) == {"subscriber"}
    subscriber.provider.claims = {"subscription": ["premium", "archive"]}
    more = await subscriber.refresh(tokens)
    assert await subscriber.tiers(more) == {"subscriber", "gold"}
    assert await subscriber.tiers(tokens) is None, "a change ends the access tokens of all clients"
    subscriber.provider.claims = {}
    ended = await subscriber.refresh(more)
    assert await subscriber.tiers(ended) == set()
    assert await subscriber.tiers(more) is None
    assert subscriber.provider.refreshes == 2


async def test_an_equal_claim_ends_no_token(subscriber: Subscriber) -> None:
    subscriber.provider.claims = {"subscription": "premium"}
    await subscriber.sign_in()
    tokens = await subscriber.connect()
    before = await subscriber.account()
    fresh = await subscriber.refresh(tokens)
    after = await subscriber.account()
    assert await subscriber.tiers(tokens) == await subscriber.tiers(fresh) == {"subscriber"}
    assert after.claimed_tiers["subscriber"] > before.claimed_tiers["subscriber"]
    assert after.oidc_refresh != before.oidc_refresh
    assert "refresh-" not in after.model_dump_json()


async def test_a_subscription_that_the_provider_ends_closes_even_if_it_only_refuses(
    subscriber: Subscriber,
) -> None:
    subscriber.provider.claims = {"subscription": "premium"}
    await subscriber.sign_in()
    tokens = await subscriber.connect()
    subscriber.provider.refresh_tokens.clear()
    assert await subscriber.tiers(await subscriber.refresh(tokens)) == set()
    assert (await subscriber.account()).oidc_refresh == ""


async def test_refresh_tokens_that_come_without_an_id_token_replace_each_other(
    subscriber: Subscriber,
) -> None:
    subscriber.provider.claims = {"subscription": "premium"}
    await subscriber.sign_in()
    tokens = await subscriber.connect()
    subscriber.provider.sends_id_token_at_refresh = False
    for _ in range(3):
        tokens = await subscriber.refresh(tokens)
        assert await subscriber.tiers(tokens) == {"subscriber"}
    assert subscriber.provider.refreshes == 3
    subscriber.provider.sends_id_token_at_refresh = True
    subscriber.provider.claims = {}
    assert await subscriber.tiers(await subscriber.refresh(tokens)) == set()


async def test_another_subject_in_the_answer_gives_no_tiers(subscriber: Subscriber) -> None:
    subscriber.provider.claims = {"subscription": "premium"}
    await subscriber.sign_in()
    tokens = await subscriber.connect()
    subscriber.provider.claims = {"subscription": "archive", "sub": "somebody else"}
    assert await subscriber.tiers(await subscriber.refresh(tokens)) == set()


async def test_tiers_that_a_silent_provider_claimed_end_after_a_day(subscriber: Subscriber) -> None:
    subscriber.provider.claims = {"subscription": "premium"}
    await subscriber.sign_in()
    tokens = await subscriber.connect()
    subscriber.provider.is_away = True
    subscriber.clock.advance(2 * 3_600_000)
    tokens = await subscriber.refresh(tokens)
    assert await subscriber.tiers(tokens) == {"subscriber"}
    subscriber.clock.advance(CLAIM_LIFE_MS - 2 * 3_600_000 - 3 * EVERY_MS)
    tokens = await subscriber.refresh(tokens)
    assert int(tokens["expires_in"]) <= EVERY_MS // 1000
    subscriber.clock.advance(EVERY_MS)
    assert await subscriber.tiers(tokens) is None
    assert await subscriber.tiers(await subscriber.refresh(tokens)) == set()


async def test_a_change_by_the_api_ends_the_claim_until_the_provider_repeats_it(
    subscriber: Subscriber,
) -> None:
    subscriber.provider.claims = {"subscription": "premium"}
    await subscriber.sign_in()
    tokens = await subscriber.connect()
    admin = AccountAdmin(subscriber.services.accounts, subscriber.services.grants)
    await admin.set_tiers(EMAIL, {}, subscriber.clock.now_ms())
    assert await subscriber.tiers(tokens) is None
    subscriber.provider.claims = {}
    fresh = (await subscriber.program.refresh(tokens["refresh_token"])).json()
    assert await subscriber.tiers(fresh) == set()
    assert subscriber.provider.refreshes == 1


async def test_clients_that_refresh_at_once_ask_the_provider_once(subscriber: Subscriber) -> None:
    subscriber.provider.claims = {"subscription": "premium"}
    await subscriber.sign_in()
    many = [await subscriber.connect() for _ in range(5)]
    subscriber.clock.advance(EVERY_MS)
    answers = await asyncio.gather(*(subscriber.program.refresh(tokens["refresh_token"]) for tokens in many))
    assert [await subscriber.tiers(answer.json()) for answer in answers] == [{"subscriber"}] * 5
    assert subscriber.provider.refreshes == 1


async def test_without_a_claim_no_refresh_token_is_requested(
    memory_stores: Stores, subscriber: Subscriber
) -> None:
    subscriber.config = ProviderConfig(subscriber.provider.issuer, CLIENT, SECRET)
    subscriber.provider.claims = {"subscription": "premium"}
    assert await subscriber.sign_in() == 303
    account = await subscriber.account()
    assert (account.claimed_tiers, account.oidc_refresh, account.tier_epoch) == ({}, "", 0)
    assert not subscriber.provider.refresh_tokens


@pytest.mark.parametrize(
    ("claims", "name", "tiers"),
    [
        ({"plan": "premium"}, "plan", {"subscriber"}),
        ({"plan": ["premium", "archive", "x"]}, "plan", {"subscriber", "gold"}),
        ({"https://example.com/plan": "premium"}, "https://example.com/plan", {"subscriber"}),
        ({"realm": {"roles": ["archive"]}}, "realm.roles", {"gold"}),
        ({"paid": True}, "paid", {"silver"}),
        ({"level": 2}, "level", {"bronze"}),
        ({"plan": {"premium": 1}}, "plan", set()),
        ({"plan": [["premium"], None, 1.5]}, "plan", set()),
        ({}, "plan.deep", set()),
    ],
)
def test_the_values_of_a_claim_are_mapped_to_tiers(
    claims: dict[str, object], name: str, tiers: set[str]
) -> None:
    values = parse_claim_values("premium=subscriber, archive=gold,true=silver,2=bronze")
    assert tiers_from_claims(claims, name, values) == tiers


def test_without_a_map_the_values_are_the_tiers() -> None:
    claims = {"plan": ["gold", "open", "registered", "No Tier", "a" * 65, *(f"t{at}" for at in range(40))]}
    tiers = tiers_from_claims(claims, "plan", {})
    assert "gold" in tiers
    assert not tiers & {"open", "registered", "No Tier"}
    assert len(tiers) == 20


@pytest.mark.parametrize("text", ["premium", "=gold", "premium=", "premium=open", "premium=Gold"])
def test_a_map_that_names_no_tier_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="value=tier"):
        parse_claim_values(text)
