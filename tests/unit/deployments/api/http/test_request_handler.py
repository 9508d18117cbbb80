from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
import structlog

from cluster.crypto import key_sha256
from cluster.errors import TooMany, Unavailable, messages
from cluster.records.apps import AppSettings, Limits, new_app_settings
from deployments.edge.http.errors import BUSY, UNSENT_STATUS
from tests.fakes.asgi import Answer, HungUp, call
from tests.fakes.request_handler import BROWSER, PLENTY, Corner

ASK = "/v1/recommendation/user_to_products"


async def ask(corner: Corner, body: Any, *, key: str | None = None, **more: Any) -> Answer:
    headers = {"User-Agent": BROWSER, **more.pop("headers", {})}
    target = f"{ASK}?api_key={key or corner.publishable()}"
    return await call(corner.handler, "POST", target, headers=headers, json=body, **more)


async def test_every_reply_carries_id_origin_length_and_type(corner: Corner) -> None:
    for method, path, headers in (
        ("GET", "/v1/users/x", corner.headers()),
        ("GET", "/v1/users/x", {}),
        ("PUT", "/v1/users", {}),
        ("GET", "/nowhere", {}),
        ("POST", "/v1/users", corner.headers()),
    ):
        answer = await call(corner.handler, method, path, headers={**headers, "X-Request-Id": "mine-1"})
        assert answer.headers["x-request-id"] == "mine-1"
        assert answer.headers["access-control-allow-origin"] == "*"
        assert answer.headers["content-type"] == "application/json"
        assert answer.headers["content-length"] == str(len(answer.body))
        assert sorted(answer.names) == sorted(set(answer.names))


async def test_a_preflight_needs_no_key(corner: Corner) -> None:
    answer = await call(corner.handler, "OPTIONS", "/v1/users/x")
    # RFC 9110, 8.6: a 204 has no length.
    assert (answer.status, answer.headers.get("content-length")) == (204, None)
    assert answer.headers["access-control-allow-methods"] == "GET, POST, PUT, DELETE, OPTIONS"
    for name in ("Content-Type", "Authorization", "X-API-KEY"):
        assert name in answer.headers["access-control-allow-headers"]


async def test_a_head_is_a_get_without_its_body(corner: Corner) -> None:
    answer = await corner.send("HEAD", "/v1/users/x")
    assert (answer.status, answer.body) == (404, b"")
    assert answer.headers["content-length"] == "27"


async def test_the_checks_come_in_their_order(corner: Corner) -> None:
    """Every request has all faults from its place on; the first one answers."""
    await corner.open_app("slow", settings=AppSettings(limits=Limits(queries_per_s=0.001, query_burst=1)))
    bad_user = {"user_id": "gina-7", "rows": "x", "user_hash": "0"}
    token = {"Authorization": "Bearer nonsense"}
    robot = {"User-Agent": "curl/8"}

    async def status(path: str, key: str, headers: dict[str, str], body: bytes) -> tuple[int, str]:
        answer = await call(corner.handler, "POST", f"{path}?api_key={key}", headers=headers, body=body)
        content = answer.json()
        return answer.status, str(content.get("message", ""))

    wrong = json.dumps(bad_user).encode()
    assert (await status("/v1/users", "nobody", robot, b"{"))[0] == 401
    reach = await status("/v1/users", corner.publishable("slow"), robot, b"{")
    assert reach == (403, "Publishable key is not allowed for this endpoint; use the secret key")
    bot = await status(ASK, corner.publishable("slow"), robot, b"{")
    assert bot[0] == 403
    assert bot[1].startswith("Request is denied due to bot blocking.")
    human = {"User-Agent": BROWSER, **token}
    assert (await status(ASK, corner.publishable("slow"), human, b"{"))[0] == 400
    assert (await status(ASK, corner.publishable("slow"), human, b"{")) == (429, "Too many requests.")
    assert (await status(ASK, corner.publishable(), human, b"{"))[0] == 400
    assert (await status(ASK, corner.publishable(), human, wrong)) == (401, "Invalid JWT token")
    signed_out = {"User-Agent": BROWSER}
    assert (await status(ASK, corner.publishable(), signed_out, wrong))[0] == 422
    hashless = json.dumps({"user_id": "gina-7", "user_hash": "0"}).encode()
    assert (await status(ASK, corner.publishable(), signed_out, hashless)) == (401, "user_hash is invalid.")
    nobody = b'{"anonymous_id": "a-1"}'
    assert (await status(ASK, corner.publishable(), signed_out, nobody)) == (404, "engine is not found")


