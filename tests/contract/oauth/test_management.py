"""A client reads, changes and removes its registration, and nobody else does."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

import httpx
import pytest
import structlog

from cluster.store.connect import OpenStores
from deployments.archive.oauth.services import OAuthLimits
from deployments.edge.limits.token_buckets import BucketRate
from tests.contract.oauth.conftest import Scene
from tests.fakes.archive_oauth import (
    CALLBACK,
    Person,
    Program,
    an_account,
    app_over,
    http_over,
    oauth_services,
)
from tests.suites.manual_clock import ManualClock

OTHER = "https://host.example/cb"


async def register(scene: Scene, **more: Any) -> dict[str, Any]:
    """Register and give the whole answer."""
    answer = await scene.program.register(**more)
    assert answer.status_code == 201, answer.text
    registration: dict[str, Any] = answer.json()
    return registration


async def manage(
    scene: Scene, method: str, registered: dict[str, Any], body: Any = None, token: str | None = None
) -> httpx.Response:
    """Call the address that the registration named."""
    token = registered["registration_access_token"] if token is None else token
    headers = {"authorization": f"Bearer {token}"} if token else {}
    more = {} if body is None else {"json": body}
    return await scene.http.request(method, registered["registration_client_uri"], headers=headers, **more)


def update_of(registered: dict[str, Any], **more: Any) -> dict[str, Any]:
    """Write an update that changes nothing but what is named."""
    ours = {
        "registration_access_token", "registration_client_uri", "client_secret_expires_at", "client_id_issued_at",
    }  # fmt: skip
    return {name: value for name, value in registered.items() if name not in ours} | more


@pytest.mark.parametrize("method", ["none", "client_secret_basic"])
async def test_a_registration_reads_back_as_it_was_answered(scene: Scene, method: str) -> None:
    uris = [CALLBACK, OTHER, "com.example.app:/x"]
    registered = await register(scene, redirect_uris=uris, token_endpoint_auth_method=method)
    scene.clock.advance(90 * 86_400_000)
    answer = await manage(scene, "GET", registered)
    assert answer.status_code == 200
    assert answer.headers["cache-control"] == "no-store"
    assert answer.headers["access-control-allow-origin"] == "*"
    assert answer.json() == registered
    assert None not in answer.json().values()


@pytest.mark.parametrize("decision", ["allow", "deny"])
async def test_an_address_that_was_taken_out_gets_no_answer_from_a_page_that_is_open(
    scene: Scene, decision: str
) -> None:
    registered = await register(scene, redirect_uris=[CALLBACK, OTHER])
    await scene.consent(redirect_uri=OTHER)
    assert (
        await manage(scene, "PUT", registered, update_of(registered, redirect_uris=[CALLBACK]))
    ).is_success
    answer = await scene.person.press(decision)
    assert answer.headers["location"].startswith("/oauth/authorize/archive?")
    assert (await scene.person.follow()).status_code == 400


async def test_an_update_replaces_everything_and_is_in_force_at_once(scene: Scene) -> None:
    registered = await register(scene)
    answer = await manage(
        scene, "PUT", registered, update_of(registered, client_name="Desk", redirect_uris=[OTHER])
    )
    assert answer.status_code == 200
    assert answer.json() == {**registered, "client_name": "Desk", "redirect_uris": [OTHER]}
    assert (await manage(scene, "GET", registered)).json() == answer.json()
    old = await scene.person.open("/oauth/authorize/archive", **scene.program.asks())
    assert old.status_code == 400
    consent = await scene.consent(redirect_uri=OTHER)
    assert "Desk wants to use the archive" in consent.text.replace("<bdi>", "").replace("</bdi>", "")
    nameless = {"client_id": registered["client_id"], "redirect_uris": [CALLBACK]}
    assert "client_name" not in (await manage(scene, "PUT", registered, nameless)).json()


async def test_an_update_may_ask_for_a_secret_and_may_not_choose_it(scene: Scene) -> None:
    registered = await register(scene)
    changed = (
        await manage(
            scene,
            "PUT",
            registered,
            update_of(registered, token_endpoint_auth_method="client_secret_post"),
        )
    ).json()
    scene.program.client_id = registered["client_id"]
    code = await scene.code()
    assert (await scene.program.redeem(code)).status_code == 401
    code = await scene.code()
    assert (await scene.program.redeem(code, client_secret=changed["client_secret"])).status_code == 200
    assert (await manage(scene, "PUT", changed, update_of(changed))).json() == changed
    chosen = await manage(scene, "PUT", changed, update_of(changed, client_secret="mine"))
    assert (chosen.status_code, chosen.json()["error"]) == (400, "invalid_client_metadata")


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"redirect_uris": ["http://evil.example/cb"]}, "invalid_redirect_uri"),
        ({"redirect_uris": []}, "invalid_redirect_uri"),
        ({"redirect_uris": [f"https://host.example/{n}" for n in range(21)]}, "invalid_redirect_uri"),
        ({"client_name": "x" * 101}, "invalid_client_metadata"),
        ({"token_endpoint_auth_method": "private_key_jwt"}, "invalid_client_metadata"),
        ({"grant_types": ["client_credentials"]}, "invalid_client_metadata"),
        ({"client_id": "c_other"}, "invalid_client_metadata"),
        ({"client_id": None}, "invalid_client_metadata"),
        ({"client_secret": "x"}, "invalid_client_metadata"),
        ({"registration_access_token": "x"}, "invalid_client_metadata"),
        ({"client_id_issued_at": 1}, "invalid_client_metadata"),
    ],
)
async def test_an_update_obeys_the_rules_of_registration(
    scene: Scene, change: dict[str, Any], error: str
) -> None:
    registered = await register(scene)
    answer = await manage(scene, "PUT", registered, update_of(registered, **change))
    assert (answer.status_code, answer.json()["error"]) == (400, error)
    assert (await manage(scene, "GET", registered)).json() == registered


@pytest.mark.parametrize("body", [b"", b"[]", b"\xff", b"[" * 15_000])
async def test_a_body_that_is_no_object_changes_nothing(scene: Scene, body: bytes) -> None:
    registered = await register(scene)
    headers = {"authorization": f"Bearer {registered['registration_access_token']}"}
    answer = await scene.http.put(registered["registration_client_uri"], content=body, headers=headers)
    assert answer.status_code == 400
    assert (await manage(scene, "GET", registered)).json() == registered


async def test_a_removal_takes_the_client_its_grants_and_their_tokens(scene: Scene) -> None:
    registered = await register(scene)
    other = await register(scene)
    scene.program.client_id = registered["client_id"]
    tokens = await scene.tokens()
    code = await scene.code()
    scene.program.client_id = other["client_id"]
    others = await scene.tokens()
    answer = await manage(scene, "DELETE", registered)
    assert (answer.status_code, answer.content) == (204, b"")
    await scene.heard()
    assert await scene.program.use(tokens["access_token"]) == 401
    assert await scene.program.use(others["access_token"]) == 200
    assert [active.grant.client_id for active in await scene.services.grants.of_user("usr-ada")] == [
        other["client_id"]
    ]
    scene.program.client_id = registered["client_id"]
    for refused in (await scene.program.refresh(tokens["refresh_token"]), await scene.program.redeem(code)):
        assert (refused.status_code, refused.json()["error"]) == (401, "invalid_client")
    page = await scene.person.open("/oauth/authorize/archive", **scene.program.asks())
    assert page.status_code == 400
    for method in ("GET", "PUT", "DELETE"):
        assert (await manage(scene, method, registered, update_of(registered))).status_code == 401
    assert (await manage(scene, "GET", other)).status_code == 200


async def test_nobody_manages_with_another_token(scene: Scene) -> None:
    registered = await register(scene)
    other = await register(scene, client_name="Other")
    tokens = await scene.tokens()
    good = registered["registration_access_token"]
    wrong = (
        "", "nonsense", other["registration_access_token"], tokens["access_token"], tokens["refresh_token"],
        good[:-1], good + "=", good[1:], registered["client_id"],
    )  # fmt: skip
    for token in wrong:
        for method in ("GET", "PUT", "DELETE"):
            answer = await manage(scene, method, registered, update_of(registered), token=token)
            assert (answer.status_code, answer.json()["error"]) == (401, "invalid_token")
            challenge = answer.headers["www-authenticate"]
            assert challenge.startswith('Bearer realm="archive"')
            assert ("invalid_token" in challenge) is bool(token)
    unknown = {**registered, "registration_client_uri": registered["registration_client_uri"] + "x"}
    assert (await manage(scene, "GET", unknown)).status_code == 401
    assert (await manage(scene, "GET", registered)).json() == registered
    assert await scene.program.use(good) == 401


async def test_other_methods_are_refused_and_browsers_may_ask(scene: Scene) -> None:
    registered = await register(scene)
    for method in ("POST", "PATCH", "HEAD", "OPTIONS"):
        refused = await manage(scene, method, registered)
        assert (refused.status_code, refused.headers["allow"]) == (405, "GET, PUT, DELETE")
    asking = {"origin": "https://x.example", "access-control-request-method": "DELETE"}
    allowed = await scene.http.options(registered["registration_client_uri"], headers=asking)
    assert (allowed.status_code, allowed.headers["access-control-allow-methods"]) == (204, "GET, PUT, DELETE")


async def test_management_shares_the_limits_of_registration_and_limits_changes(scene: Scene) -> None:
    registered = await register(scene)
    for _ in range(500):
        assert await scene.services.changes.wait_s() == 0
    answer = await manage(scene, "DELETE", registered)
    assert (answer.status_code, answer.headers["retry-after"]) == (429, "5")
    assert (await manage(scene, "GET", registered)).status_code == 200
    scene.clock.advance(5_000)
    assert (await manage(scene, "DELETE", registered)).status_code == 204
    few = OAuthLimits(registrations=BucketRate(1, 3))
    async with http_over(app_over(replace(scene.services, limits=few)), address="203.0.113.8") as http:
        slow = replace(scene, http=http)
        statuses = [(await manage(slow, "GET", registered)).status_code for _ in range(4)]
        assert statuses == [401, 401, 401, 429]


async def test_addresses_too_long_for_a_token_leave_a_registration_unmanaged(scene: Scene) -> None:
    letters = Random(1)
    long = [f"https://host.example/{letters.randbytes(250).hex()}" for _ in range(20)]
    answer = await register(scene, redirect_uris=long)
    assert {"registration_client_uri", "registration_access_token"} & set(answer) == set()
    few = await register(scene, redirect_uris=[f"https://host.example/callback/{n}" for n in range(20)])
    assert len(few["registration_access_token"]) < 2_000


async def test_neither_log_nor_store_holds_a_registration_token(redis_stores: OpenStores) -> None:
    clock = ManualClock()
    services = oauth_services(redis_stores, clock)
    await redis_stores.accounts.add(an_account())
    app = app_over(services)
    async with http_over(app) as http, http_over(app) as browser:
        scene = Scene(clock, services, app, http, Person(browser), Program(http))
        with structlog.testing.capture_logs() as lines:
            registered = await register(scene, token_endpoint_auth_method="client_secret_post")
            changed = await manage(scene, "PUT", registered, update_of(registered, client_name="Desk"))
            assert changed.json()["client_name"] == "Desk"
            kept = repr(await redis_stores.server.execute_slow("HGETALL", "kiosk:{oauth}:clients"))
            assert (await manage(scene, "DELETE", registered)).status_code == 204
    assert "Desk" in kept
    assert "client_removed" in repr(lines)
    for secret in (registered["registration_access_token"], registered["client_secret"]):
        assert secret not in kept
        assert secret not in repr(lines)
