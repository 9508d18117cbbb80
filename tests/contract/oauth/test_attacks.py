"""Guessing, flooding, and waiting for the right second; and what of all that is written down."""

from __future__ import annotations

import asyncio
import json
import time
from typing import Any

import pytest
import structlog

from cluster.errors import TooMany
from cluster.records.account import hash_password
from cluster.store.connect import OpenStores
from cluster.store.stores import Stores
from deployments.archive.oauth.services import OAuthLimits
from deployments.edge.limits.token_buckets import BucketRate, TokenBuckets
from deployments.sign_in.password_checks import MOST_WAITING, PasswordChecks
from tests.contract.oauth.conftest import Scene
from tests.fakes.archive_oauth import (
    PASSWORD,
    Person,
    Program,
    an_account,
    app_over,
    http_over,
    oauth_services,
    visible,
)
from tests.suites.manual_clock import ManualClock
from tests.suites.redis_process import RedisProcess
from tests.suites.waiting import until

AUTHORIZE = "/oauth/authorize/archive"


async def guess(scene: Scene, username: str = "ada", password: str = "wrong") -> Any:
    """Try a password."""
    await scene.person.open(AUTHORIZE, **scene.program.asks())
    return await scene.person.press("sign-in", username=username, password=password)


async def test_a_wrong_password_and_an_unknown_name_look_the_same(scene: Scene) -> None:
    wrong, unknown = await guess(scene), await guess(scene, "nobody")
    locked = an_account("eve").model_copy(update={"disabled": True})
    await scene.services.accounts.add(locked)
    shut = await guess(scene, "eve", PASSWORD)
    for answer in (wrong, unknown, shut):
        assert answer.status_code == 403
        assert "Incorrect user name or password" in visible(answer.text)
        assert (
            "set-cookie" not in answer.headers
            or "__Host-kiosk_console_session" not in answer.headers["set-cookie"]
        )
    empty = await guess(scene, "", "")
    assert empty.status_code == 403


async def test_guessing_is_stopped_before_the_password_is_looked_at(scene: Scene) -> None:
    statuses = [(await guess(scene)).status_code for _ in range(8)]
    assert statuses == [403] * 6 + [429] * 2
    stopped = await guess(scene, password=PASSWORD)
    assert stopped.status_code == 429
    assert 0 < int(stopped.headers["retry-after"]) <= 20
    assert "Too many attempts" in visible(stopped.text)
    assert (await guess(scene, "grace")).status_code == 403
    scene.clock.advance(21_000)
    assert (await guess(scene, password=PASSWORD)).status_code == 303


async def test_guessing_from_many_addresses_is_stopped_and_others_sign_in_meanwhile(
    memory_stores: Stores,
) -> None:
    services = oauth_services(memory_stores, ManualClock())
    app = app_over(services)
    await memory_stores.accounts.add(an_account())
    await memory_stores.accounts.add(an_account("grace"))
    async with http_over(app) as plain:
        program = Program(plain)
        await program.register()
    tried = 0
    for number in range(90):
        async with http_over(app, address=f"198.51.100.{number}") as http:
            person = Person(http)
            await person.open(AUTHORIZE, **program.asks())
            tried += (await person.press("sign-in", username="ada", password="wrong")).status_code == 403
    assert tried == 60
    async with http_over(app, address="192.0.2.1") as http:
        grace = Person(http, "grace")
        await grace.open(AUTHORIZE, **program.asks())
        assert "wants to use" in visible((await grace.sign_in()).text)


async def test_attempts_are_counted_over_all_replicas(memory_stores: Stores) -> None:
    await memory_stores.accounts.add(an_account())
    clock = ManualClock()
    statuses = []
    for _ in range(4):
        app = app_over(oauth_services(memory_stores, clock))
        async with http_over(app) as http, http_over(app) as plain:
            program = Program(plain)
            await program.register()
            person = Person(http)
            for _ in range(2):
                await person.open(AUTHORIZE, **program.asks())
                statuses.append((await person.press("sign-in", username="ada", password="x")).status_code)
    assert statuses == [403] * 6 + [429] * 2


