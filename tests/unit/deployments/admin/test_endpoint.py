"""Administration over HTTP: shapes of replies, limits, errors, downloads, sessions."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from typing import Any

import pytest
from starlette.requests import Request

from cluster.errors import Forbidden
from cluster.store.stores import Stores
from deployments.admin import endpoint
from deployments.operations.all_operations import OPERATIONS
from deployments.operations.framework.operation_executor import Administration
from deployments.operations.framework.principal import Principal, principal_of
from deployments.operations.framework.services import AdminServices
from tests.fakes.administration import add_apps, add_person, bearer, give_token, open_memory_admin, serve
from tests.fakes.asgi import Answer, HungUp, call
from tests.suites.doing import NOW
from tests.suites.manual_clock import ManualClock


class Http:
    def __init__(self, stores: Stores, clock: ManualClock, app: Any, token: str) -> None:
        self.stores, self.clock, self.app, self.token = stores, clock, app, token

    async def __call__(self, method: str, path: str, json: Any = None, **more: Any) -> Answer:
        headers = {**bearer(self.token), **more.pop("headers", {})}
        return await call(self.app, method, f"/v1/admin{path}", json=json, headers=headers, **more)


@pytest.fixture
async def http(memory_stores: Stores) -> Http:
    await add_apps(memory_stores)
    await add_person(memory_stores, "root", administrator=True)
    await add_person(memory_stores, "ada", shop="owner")
    clock = ManualClock(NOW)
    app = serve(open_memory_admin(memory_stores, clock))
    return Http(memory_stores, clock, app, await give_token(memory_stores, "root", life_ms=10**9))


async def rows(stores: Stores) -> list[Any]:
    return [row async for row in stores.audit.rows()]


async def test_replies_have_the_envelope_of_the_api_and_are_not_stored(http: Http) -> None:
    answer = await http("GET", "/me", headers={"X-Request-Id": "abc"})
    assert answer.status == 200
    assert answer.json()["message"] == "success"
    assert (answer.json()["data"]["username"], answer.json()["data"]["administrator"]) == ("root", True)
    assert answer.headers["x-request-id"] == "abc"
    assert (answer.headers["cache-control"], answer.headers["x-content-type-options"]) == (
        "no-store",
        "nosniff",
    )
    assert not any(name.startswith("access-control") for name in answer.headers)


async def test_arguments_come_from_path_query_and_body(http: Http) -> None:
    made = await http("POST", "/apps", {"app_id": "books", "environment": "production"})
    assert made.json()["data"]["secret_key"].startswith("ksk_prd_")
    changed = await http("PATCH", "/apps/books/limits", {"queries_per_s": 7})
    assert changed.json()["data"]["query_burst"] == 14
    listed = await http("GET", "/audit?operation=apps&limit=1")
    (row,) = listed.json()["data"]["rows"]
    assert (row["operation"], row["way"], row["address"], row["app_id"]) == (
        "apps.set_limits", "token", "192.0.2.7", "books",
    )  # fmt: skip
    assert listed.json()["data"]["next"]
    assert made.json()["data"]["secret_key"] not in json.dumps(
        [audit_row.model_dump() for audit_row in await rows(http.stores)]
    )


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("PATCH", "/apps/shop/limits", {"queries_per_s": "many"}, 422),
        ("PATCH", "/apps/shop/limits", {"unknown": 1}, 422),
        ("PATCH", "/apps/shop/limits", {"app_id": "news"}, 422),
        ("PATCH", "/apps/shop/limits", [1], 422),
        ("PATCH", "/apps/shop/limits?queries_per_s=3", {}, 422),
        ("GET", "/audit?limit=0", None, 422),
        ("GET", "/audit?limit=5&limit=6", None, 422),
        ("GET", "/audit?unknown=1", None, 422),
        ("GET", "/audit?" + "&".join(f"a{number}=1" for number in range(200)), None, 422),
        ("POST", "/apps", {"app_id": "Not Allowed"}, 400),
        ("POST", "/apps", {"app_id": "shop"}, 409),
        ("GET", "/apps/moon", None, 404),
        ("GET", "/nothing", None, 404),
        ("GET", "/apps/%00", None, 404),
        ("GET", "/apps/" + "x" * 600, None, 404),
        ("GET", "", None, 404),
        ("POST", "/me", {}, 405),
        ("PUT", "/apps", {}, 405),
    ],
)  # fmt: skip
async def test_faults_are_answered_in_the_shape_of_the_api(
    http: Http, method: str, path: str, body: Any, status: int
) -> None:
    answer = await http(method, path, body)
    assert answer.status == status, answer.body
    assert set(answer.json()) == ({"detail"} if status == 422 else {"message"})
    if status == 405:
        assert "OPTIONS" in answer.headers["allow"]


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"{", 400), (b"[" * 5000, 400), (b'{"app_id": "a", "app_id": "b"}', 400),
        (b'{"app_id": "' + b"x" * (1 << 20), 413),
    ],
)  # fmt: skip
async def test_hostile_bodies_are_refused(http: Http, body: bytes, status: int) -> None:
    assert (await http("POST", "/apps", body=body)).status == status
    assert (await http("POST", "/apps", chunks=[body[:10], body[10:]])).status == status


async def test_a_body_is_read_after_the_token(http: Http) -> None:
    http.token = "kat_wrong"
    assert (await http("POST", "/apps", body=b"x" * (2 << 20))).status == 401


async def test_head_and_options_need_no_body_and_allow_no_other_origin(http: Http) -> None:
    head = await http("HEAD", "/apps")
    assert (head.status, head.body) == (200, b"")
    options = await call(http.app, "OPTIONS", "/v1/admin/apps", headers={"Origin": "https://evil.example"})
    assert (options.status, options.headers["allow"]) == (204, "GET, POST, HEAD, OPTIONS")
    assert not any(name.startswith("access-control") for name in options.headers)


async def test_the_audit_log_is_sent_as_it_is_read(http: Http) -> None:
    for number in range(3):
        await http("PATCH", "/apps/shop/limits", {"queries_per_s": 1 + number})
    answer = await http("GET", "/audit/export")
    assert answer.headers["content-type"] == "application/x-ndjson"
    assert answer.headers["content-disposition"] == 'attachment; filename="audit.jsonl"'
    lines = [json.loads(line) for line in answer.body.splitlines()]
    assert [line["after"]["queries_per_s"] for line in lines[:3]] == [1.0, 2.0, 3.0]
    assert [line["operation"] for line in lines[3:]] == ["audit.export"]
    assert (await http("GET", "/audit/verify")).json()["data"]["rows"] == 4


async def test_the_role_is_checked_before_the_body_is_read(http: Http) -> None:
    await add_person(http.stores, "vera", shop="viewer")
    http.token = await give_token(http.stores, "vera", life_ms=10**9)
    for body in (b"{", b"x" * (2 << 20), b'{"queries_per_s": "nonsense"}', b""):
        answer = await http("PATCH", "/apps/shop/limits", body=body)
        assert (answer.status, b"this needs the role owner" in answer.body) == (403, True), body[:20]
    assert (await http("PATCH", "/apps/none/limits", body=b"{")).status == 403
    assert {row.app_id for row in await rows(http.stores)} == {"shop", "none"}


@pytest.mark.parametrize(
    "path", ["/audit", "/audit/verify", "/audit/export", "/apps/shop/audit", "/audit/1-0"]
)
@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
async def test_no_request_changes_the_audit_log(http: Http, method: str, path: str) -> None:
    await http("PATCH", "/apps/shop/limits", {"queries_per_s": 1})
    before = await rows(http.stores)
    assert (await http(method, path, {})).status in (404, 405)
    assert await rows(http.stores) == before


async def test_a_token_ends_within_a_second_of_its_revocation(http: Http) -> None:
    ada = await give_token(http.stores, "ada", life_ms=10**9)
    assert (await http("GET", "/apps/shop", headers=bearer(ada))).status == 200
    assert await http.stores.admin_tokens.remove_user("usr-ada") == 1
    http.clock.advance(1001)
    assert (await http("GET", "/apps/shop", headers=bearer(ada))).status == 401


async def test_a_kept_token_does_not_outlive_its_expiry(http: Http) -> None:
    ada = await give_token(http.stores, "ada", life_ms=300)
    assert (await http("GET", "/apps/shop", headers=bearer(ada))).status == 200
    http.clock.advance(301)
    assert (await http("GET", "/apps/shop", headers=bearer(ada))).status == 401


async def test_a_changed_role_counts_within_a_second(http: Http) -> None:
    ada = await give_token(http.stores, "ada", life_ms=10**9)
    assert (await http("GET", "/apps/shop/keys", headers=bearer(ada))).status == 200
    await http("PUT", "/apps/shop/people/ada", {"role": "viewer"})
    http.clock.advance(1001)
    assert (await http("GET", "/apps/shop/keys", headers=bearer(ada))).status == 403


async def test_wrong_tokens_are_throttled_and_right_ones_of_the_address_are_not(http: Http) -> None:
    wrong = bearer("kat_" + "x" * 32)
    seen = [(await http("GET", "/me", headers=wrong)).status for _ in range(30)]
    assert set(seen) == {401, 429}
    assert seen[0] == 401
    assert seen[-1] == 429
    assert (await http("GET", "/me")).status == 200
    assert (await http("GET", "/me", headers=wrong, client=("192.0.2.8", 1))).status == 401


async def test_one_account_can_not_keep_the_replica_busy(http: Http) -> None:
    seen = [await http("GET", "/me") for _ in range(250)]
    assert seen[-1].status == 429
    assert int(seen[-1].headers["retry-after"]) >= 1


async def test_an_operation_that_takes_long_goes_on_and_leaves_its_row(
    memory_stores: Stores, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(endpoint, "OPERATION_S", 0.01)
    admin = open_memory_admin(memory_stores, ManualClock(NOW))
    begun, go_on = asyncio.Event(), asyncio.Event()

    async def slow(services: Any, given: Any) -> dict[str, bool]:
        begun.set()
        await go_on.wait()
        return {"done": True}

    table = {**OPERATIONS, "apps.create": replace(OPERATIONS["apps.create"], call=slow)}
    app = serve(
        Administration(
            admin.services, table, memory_stores.audit, ManualClock(NOW), AdminServices.for_principal
        )
    )
    await add_person(memory_stores, "root", administrator=True)
    token = await give_token(memory_stores, "root")
    answer = await call(app, "POST", "/v1/admin/apps", json={"app_id": "books"}, headers=bearer(token))
    assert answer.status == 503
    assert "goes on" in answer.json()["message"]
    assert await rows(memory_stores) == []
    go_on.set()
    for _ in range(20):
        await asyncio.sleep(0)
    written = await rows(memory_stores)
    assert written[0].after == {"done": True}


async def test_a_failure_of_ours_leaves_a_row_and_tells_nothing(memory_stores: Stores) -> None:
    admin = open_memory_admin(memory_stores, ManualClock(NOW))

    async def broken(services: Any, given: Any) -> None:
        raise RuntimeError("secret ksk_dev_x")

    table = {**OPERATIONS, "apps.create": replace(OPERATIONS["apps.create"], call=broken)}
    app = serve(Administration(admin.services, table, memory_stores.audit, ManualClock(NOW)))
    await add_person(memory_stores, "root", administrator=True)
    token = await give_token(memory_stores, "root")
    answer = await call(app, "POST", "/v1/admin/apps", json={"app_id": "books"}, headers=bearer(token))
    assert answer.status == 500
    assert b"secret" not in answer.body
    (row,) = await rows(memory_stores)
    assert (row.outcome, row.reason) == ("refused", "internal error: RuntimeError")


async def test_the_session_of_the_console_counts_where_no_token_is(memory_stores: Stores) -> None:
    await add_apps(memory_stores)
    account = await add_person(memory_stores, "ada", shop="owner")

    async def session(request: Request) -> Principal | None:
        if request.method != "GET" and request.headers.get("x-csrf-token") != "right":
            raise Forbidden("the form is too old")
        return principal_of(account, "console", address="192.0.2.9") if "cookie" in request.headers else None

    app = serve(open_memory_admin(memory_stores, ManualClock(NOW)), session)

    async def send(method: str, path: str, headers: dict[str, str]) -> int:
        body = {"queries_per_s": 3} if method == "PATCH" else None
        return (await call(app, method, f"/v1/admin{path}", headers=headers, json=body)).status

    signed_in = {"Cookie": "s=1"}
    assert await send("GET", "/apps/shop", signed_in) == 200
    assert await send("GET", "/apps/shop", {}) == 401
    assert await send("GET", "/apps/shop", {**signed_in, **bearer("kat_wrong")}) == 401
    assert await send("PATCH", "/apps/shop/limits", signed_in) == 403
    assert await rows(memory_stores) == []
    assert await send("PATCH", "/apps/shop/limits", {**signed_in, "X-CSRF-Token": "right"}) == 200
    (row,) = await rows(memory_stores)
    assert (row.way, row.username, row.address) == ("console", "ada", "192.0.2.9")


async def test_a_file_reaches_its_operation_in_parts(memory_stores: Stores) -> None:
    admin = open_memory_admin(memory_stores, ManualClock(NOW))
    parts: list[bytes] = []

    async def receive(services: Any, given: Any) -> dict[str, Any]:
        async for part in given.content:
            parts.append(part)
        return {"file_name": given.file_name}

    table = {**OPERATIONS, "imports.upload": replace(OPERATIONS["imports.upload"], call=receive)}
    app = serve(Administration(admin.services, table, memory_stores.audit, ManualClock(NOW)))
    await add_apps(memory_stores)
    await add_person(memory_stores, "root", administrator=True)
    headers = bearer(await give_token(memory_stores, "root"))
    path = "/v1/admin/apps/shop/imports?noun=product&file_name=a.csv"
    sent = [b"x" * 700_000, b"y" * 700_000]
    answer = await call(app, "POST", path, headers=headers, chunks=sent)
    assert (answer.status, answer.json()["data"]) == (200, {"file_name": "a.csv"})
    assert parts == sent
    (row,) = await rows(memory_stores)
    assert "content" not in row.arguments
    packed = await call(app, "POST", path, headers={**headers, "Content-Encoding": "gzip"}, chunks=sent)
    assert packed.status == 400
    with pytest.raises(HungUp):
        await call(app, "POST", path, headers=headers, chunks=sent, hang_up=True)
    assert [audit_row.outcome for audit_row in await rows(memory_stores)] == ["done", "refused", "refused"]


async def test_slow_bodies_of_one_person_leave_places_for_others(http: Http) -> None:
    go_on = asyncio.Event()

    async def hold(token: str) -> int:
        statuses: list[int] = []

        async def receive() -> dict[str, Any]:
            await go_on.wait()
            return {"type": "http.disconnect"}

        async def send(message: dict[str, Any]) -> None:
            statuses.append(message.get("status", 0))

        scope = {
            "type": "http", "method": "PATCH", "path": "/v1/admin/apps/shop/limits", "query_string": b"",
            "headers": [(b"authorization", f"Bearer {token}".encode())], "client": ("192.0.2.7", 1), "scheme": "http",
            "root_path": "", "server": ("127.0.0.1", 80), "http_version": "1.1",
        }  # fmt: skip
        await http.app(scope, receive, send)
        return statuses[0] if statuses else 0

    token = await give_token(http.stores, "ada", life_ms=10**9)
    slow = [asyncio.ensure_future(hold(token)) for _ in range(40)]
    await asyncio.wait(slow, timeout=0.1)
    refused = [request.result() for request in slow if request.done()]
    assert refused == [429] * (40 - endpoint.MOST_OF_PERSON)
    assert (await http("GET", "/me")).status == 200
    go_on.set()
    await asyncio.gather(*slow)
    assert (await call(http.app, "GET", "/v1/admin/me", headers=bearer(token))).status == 200


@pytest.mark.parametrize("query", ["api_key=ksk_dev_x", "x=1;api_key=ksk_dev_x", "x=1?api_key=" + "k" * 300])
async def test_an_api_key_beside_a_token_is_refused_as_haproxy_reads_it(http: Http, query: str) -> None:
    assert (await http("GET", f"/me?{query}")).status == 401
