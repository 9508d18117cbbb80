"""Sign-in through a real OpenID provider over HTTP."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest
from joserfc.jwk import OctKey, RSAKey

from cluster.clock import SystemClock
from cluster.errors import Unavailable
from cluster.store.stores import Stores
from deployments.console.pages.access import oidc_signin as provider_pages
from deployments.edge.limits.token_buckets import BucketRate
from deployments.sign_in import identity_provider
from deployments.sign_in.identity_provider import IdentityProvider, ProviderConfig
from tests.fakes.archive_oauth import an_account
from tests.fakes.console import Visitor, console_app, open_console_services
from tests.fakes.openid_provider import CLIENT, EMAIL, SECRET, Provider, serving
from tests.suites.manual_clock import ManualClock


@pytest.fixture
async def provider() -> AsyncIterator[Provider]:
    provider = Provider()
    async with serving(provider):
        yield provider


def a_visitor(stores: Stores, provider: Provider) -> Visitor:
    """Open the console with the provider configured, and a browser on it."""
    config = ProviderConfig(provider.issuer, CLIENT, SECRET)
    services = open_console_services(stores, SystemClock(), provider=config)
    return Visitor(console_app(services))


async def come_back(visitor: Visitor, **changes: str) -> Any:
    """Go to the provider and come back, with changed parameters if told."""
    begun = await visitor.get("/sign-in/provider?next=/console/account")
    assert begun.status_code == 303, begun.text
    async with httpx.AsyncClient() as browser:
        sent = await browser.get(begun.headers["location"])
    query = {name: values[0] for name, values in parse_qs(urlsplit(sent.headers["location"]).query).items()}
    return await visitor.http.get("/console/sign-in/provider/callback", params={**query, **changes})


async def test_a_verified_address_signs_in_and_is_bound_to_the_subject(
    memory_stores: Stores, provider: Provider
) -> None:
    await memory_stores.accounts.add(an_account(EMAIL, "administrator"))
    visitor = a_visitor(memory_stores, provider)
    page = await visitor.get("/sign-in")
    assert "Sign in with 127.0.0.1" in page.text
    answer = await come_back(visitor)
    assert (answer.status_code, answer.headers["location"]) == (303, "/console/account")
    assert (await visitor.get("/account")).status_code == 200
    account = await memory_stores.accounts.get(EMAIL)
    assert account is not None
    assert account.oidc_subject == f"{provider.issuer} 248289761001"
    provider.claims = {"email": "renamed@example.com"}
    assert (await come_back(a_visitor(memory_stores, provider))).status_code == 303
    provider.claims = {"sub": "somebody else"}
    assert (await come_back(a_visitor(memory_stores, provider))).status_code == 403


@pytest.mark.parametrize(
    "claims",
    [
        {"email_verified": False}, {"email_verified": "true"}, {"email": "eve@example.com"}, {"aud": "another"},
        {"aud": [CLIENT, "another"]}, {"azp": "another"}, {"iss": "https://evil.example.com"}, {"nonce": "another"},
        {"exp": 1}, {"iat": 9_999_999_999}, {"sub": ""}, {"exp": None},
    ],
)  # fmt: skip
async def test_any_wrong_claim_signs_nobody_in(
    memory_stores: Stores, provider: Provider, claims: dict[str, Any]
) -> None:
    await memory_stores.accounts.add(an_account(EMAIL, "administrator"))
    provider.claims = claims
    visitor = a_visitor(memory_stores, provider)
    assert (await come_back(visitor)).status_code == 403
    assert (await visitor.get("/account")).status_code == 303
    assert [account.username for account in await memory_stores.accounts.all()] == [EMAIL]


async def test_a_token_of_another_key_or_of_the_shared_secret_signs_nobody_in(
    memory_stores: Stores, provider: Provider
) -> None:
    await memory_stores.accounts.add(an_account(EMAIL))
    provider.signing = RSAKey.generate_key(2048, {"kid": "one"})
    assert (await come_back(a_visitor(memory_stores, provider))).status_code == 403
    provider.signing, provider.algorithm = OctKey.import_key(SECRET), "HS256"
    assert (await come_back(a_visitor(memory_stores, provider))).status_code == 403


async def test_state_cookie_and_issuer_must_fit(memory_stores: Stores, provider: Provider) -> None:
    await memory_stores.accounts.add(an_account(EMAIL))
    visitor = a_visitor(memory_stores, provider)
    assert (await come_back(visitor, state="another")).status_code == 403
    assert (await come_back(visitor, iss="https://evil.example.com")).status_code == 403
    assert (await come_back(visitor, code="another")).status_code == 403
    assert (await visitor.get("/sign-in/provider/callback?code=code-0&state=x")).status_code == 403
    begun = await come_back(visitor)
    assert begun.status_code == 303
    stranger = a_visitor(memory_stores, provider)
    assert (await stranger.get("/sign-in/provider/callback?code=code-9&state=y")).status_code == 403


async def test_a_locked_account_is_refused_and_a_silent_provider_is_unavailable(
    memory_stores: Stores, provider: Provider
) -> None:
    await memory_stores.accounts.add(an_account(EMAIL).model_copy(update={"disabled": True}))
    assert (await come_back(a_visitor(memory_stores, provider))).status_code == 403
    silent = Provider()
    silent.issuer = "http://127.0.0.1:9"
    page = await a_visitor(memory_stores, silent).get("/sign-in/provider")
    assert page.status_code == 503
    wrong = IdentityProvider(ProviderConfig(provider.issuer + "/", CLIENT, SECRET), SystemClock())
    with pytest.raises(Exception, match="names another issuer"):
        await wrong.begin("https://shop.example.com/callback")


async def test_a_provider_that_fails_at_the_exchange_of_a_code_is_unavailable(
    memory_stores: Stores, provider: Provider
) -> None:
    await memory_stores.accounts.add(an_account(EMAIL))
    provider.is_away = True
    assert (await come_back(a_visitor(memory_stores, provider))).status_code == 503


async def test_without_a_provider_there_is_no_such_page(memory_stores: Stores) -> None:
    visitor = Visitor(console_app(open_console_services(memory_stores, SystemClock())))
    assert (await visitor.get("/sign-in/provider")).status_code == 404
    assert "Sign in with" not in (await visitor.get("/sign-in")).text


async def test_a_provider_that_is_away_gets_one_request_in_some_seconds(
    memory_stores: Stores, provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    attempts = 0

    async def fail(address: str) -> dict[str, Any]:
        nonlocal attempts
        attempts += 1
        raise Unavailable("away")

    clock = ManualClock()
    services = open_console_services(
        memory_stores, clock, provider=ProviderConfig(provider.issuer, CLIENT, SECRET)
    )
    visitor = Visitor(console_app(services))
    with monkeypatch.context() as patch:
        patch.setattr(identity_provider, "_fetch", fail)
        answers = await asyncio.gather(*(visitor.http.get("/console/sign-in/provider") for _ in range(50)))
    assert ({answer.status_code for answer in answers}, attempts) == ({503}, 1)
    clock.advance(5_001)
    assert (await visitor.get("/sign-in/provider")).status_code == 303


async def test_one_address_can_not_make_the_server_flood_the_provider(
    memory_stores: Stores, provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(provider_pages, "ANSWERS", BucketRate(0.5, 3))
    config = ProviderConfig(provider.issuer, CLIENT, SECRET)
    services = open_console_services(memory_stores, ManualClock(), provider=config)
    visitor = Visitor(console_app(services))
    begun = await visitor.get("/sign-in/provider")
    sent = {"code": "guess", "state": parse_qs(urlsplit(begun.headers["location"]).query)["state"][0]}
    path = "/console/sign-in/provider/callback"
    statuses = [(await visitor.http.get(path, params=sent)).status_code for _ in range(5)]
    assert statuses == [403] * 3 + [429] * 2


async def test_new_keys_of_the_provider_are_read(memory_stores: Stores, provider: Provider) -> None:
    await memory_stores.accounts.add(an_account(EMAIL))
    clock = ManualClock(SystemClock().now_ms())
    services = open_console_services(
        memory_stores, clock, provider=ProviderConfig(provider.issuer, CLIENT, SECRET)
    )
    assert (await come_back(Visitor(console_app(services)))).status_code == 303
    provider.key = RSAKey.generate_key(2048, {"kid": "one"})
    assert (await come_back(Visitor(console_app(services)))).status_code == 403
    clock.advance(60_000)
    assert (await come_back(Visitor(console_app(services)))).status_code == 303