async def test_checking_passwords_leaves_the_loop_free_and_a_flood_is_bounded(memory_stores: Stores) -> None:
    kept = hash_password(PASSWORD)
    await memory_stores.accounts.add(an_account().model_copy(update={"password": kept}))
    passwords = PasswordChecks(memory_stores.accounts)
    beats, stop = 0, False

    async def beat() -> None:
        nonlocal beats
        while not stop:
            await asyncio.sleep(0.005)
            beats += 1

    beating = asyncio.ensure_future(beat())
    took: dict[str, list[float]] = {"ada": [], "nobody": []}
    for username in ("ada", "nobody") * 3:
        # The work of this process, whatever else the machine does: nearly all of it is the check's.
        started = time.process_time()
        assert await passwords.account(username, "wrong", "192.0.2.1") is None
        took[username].append(time.process_time() - started)
    assert 0.5 < min(took["nobody"]) / min(took["ada"]) < 2.0
    assert min(took["ada"]) > 0.05
    stop = True
    await beating
    # On the loop there would be one between two checks.
    assert beats > 30
    flood = [
        asyncio.ensure_future(passwords.account("nobody", "x", f"192.0.2.{number}"))
        for number in range(MOST_WAITING + 5)
    ]
    await until(lambda: sum(attempt.done() for attempt in flood) >= 5)
    refused = [attempt for attempt in flood if attempt.done()]
    assert len(refused) == 5
    assert {type(attempt.exception()) for attempt in refused} == {TooMany}
    # Somebody who signed in before does not wait behind them.
    account = await passwords.account("ada", PASSWORD, "192.0.2.99", has_device=True)
    assert account is not None
    for attempt in flood:
        attempt.cancel()
    await asyncio.gather(*flood, return_exceptions=True)
    attempts = [asyncio.ensure_future(passwords.account("nobody", "x", "192.0.2.1")) for _ in range(6)]
    await until(lambda: sum(attempt.done() for attempt in attempts) >= 3)
    assert await passwords.account("ada", PASSWORD, "192.0.2.2") is not None
    await asyncio.gather(*attempts, return_exceptions=True)


async def test_programs_and_pages_have_limits_too(memory_stores: Stores) -> None:
    few = OAuthLimits(registrations=BucketRate(1, 3), token_calls=BucketRate(1, 3), pages=BucketRate(0.1, 3))
    clock = ManualClock()
    services = oauth_services(memory_stores, clock, limits=few)
    app = app_over(services)
    async with http_over(app) as http, http_over(app, address="192.0.2.9") as other:
        program = Program(http)
        assert [(await program.register()).status_code for _ in range(5)] == [201] * 3 + [429] * 2
        refused = await program.register()
        assert (refused.headers["retry-after"], refused.json()["error"]) == ("1", "temporarily_unavailable")
        assert (await Program(other).register()).status_code == 201
        assert [(await program.redeem("x")).status_code for _ in range(4)] == [400] * 3 + [429]
        pages = [(await http.get(AUTHORIZE)).status_code for _ in range(4)]
        assert pages == [400] * 3 + [429]
        assert (await http.get(AUTHORIZE)).headers["retry-after"] == "10"
        clock.advance(1000)
        assert (await program.register()).status_code == 201


def test_counters_for_strangers_are_bounded() -> None:
    knocks = TokenBuckets(ManualClock(), most=100)
    for number in range(10_000):
        assert knocks.wait_s("register", f"192.0.2.{number}", BucketRate(1, 1)) == 0
    assert len(knocks) <= 200


async def test_a_header_of_the_caller_gives_no_further_attempts(memory_stores: Stores) -> None:
    """Proofs A and B: from one address, whatever it writes into the header, six passwords are tried."""
    services = oauth_services(memory_stores, ManualClock())
    app = app_over(services)
    await memory_stores.accounts.add(an_account())
    async with http_over(app) as plain:
        program = Program(plain)
        await program.register()
    for noted in (lambda _: "", lambda number: f"198.51.100.{number}"):
        statuses = []
        async with http_over(app, address="127.0.0.1") as http:
            person = Person(http)
            for number in range(20):
                http.headers["x-forwarded-for"] = noted(number)
                await person.open(AUTHORIZE, **program.asks())
                statuses.append((await person.press("sign-in", username="ada", password="x")).status_code)
        assert statuses.count(403) <= 6
    async with http_over(app) as http:
        http.headers["x-forwarded-for"] = "198.51.100.1"
        statuses = [(await Program(http).register()).status_code for _ in range(70)]
    assert statuses.count(201) == 60 - 1, "the program above took one"


async def test_strangers_can_not_lock_out_who_signed_in_before(memory_stores: Stores) -> None:
    """Proof C: the account's own bucket is empty, and its owner signs in all the same."""
    clock = ManualClock()
    app = app_over(oauth_services(memory_stores, clock))
    await memory_stores.accounts.add(an_account())
    async with http_over(app) as plain, http_over(app, address="192.0.2.1") as browser:
        program = Program(plain)
        await program.register()
        owner = Person(browser)
        await owner.open(AUTHORIZE, **program.asks())
        assert "wants to use" in visible((await owner.sign_in()).text)
        device = owner.http.cookies["__Host-kiosk_console_device"]
        for number in range(70):
            async with http_over(app, address=f"198.51.100.{number}") as http:
                stranger = Person(http)
                await stranger.open(AUTHORIZE, **program.asks())
                await stranger.press("sign-in", username="ada", password="wrong")
        async with http_over(app, address="192.0.2.77") as elsewhere:
            # The right password from a browser nobody knows: the account is bounded, as before.
            other = Person(elsewhere)
            await other.open(AUTHORIZE, **program.asks())
            assert (await other.sign_in()).status_code == 429
        clock.advance(3_600_000)
        await owner.press("switch")
        await owner.open(AUTHORIZE, **program.asks())
        for _ in range(2):
            for number in range(70):
                async with http_over(app, address=f"203.0.113.{number}") as http:
                    stranger = Person(http)
                    await stranger.open(AUTHORIZE, **program.asks())
                    await stranger.press("sign-in", username="ada", password="wrong")
        assert "wants to use" in visible((await owner.sign_in()).text)
        # The cookie is good for the account it names, and for twenty attempts.
        async with http_over(app, address="192.0.2.88") as copied:
            copied.cookies.set("__Host-kiosk_console_device", device, path="/", domain="news.example.com")
            thief = Person(copied)
            tried = 0
            for _ in range(30):
                await thief.open(AUTHORIZE, **program.asks())
                tried += (await thief.press("sign-in", username="ada", password="x")).status_code == 403
            assert tried == 19, "the owner used one of the twenty"
            await thief.open(AUTHORIZE, **program.asks())
            refused = await thief.press("sign-in", username="grace", password="x")
            assert refused.status_code == 403, "another account is counted as everybody's"