async def test_a_bad_token_on_interactions_comes_after_bad_json(corner: Corner) -> None:
    headers = {**corner.headers(), "Authorization": "Bearer nonsense"}
    first = await call(corner.handler, "POST", "/v1/interactions", headers=headers, body=b"{")
    second = await call(corner.handler, "POST", "/v1/interactions", headers=headers, body=b"{}")
    assert (first.status, second.status) == (400, 401)


async def test_too_many_requests_say_when_to_come_back(corner: Corner) -> None:
    await corner.open_app("slow", settings=AppSettings(limits=Limits(writes_per_s=0.5, write_burst=2)))
    answers = [await corner.send("DELETE", f"/v1/users/{at}", app_id="slow") for at in range(4)]
    assert [answer.status for answer in answers] == [200, 200, 429, 429]
    assert 1 <= int(answers[-1].headers["retry-after"]) <= 2
    reads = await corner.send("GET", "/v1/users/1", app_id="slow")
    assert reads.status == 404


async def test_a_full_intake_is_too_many_and_not_away(corner: Corner) -> None:
    async def full(*_: Any, **__: Any) -> None:
        raise TooMany("too many uploads are waiting", retry_after_s=5)

    corner.stores.intake.accept = full  # type: ignore[method-assign, assignment]
    answer = await corner.send("POST", "/v1/users", json={"data": [{"user_id": "u"}]})
    assert (answer.status, answer.headers["retry-after"]) == (429, "5")
    assert answer.json() == {"message": "too many uploads are waiting"}


async def test_an_unready_replica_answers_busy_and_not_unauthorized(corner: Corner) -> None:
    corner.keyring.ready = False
    for path in ("/v1/users/x", "/v1/nowhere"):
        answer = await call(corner.handler, "GET", path, headers={"X-API-KEY": "unknown"})
        assert (answer.status, answer.headers["retry-after"]) == (503, "1")


