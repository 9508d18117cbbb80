"""Ending a grant, on this replica and on others, and starting again after a restart."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from functools import partial

import pytest
from httpx import Response

from cluster.clock import SystemClock
from cluster.crypto import Vault
from cluster.errors import Unavailable
from cluster.store.administration.grants import Revocations
from cluster.store.connect import OpenStores
from cluster.store.stores import Stores
from deployments.archive.oauth.access_tokens import AccessTokens
from deployments.sign_in.sign_in import SignIn
from tests.contract.oauth.conftest import Scene
from tests.fakes.archive_oauth import (
    MASTER,
    RESOURCE,
    Person,
    Program,
    an_account,
    answer_of,
    app_over,
    http_over,
    oauth_services,
)
from tests.suites.waiting import until


async def give_back(scene: Scene, token: str, **more: str) -> int:
    """Revoke a token as clients do."""
    return (await revoke(scene, token, **more)).status_code


async def revoke(scene: Scene, token: str, **more: str) -> Response:
    """Send the request of a revocation."""
    data = {"token": token, "client_id": scene.program.client_id, **more}
    return await scene.http.post("/oauth/revoke", data=data)


@pytest.mark.parametrize("kind", ["access_token", "refresh_token"])
async def test_giving_either_token_back_ends_the_grant(scene: Scene, kind: str) -> None:
    tokens = await scene.tokens()
    assert await give_back(scene, tokens[kind], token_type_hint="anything") == 200
    await scene.heard()
    assert await scene.program.use(tokens["access_token"]) == 401
    assert (await scene.program.refresh(tokens["refresh_token"])).json()["error"] == "invalid_grant"
    assert await give_back(scene, tokens[kind]) == 200


async def test_unknown_tokens_are_no_error_and_tokens_of_another_client_are_refused(scene: Scene) -> None:
    tokens = await scene.tokens()
    assert await give_back(scene, "nonsense") == 200
    mine = scene.program.client_id
    await scene.program.register(client_name="Other")
    for kind in ("refresh_token", "access_token"):
        answer = await revoke(scene, tokens[kind])
        assert (answer.status_code, answer.json()["error"]) == (400, "invalid_grant")
    await scene.heard()
    assert await scene.program.use(tokens["access_token"]) == 200
    scene.program.client_id = "c_unknown"
    assert await give_back(scene, tokens["refresh_token"]) == 401
    assert (await scene.http.post("/oauth/revoke", data={"client_id": mine})).status_code == 400


@pytest.fixture
async def replicas(redis_stores: OpenStores) -> AsyncIterator[list[Scene]]:
    """Two replicas over one Redis, following revocations by themselves."""
    clock = SystemClock()
    await redis_stores.accounts.add(an_account())
    scenes = []
    for _ in range(2):
        services = oauth_services(redis_stores, clock)
        app = app_over(services)
        http = http_over(app)
        scenes.append(Scene(clock, services, app, http, Person(http_over(app)), Program(http)))  # type: ignore[arg-type]
        await services.access_tokens.start()
    yield scenes
    for scene in scenes:
        await scene.services.access_tokens.close()
        await scene.http.aclose()
        await scene.person.http.aclose()


@pytest.mark.redis
async def test_every_step_may_meet_another_replica_and_a_revocation_is_heard_within_a_second(
    replicas: list[Scene],
) -> None:
    first, second = replicas
    await first.program.register()
    second.program.client_id = first.program.client_id
    await second.person.open("/oauth/authorize/archive", **second.program.asks())
    first.person.http.cookies = second.person.http.cookies
    first.person.page = second.person.page
    await first.person.sign_in()
    second.person.http.cookies = first.person.http.cookies
    second.person.page = first.person.page
    code = answer_of(await second.person.press("allow"))["code"]
    tokens = (await first.program.redeem(code)).json()
    assert await second.program.use(tokens["access_token"]) == 200
    tokens = (await second.program.refresh(tokens["refresh_token"])).json()
    assert await give_back(first, tokens["refresh_token"]) == 200

    async def is_heard(replica: Scene) -> bool:
        return await replica.program.use(tokens["access_token"]) == 401

    took_s = [await until(partial(is_heard, replica)) for replica in (second, first)]
    assert sum(took_s) < 1.0


@pytest.mark.redis
async def test_a_restart_is_not_noticed(redis_stores: OpenStores) -> None:
    clock = SystemClock()
    await redis_stores.accounts.add(an_account())
    first = oauth_services(redis_stores, clock)
    async with http_over(app_over(first)) as http, http_over(app_over(first)) as browser:
        scene = Scene(clock, first, app_over(first), http, Person(browser), Program(http))  # type: ignore[arg-type]
        await scene.program.register()
        tokens, code = await scene.tokens(), await scene.code()
    again = oauth_services(redis_stores, clock)
    async with http_over(app_over(again)) as http:
        program = Program(http, scene.program.client_id)
        assert await program.use(tokens["access_token"]) == 200
        assert (await program.refresh(tokens["refresh_token"])).status_code == 200
        assert (await program.redeem(code)).status_code == 200


async def test_at_rest_a_token_is_checked_without_asking_the_store(scene: Scene) -> None:
    token = (await scene.tokens())["access_token"]
    grants = scene.services.grants
    calls: list[str] = []

    class Watched:
        async def version(self) -> int:
            calls.append("version")
            return await grants.version()

        async def revocations(self) -> Revocations:
            calls.append("revocations")
            return await grants.revocations()

    access_tokens = AccessTokens(Watched(), scene.services.signing, scene.clock)  # type: ignore[arg-type]
    for _ in range(100):
        assert await access_tokens.find_caller(token, RESOURCE) is not None
    assert calls == ["version", "revocations"]


class Away:
    """A store that is away until told otherwise."""

    def __init__(self, stores: Stores) -> None:
        self._grants = stores.grants
        self.away = True
        self.reads = 0

    async def version(self) -> int:
        self.reads += 1
        if self.away:
            raise Unavailable("away")
        return await self._grants.version()

    async def revocations(self) -> Revocations:
        return await self._grants.revocations()


async def test_nobody_is_let_in_before_revocations_were_read_and_an_outage_later_changes_nothing(
    scene: Scene, memory_stores: Stores
) -> None:
    token = (await scene.tokens())["access_token"]
    store = Away(memory_stores)
    access_tokens = AccessTokens(store, scene.services.signing, scene.clock, poll_s=0.01)  # type: ignore[arg-type]
    await access_tokens.start()
    with pytest.raises(Unavailable):
        await access_tokens.find_caller(token, RESOURCE)
    # A forged token gets the 401 that HAProxy must see, not the reply to valid tokens.
    assert await access_tokens.find_caller("forged", RESOURCE) is None
    store.away = False
    assert await access_tokens.find_caller(token, RESOURCE) is not None
    store.away = True
    reads = store.reads
    await until(lambda: store.reads > reads + 1)
    assert await access_tokens.find_caller(token, RESOURCE) is not None
    store.away = False
    (active,) = await memory_stores.grants.of_user("usr-ada")
    await memory_stores.grants.revoke(active.grant.grant_id, now_ms=scene.clock.now_ms())

    async def is_refused() -> bool:
        return await access_tokens.find_caller(token, RESOURCE) is None

    await until(is_refused)
    assert access_tokens.is_following
    await access_tokens.close()
    assert not access_tokens.is_following


async def test_without_the_store_people_and_programs_get_a_retry_answer(
    scene: Scene, memory_stores: Stores
) -> None:
    class Gone:
        def __getattr__(self, name: str) -> object:
            async def away(*_: object, **__: object) -> object:
                raise Unavailable("away", retry_after_s=3)

            return away

    away = SignIn(replace(memory_stores, accounts=Gone()), Vault(MASTER), scene.clock)  # type: ignore[arg-type]
    services = replace(scene.services, grants=Gone(), accounts=Gone(), sign_in=away)  # type: ignore[arg-type]
    async with http_over(app_over(services)) as http, http_over(app_over(services)) as browser:
        program = Program(http, scene.program.client_id)
        answer = await program.redeem("x")
        assert (answer.status_code, answer.headers["retry-after"]) == (503, "3")
        assert answer.json()["error"] == "temporarily_unavailable"
        person = Person(browser)
        assert (await person.open("/oauth/authorize/archive", **program.asks())).status_code == 200
        page = await person.press("sign-in", username="ada", password="x")
        assert (page.status_code, page.headers["content-type"]) == (503, "text/html; charset=utf-8")
        assert (await program.register()).status_code == 201