@pytest.mark.redis
async def test_a_flood_of_registrations_keeps_nothing_and_an_honest_client_gets_through(
    redis_stores: OpenStores, redis_server: RedisProcess
) -> None:
    services = oauth_services(redis_stores, ManualClock())
    register = app_over(services)
    async with http_over(register) as flood, http_over(register, address="192.0.2.1") as honest:
        await Program(honest).register()
        before = await redis_stores.server.execute_slow("DBSIZE")
        statuses: list[int] = []
        for number in range(2000):
            body = {"redirect_uris": [f"https://flood.example/{number}"], "client_name": f"bot {number}"}
            statuses.append((await flood.post("/oauth/register", json=body)).status_code)
        assert set(statuses) == {201, 429}
        assert (await Program(honest).register()).status_code == 201
        assert await redis_stores.server.execute_slow("DBSIZE") == before
    assert len(services.address_limits) == 2


@pytest.mark.redis
async def test_what_rests_in_the_store_opens_nothing(
    redis_stores: OpenStores, redis_server: RedisProcess
) -> None:
    clock = ManualClock()
    services = oauth_services(redis_stores, clock)
    await redis_stores.accounts.add(an_account())
    app = app_over(services)
    async with http_over(app) as http, http_over(app) as browser:
        scene = Scene(clock, services, app, http, Person(browser), Program(http))
        await scene.program.register(token_endpoint_auth_method="client_secret_post")
        secret = services.signing.client_secret(scene.program.client_id)
        code = await scene.code()
        other = await scene.code()
        tokens = (await scene.program.redeem(other, client_secret=secret)).json()
        session = scene.person.http.cookies["__Host-kiosk_console_session"]
    resting = []
    for key in await redis_stores.server.execute_slow("KEYS", "*"):
        resting.append(key)
        kind = await redis_stores.server.execute_slow("TYPE", key)
        ask = {
            b"hash": ("HGETALL", key), b"zset": ("ZRANGE", key, 0, -1), b"string": ("GET", key),
            b"stream": ("XRANGE", key, "-", "+"),
        }  # fmt: skip
        value = await redis_stores.server.execute_slow(
            *ask[bytes(kind, "ascii") if isinstance(kind, str) else kind]
        )
        resting.append(repr(value).encode())
    everything = b"\n".join(part if isinstance(part, bytes) else str(part).encode() for part in resting)
    assert b"usr-ada" in everything
    for secret_text in (
        code,
        other,
        tokens["access_token"],
        tokens["refresh_token"],
        secret,
        session,
        PASSWORD,
    ):
        assert secret_text.encode() not in everything


async def test_no_log_line_holds_a_secret_or_a_query(scene: Scene) -> None:
    with structlog.testing.capture_logs() as lines:
        code = await scene.code(state="a-very-private-state")
        tokens = (await scene.program.redeem(code)).json()
        await scene.program.refresh(tokens["refresh_token"])
        await scene.program.redeem(code)
        await guess(scene, "ada", "a-wrong-password")
        await scene.http.post("/oauth/revoke", data={"token": tokens["refresh_token"]})
    log = json.dumps(lines)
    assert "grant_begun" in log
    assert "code_replayed" in log
    secrets = (
        code,
        *tokens.values(),
        PASSWORD,
        "a-wrong-password",
        "a-very-private-state",
        scene.program.client_id,
    )
    for secret in secrets:
        assert str(secret) == "Bearer" or str(secret) == "3600" or str(secret) not in log


async def test_a_body_that_drips_is_cut_off(memory_stores: Stores) -> None:
    app = app_over(oauth_services(memory_stores, ManualClock(), limits=OAuthLimits(body_s=0.05)))

    async def drip() -> Any:
        while True:
            yield b"a"
            await asyncio.sleep(0.02)

    form = {"content-type": "application/x-www-form-urlencoded"}
    async with http_over(app) as http:
        for path in ("/oauth/register", "/oauth/token", "/oauth/revoke", AUTHORIZE):
            started = time.perf_counter()
            answer = await http.post(path, content=drip(), headers=form)
            assert answer.status_code == 408
            assert time.perf_counter() - started < 2