async def test_at_an_unknown_path_a_key_of_a_newer_release_gets_503(
    corner: Corner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(corner.keyring, "_unreadable", frozenset({key_sha256("ksk_new")}))
    with structlog.testing.capture_logs() as lines:
        answer = await call(corner.handler, "GET", "/v1/nowhere", headers={"X-API-KEY": "ksk_new"})
    assert (answer.status, answer.headers["retry-after"]) == (503, "1")
    assert answer.headers["x-request-id"]
    assert not [line for line in lines if line["log_level"] == "error"]


async def test_a_fault_inside_is_one_sentence_and_one_log_line(corner: Corner) -> None:
    await _upload_product(corner)
    corner.recommender.wrong = RuntimeError("secret CANARY")
    with structlog.testing.capture_logs() as lines:
        answer = await ask(corner, {})
    assert (answer.status, answer.json()) == (
        500,
        {"message": "Something went wrong. Please contact the product team."},
    )
    assert [line["event"] for line in lines if line["log_level"] == "error"] == ["request_failed"]
    assert lines[0]["request_id"] == answer.headers["x-request-id"]
    assert "CANARY" not in str(lines)


async def test_only_a_write_that_was_not_begun_and_a_read_are_offered_to_another_replica(
    corner: Corner, monkeypatch: pytest.MonkeyPatch
) -> None:
    faults = (
        Unavailable("the store does not answer", retry_after_s=1, unsent=True),
        Unavailable("the store did not answer in time", retry_after_s=1, late=True),
        Unavailable("the engine is still loading", retry_after_s=1),
    )
    statuses = []
    for is_behind_haproxy in (True, False):
        monkeypatch.setattr(corner.handler, "_is_behind_haproxy", is_behind_haproxy)
        for fault in faults:

            async def fail(*_: Any, fault: Unavailable = fault, **__: Any) -> Any:
                raise fault

            monkeypatch.setattr(type(corner.stores.interactions), "append", fail)
            monkeypatch.setattr(type(corner.stores.records), "get", fail)
            body = {"user_id": "u", "product_ids": ["p"], "type": "click"}
            write = await corner.send("POST", "/v1/interactions", json={"data": [body]})
            read = await corner.send("GET", "/v1/users/x")
            assert write.json() == read.json() == {"message": BUSY}
            assert write.headers["retry-after"] == read.headers["retry-after"] == "1"
            statuses.append((write.status, read.status))
    behind_haproxy = [(UNSENT_STATUS, UNSENT_STATUS), (503, UNSENT_STATUS), (503, 503)]
    assert statuses == behind_haproxy + [(503, 503)] * 3


async def test_a_store_that_is_away_is_503_with_a_hint(corner: Corner) -> None:
    await _upload_product(corner)
    corner.recommender.wrong = Unavailable("redis://:pw@host", retry_after_s=2)
    answer = await ask(corner, {})
    assert (answer.status, answer.headers["retry-after"]) == (503, "2")
    assert b"redis" not in answer.body


async def test_a_caller_who_hangs_up_is_answered_by_nobody(corner: Corner) -> None:
    with pytest.raises(HungUp):
        await corner.send("POST", "/v1/users", chunks=[b'{"data"'], hang_up=True)
    assert corner.handler.in_flight == 0


async def test_an_upload_that_takes_too_long_is_a_timeout(corner: Corner) -> None:
    corner.handler._deadline_s = 0.02
    receive_forever = asyncio.Event()

    async def receive() -> dict[str, Any]:
        await receive_forever.wait()
        raise AssertionError

    async def run(path: str) -> list[Any]:
        sent: list[Any] = []

        async def send(message: Any) -> None:
            sent.append(message)

        headers = [(b"x-api-key", corner.secret().encode())]
        scope = {"type": "http", "method": "POST", "path": path, "headers": headers, "query_string": b""}
        await corner.handler(scope, receive, send)
        return sent

    start, body = await run("/v1/users")
    assert (start["status"], body["body"]) == (400, b'{"message":"Request timeout."}')
    start, _ = await run(ASK)
    assert start["status"] == 503


async def test_an_idempotency_key_makes_an_upload_happen_once(corner: Corner) -> None:
    headers = {**corner.headers(), "Idempotency-Key": "k-1"}
    body = {"data": [{"user_id": "gina-7"}]}
    first = await call(corner.handler, "POST", "/v1/users", headers=headers, json=body)
    again = await call(corner.handler, "POST", "/v1/users", headers=headers, json=body)
    assert first.json() == again.json()
    assert again.headers["idempotency-replayed"] == "true"
    assert await corner.apply() == 1
    other = await call(corner.handler, "POST", "/v1/users", headers=headers, json={"data": []})
    assert other.status == 422
    assert other.json()["errors"] is True
    assert isinstance(other.json()["data"], list)
    elsewhere = await call(corner.handler, "POST", "/v1/products", headers=headers, json=body)
    assert elsewhere.status == 422
    first_reply = await corner.send(
        "POST", "/v1/users", app_id="other", json=body, headers={"Idempotency-Key": "k-1"}
    )
    assert "idempotency-replayed" not in first_reply.headers


async def test_an_idempotency_key_repeats_a_refusal_too(corner: Corner) -> None:
    headers = {**corner.headers(), "Idempotency-Key": "k-2"}
    first = await call(corner.handler, "POST", "/v1/users", headers=headers, json={"data": [{}]})
    again = await call(corner.handler, "POST", "/v1/users", headers=headers, json={"data": [{}]})
    assert (first.status, first.body) == (again.status, again.body) == (422, first.body)


async def test_reads_do_not_look_at_an_idempotency_key(corner: Corner) -> None:
    headers = {**corner.headers(), "Idempotency-Key": "not a key at all"}
    assert (await call(corner.handler, "GET", "/v1/users/x", headers=headers)).status == 404


async def test_a_full_disk_refuses_writes_and_keeps_reads(corner: Corner) -> None:
    corner.handler._gate.why_no_writes = lambda: "The disk of the service is full."
    write = await corner.send("POST", "/v1/users", json={"data": []})
    assert (write.status, write.json()) == (503, {"message": "The disk of the service is full."})
    assert int(write.headers["retry-after"]) >= 1
    assert (await corner.send("GET", "/v1/users/x")).status == 404


async def test_the_bot_rule_can_be_off_or_only_logged(corner: Corner) -> None:
    for rule, status in (("off", 404), ("log", 404), ("on", 403)):
        await corner.open_app("shop", settings=AppSettings(bot_rule=rule, limits=PLENTY))
        with structlog.testing.capture_logs() as lines:
            answer = await ask(corner, {}, headers={"User-Agent": "curl/8"})
        suspicions = [line for line in lines if line["event"] == "robot_suspected"]
        assert answer.status == status
        assert len(suspicions) == (rule != "off")
        assert all(line["reason"] == "curl" for line in suspicions)


async def test_automated_agents_see_faults_of_tokens_and_hashes_in_development(corner: Corner) -> None:
    """A developer tests with curl and headless browsers: they must see what a page would see."""
    settings = new_app_settings("development").model_copy(update={"limits": PLENTY})
    await corner.open_app("shop", settings=settings)
    for robot in ("curl/8", "Mozilla/5.0 HeadlessChrome/120.0"):
        wrong = await ask(corner, {}, headers={"User-Agent": robot, "Authorization": "Bearer nonsense"})
        assert (wrong.status, wrong.json()) == (401, {"message": "Invalid JWT token"})
        unproven = await ask(corner, {"user_id": "u1"}, headers={"User-Agent": robot})
        assert (unproven.status, unproven.json()) == (401, {"message": "user_hash is required."})
    assert new_app_settings("production").bot_rule == "on"


async def test_a_robot_in_the_log_comes_with_the_switch(corner: Corner) -> None:
    with structlog.testing.capture_logs() as lines:
        refused = await ask(corner, {}, headers={"User-Agent": "curl/8"})
    assert refused.json() == {"message": messages.ROBOT}, "the interface's own words"
    (line,) = [line for line in lines if line["event"] == "robot_suspected"]
    assert line["advice"] == "kiosk apps switch shop bot_rule=log"


@pytest.mark.parametrize("rule", ["log", "refuse"])
async def test_a_secret_key_from_a_page_is_logged_or_refused(corner: Corner, rule: Any) -> None:
    await _upload_product(corner)
    await corner.open_app("shop", settings=AppSettings(secret_key_in_browser=rule, limits=PLENTY))

    async def send(**more: str) -> tuple[int, list[str]]:
        with structlog.testing.capture_logs() as lines:
            answer = await corner.send("POST", ASK, json={}, headers={"Host": "kiosk:8150", **more})
        assert corner.secret() not in str(lines)
        return answer.status, [line["event"] for line in lines if line["event"].startswith("secret_key")]

    assert await send() == (200, [])
    assert await send(Origin="http://kiosk:8150") == (200, []), "our own page"
    status = 200 if rule == "log" else 403
    assert await send(Origin="https://shop.example") == (status, ["secret_key_in_browser"])
    assert await send(Origin="null") == (status, []), "told once an hour"
    human = {"User-Agent": BROWSER, "X-API-KEY": corner.publishable(), "Origin": "https://shop.example"}
    assert (await call(corner.handler, "POST", ASK, headers=human, json={})).status == 200


async def test_strict_apps_want_a_hash_for_visitors_too(corner: Corner) -> None:
    assert (await ask(corner, {"anonymous_id": "a-1"})).status == 404
    await corner.open_app("shop", settings=AppSettings(strict_user_hash=True, limits=PLENTY))
    answer = await ask(corner, {"anonymous_id": "a-1"})
    assert (answer.status, answer.json()) == (401, {"message": "user_hash is required."})


async def test_an_alias_repeats_the_service_id_for_apps_that_want_it(corner: Corner) -> None:
    await _upload_product(corner)
    await corner.open_app("shop", settings=AppSettings(service_id_response_alias="reply_id", limits=PLENTY))
    data = (await ask(corner, {})).json()["data"]
    assert data["reply_id"] == data["service_id"]


async def test_the_envelope_of_a_product_is_a_setting(corner: Corner) -> None:
    await _upload_product(corner)
    bare = await corner.send("GET", "/v1/products/hoe-11")
    assert bare.json() == {"product_id": "hoe-11"}
    await corner.open_app("shop", settings=AppSettings(product_envelope=True, limits=PLENTY))
    wrapped = await corner.send("GET", "/v1/products/hoe-11")
    assert wrapped.json() == {"message": "success", "data": {"product_id": "hoe-11"}}


async def test_requests_in_flight_are_counted_and_their_time_added_up(corner: Corner) -> None:
    seen = []

    async def slow(*_: Any) -> None:
        seen.append(corner.handler.in_flight)
        corner.clock.pass_ms(250)

    corner.stores.records.get = slow  # type: ignore[method-assign, assignment]
    await corner.send("GET", "/v1/products/x")
    assert seen == [1]
    assert corner.handler.in_flight == 0
    assert corner.handler.busy_s == pytest.approx(0.25)


async def _upload_product(corner: Corner) -> None:
    await corner.send("POST", "/v1/products", json={"data": [{"product_id": "hoe-11"}]})
    await corner.apply()


@pytest.mark.parametrize(
    ("kind", "place", "count"),
    [("secret", "query", 1), ("secret", "header", 0), ("publishable", "query", 0), ("nobody", "query", 0)],
)
async def test_a_secret_key_in_an_address_is_warned_of(
    corner: Corner, kind: str, place: str, count: int
) -> None:
    key = corner.keys.get(("shop", kind), "nobody")
    target = f"{ASK}?api_key={key}" if place == "query" else ASK
    headers = {"User-Agent": BROWSER, **({"X-API-KEY": key} if place == "header" else {})}
    with structlog.testing.capture_logs() as lines:
        for _ in range(3):
            await call(corner.handler, "POST", target, headers=headers, json={"user_id": "gina-7"})
    warned = [line for line in lines if line["event"] == "secret_key_in_address"]
    assert len(warned) == count
    assert key not in str(lines)
