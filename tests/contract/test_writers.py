"""What strangers write with a publishable key: the proofs of findings 4, 5, 8, 10 and 17 against the whole door."""

from __future__ import annotations

import base64
import json
from typing import Any

import orjson
import pytest

from cluster.crypto import derive_token_key
from cluster.records.apps import AppSettings, Limits, new_app_settings
from deployments.edge.access.identity_proof import sign_user_id
from tests.fakes.asgi import Answer, call
from tests.fakes.request_handler import BROWSER, PLENTY, Corner, open_corner
from tests.fakes.tokens import segment, token_of

EVENTS = "/v1/interactions"
HISTORY = "/v1/recommendation/user_to_history"


@pytest.fixture
async def corner() -> Corner:
    """The usual apps, and `safe` with the settings of a new production app."""
    corner = await open_corner()
    await open_safe(corner)
    return corner


async def open_safe(corner: Corner, **changes: Any) -> None:
    settings = new_app_settings("production").model_copy(update={"limits": PLENTY, **changes})
    await corner.open_app("safe", "production", settings)
    corner.keyring._version = -2
    await corner.keyring.refresh()


async def send(
    corner: Corner,
    path: str,
    body: Any,
    *,
    app: str = "safe",
    token: str = "",
    ip: str = "192.0.2.7",
    **headers: str,
) -> Answer:
    """Send as a browser does."""
    more = {"Authorization": "Bearer " + token} if token else {}
    given = {name.replace("_", "-"): value for name, value in headers.items()}
    return await call(
        corner.handler, "POST", f"{path}?api_key={corner.publishable(app)}",
        headers={"User-Agent": BROWSER, **more, **given}, json=body, client=(ip, 4000),
    )  # fmt: skip


def signed(corner: Corner, user_id: str, app: str = "safe") -> str:
    return sign_user_id(corner.secret(app).encode(), user_id)


def view(product_id: str = "p1", **ids: str) -> dict[str, Any]:
    return {"type": "product_detail_page_view", "product_ids": [product_id], **ids}


async def history(corner: Corner, *user_keys: str, app: str = "safe") -> list[str]:
    """The products of a reader's list, newest first."""
    packed = await corner.stores.interactions.recent(app, user_keys)
    return [orjson.loads(entry)[1][0] for entry in packed]


# --- finding 4: who writes for whom -----------------------------------------------------------------------------


async def test_a_stranger_evicts_nobodys_history(corner: Corner) -> None:
    server = await call(
        corner.handler, "POST", EVENTS, headers=corner.headers("safe"),
        json={"data": [view(f"p{n}", user_id="victim") for n in (1, 2, 3)]},
    )  # fmt: skip
    assert server.status == 200
    for at in range(4):
        flood = {"data": [view(f"p3{n % 5}", user_id="victim") for n in range(50)]}
        answer = await send(corner, EVENTS, flood)
        assert (answer.status, answer.json()) == (401, {"message": "user_hash is required."}), at
    assert await history(corner, "u:victim") == ["p3", "p2", "p1"]


async def test_a_stranger_forges_no_checkout(corner: Corner) -> None:
    forged = {"data": [{"type": "checkout", "user_id": "victim", "revenue": 99999, "product_ids": ["p1"]}]}
    assert (await send(corner, EVENTS, forged)).status == 401
    wrong = {**forged, "user_hash": signed(corner, "mallory")}
    assert (await send(corner, EVENTS, wrong)).json() == {"message": "user_hash is invalid."}
    assert await corner.stores.changes.read("safe", {"interaction": "0"}, count=9, block_ms=0) == []


async def test_a_proof_may_stand_in_the_body_in_an_event_or_in_a_token(corner: Corner) -> None:
    proof = signed(corner, "gina")
    token = token_of({"user_id": "gina", "exp": 4_000_000_000}, corner.secret("safe"))
    for body, more in (
        ({"data": [view("p1", user_id="gina")], "user_hash": proof}, {}),
        ({"data": [view("p2", user_id="gina", user_hash=proof), view("p3", anonymous_id="v-1")]}, {}),
        ({"data": [view("p4", user_id="gina")]}, {"token": token}),
        ({"data": [view("p5", anonymous_id="v-2"), view("p6", user_id="gina")], "user_hash": proof}, {}),
    ):
        answer = await send(corner, EVENTS, body, **more)
        assert answer.status == 200, answer.body
    assert await history(corner, "u:gina") == ["p6", "p4", "p2", "p1"]
    for change in await corner.stores.changes.read("safe", {"interaction": "0"}, count=9, block_ms=0):
        assert b"_hash" not in change.payload


async def test_a_visitor_needs_no_proof_and_is_marked_as_a_stranger(corner: Corner) -> None:
    assert (await send(corner, EVENTS, {"data": [view(anonymous_id="v-1")]})).status == 200
    assert (await send(corner, EVENTS, {"data": [view("p2")]})).status == 200
    assert await history(corner, "a:v-1") == ["p1"]
    changes = await corner.stores.changes.read("safe", {"interaction": "0"}, count=9, block_ms=0)
    origins = {item["_origin"] for change in changes for item in orjson.loads(change.payload)}
    assert len(origins) == 1
    assert "192" not in origins.pop()


async def test_apps_of_before_and_development_take_events_without_proof(corner: Corner) -> None:
    assert (await send(corner, EVENTS, {"data": [view(user_id="gina")]}, app="shop")).status == 200
    await corner.open_app("dev", settings=new_app_settings("development"))
    assert (await send(corner, EVENTS, {"data": [view(user_id="gina")]}, app="dev")).status == 200
    stored = AppSettings.model_validate_json('{"strict_user_hash": true}')
    assert (stored.prove_writers, stored.token_max_age_h, stored.confidential_fields) == (False, 0, ())


@pytest.mark.parametrize("proving", [True, False])
async def test_strict_readers_are_not_reached_by_linking(corner: Corner, proving: bool) -> None:
    await open_safe(corner, strict_user_hash=True, prove_writers=proving)
    user_hash = signed(corner, "W-anon")
    first = {"data": [view("p11", anonymous_id="W-anon")], "anonymous_hash": user_hash}
    assert (await send(corner, EVENTS, first)).status == 200
    linking = view("p12", user_id="mallory2", anonymous_id="W-anon")
    for body in (
        {"data": [linking]},
        {"data": [linking], "user_hash": signed(corner, "mallory2")},
        {"data": [linking], "user_hash": signed(corner, "mallory2"), "anonymous_hash": signed(corner, "x")},
    ):
        assert (await send(corner, EVENTS, body)).status == 401
    token = token_of({"user_id": "mallory2", "exp": 4_000_000_000}, corner.secret("safe"))
    assert (await send(corner, EVENTS, {"data": [linking]}, token=token)).status == 401
    assert await history(corner, "u:mallory2") == []
    both = {"data": [linking], "user_hash": signed(corner, "mallory2"), "anonymous_hash": user_hash}
    assert (await send(corner, EVENTS, both)).status == 200
    assert await history(corner, "u:mallory2") == ["p12", "p11"]


async def test_a_strict_read_looks_at_the_second_id_too(corner: Corner) -> None:
    await open_safe(corner, strict_user_hash=True)
    user_hash, theirs = signed(corner, "mallory"), signed(corner, "W-anon")
    pair = {"user_id": "mallory", "anonymous_id": "W-anon", "user_hash": user_hash}
    refused = await send(corner, HISTORY, pair)
    assert (refused.status, refused.json()) == (401, {"message": "anonymous_hash is required."})
    wrong = await send(corner, HISTORY, {**pair, "anonymous_hash": user_hash})
    assert (wrong.status, wrong.json()) == (401, {"message": "user_hash is invalid."})
    assert (await send(corner, HISTORY, {**pair, "anonymous_hash": theirs})).status == 404
    secret = corner.secret("safe")
    token = token_of({"user_id": "mallory", "exp": 4_000_000_000}, secret)
    assert (await send(corner, HISTORY, {"anonymous_id": "W-anon"}, token=token)).status == 401
    named = token_of({"user_id": "mallory", "anonymous_id": "W-anon", "exp": 4_000_000_000}, secret)
    assert (await send(corner, HISTORY, {"anonymous_id": "W-anon"}, token=named)).status == 404


async def test_question_answering_and_experiment_events_ask_for_the_same_proof(corner: Corner) -> None:
    await open_safe(corner, publishable_experiments=True)
    request = {"q": "x", "min_probability": 0.1, "user_id": "victim"}
    path = "/v1/qa/question_answering"
    assert (await send(corner, path, request)).status == 401
    assert (await send(corner, path, {**request, "user_hash": signed(corner, "victim")})).status == 404
    path = "/v1/experiments/none/events"
    assert (await send(corner, path, {"user_id": "victim"})).status == 401
    assert (
        await send(corner, path, {"user_id": "victim", "user_hash": signed(corner, "victim")})
    ).status == 404
    assert (await send(corner, path, {"anonymous_id": "v-1"})).status == 404


async def test_one_request_carries_few_events_of_few_readers_in_few_bytes(corner: Corner) -> None:
    many = {"data": [view(anonymous_id="v-1")] * 101}
    answer = await send(corner, EVENTS, many, app="shop")
    assert (answer.status, answer.json()["errors"]) == (422, True)
    assert answer.json()["data"] == [
        "data is invalid. The attribute should have at most 100 entries with a publishable key."
    ]
    interactions = {"data": [view(anonymous_id=f"v-{n}") for n in range(4)]}
    assert (await send(corner, EVENTS, interactions, app="shop")).status == 422
    assert (await send(corner, EVENTS, {"data": interactions["data"][:3]}, app="shop")).status == 200
    fat = {"data": [{**view(anonymous_id="v-1"), "context": {"custom_context": {"x": "y" * 300_000}}}]}
    assert (await send(corner, EVENTS, fat, app="shop")).status == 413
    server = await call(corner.handler, "POST", EVENTS, headers=corner.headers(), json=many)
    assert server.status == 200


async def test_one_request_evicts_at_most_twenty_events(corner: Corner) -> None:
    old = {"data": [view(f"old-{n}", user_id="gina") for n in range(200)]}
    assert (await call(corner.handler, "POST", EVENTS, headers=corner.headers(), json=old)).status == 200
    new = {"data": [view(f"new-{n}", user_id="gina") for n in range(100)]}
    assert (await send(corner, EVENTS, new, app="shop")).status == 200
    kept = await history(corner, "u:gina", app="shop")
    assert len(kept) == 200
    assert [product_id for product_id in kept if product_id.startswith("new")] == [
        f"new-{n}" for n in range(99, 79, -1)
    ]
    assert kept[20:] == [f"old-{n}" for n in range(199, 19, -1)]


async def test_an_address_adds_only_so_many_readers_a_day(corner: Corner) -> None:
    await open_safe(corner, new_readers_per_address=5, new_readers_per_day=8)
    for at in range(10):
        assert (await send(corner, EVENTS, {"data": [view(anonymous_id=f"v-{at}")]})).status == 200
    for at in range(10):
        other = {"data": [view(anonymous_id=f"w-{at}")]}
        assert (await send(corner, EVENTS, other, ip="198.51.100.9")).status == 200
    assert [at for at in range(10) if await history(corner, f"a:v-{at}")] == [0, 1, 2, 3, 4]
    assert [at for at in range(10) if await history(corner, f"a:w-{at}")] == [0, 1, 2]
    proven = {"data": [view(user_id="gina")], "user_hash": signed(corner, "gina")}
    assert (await send(corner, EVENTS, proven)).status == 200
    assert await history(corner, "u:gina") == ["p1"]


async def test_browsers_write_only_so_much_a_minute(corner: Corner) -> None:
    limits = PLENTY.model_copy(update={"queries_per_s": 0.05})
    await open_safe(corner, limits=limits)
    body = {"data": [view(anonymous_id="v-1") for _ in range(30)]}
    statuses = [(await send(corner, EVENTS, body)).status for _ in range(4)]
    assert statuses[0] == 200
    assert statuses[-1] == 429
    assert (
        await call(corner.handler, "POST", EVENTS, headers=corner.headers("safe"), json=body)
    ).status == 200


async def test_an_address_sends_only_so_many_checkouts_without_proof(corner: Corner) -> None:
    await open_safe(corner, checkouts_per_address=5)
    bought = {"type": "checkout", "anonymous_id": "v-1", "product_ids": ["p1"], "revenue": 99_999}
    assert (await send(corner, EVENTS, {"data": [bought] * 4})).status == 200
    refused = await send(corner, EVENTS, {"data": [bought] * 4})
    assert (refused.status, int(refused.headers["retry-after"]) > 3_600) == (429, True)
    assert (await send(corner, EVENTS, {"data": [bought]}, ip="198.51.100.1")).status == 200
    mine = {"data": [{**bought, "user_id": "gina"}] * 10, "user_hash": signed(corner, "gina")}
    assert (await send(corner, EVENTS, mine)).status == 200
    assert (await send(corner, EVENTS, {"data": [view(anonymous_id="v-1")]})).status == 200


# --- finding 5: a signature of one thing is no signature of another ---------------------------------------------


def token_shaped(claims: dict[str, Any]) -> str:
    """An id that is the signing input of a token: what a visitor would choose as a user name."""
    head, body = ({"alg": "HS256", "typ": "JWT"}, claims)
    return ".".join(segment(json.dumps(part, separators=(",", ":")).encode()) for part in (head, body))


async def test_a_hash_of_a_tokens_signing_input_proves_nothing(corner: Corner) -> None:
    chosen = token_shaped({"user_id": "victim", "user_type": "internal"})
    for field in ("user_id", "anonymous_id"):
        answer = await send(
            corner, HISTORY, {field: chosen, "user_hash": signed(corner, chosen, "shop")}, app="shop"
        )
        assert (answer.status, answer.json()) == (401, {"message": "user_hash is invalid."})
    wide = segment(b' \n{"alg":"HS256"}') + "." + segment(b"{}")
    assert (await send(corner, HISTORY, {"user_id": wide, "user_hash": signed(corner, wide)})).status == 401
    for fine in ("gina.holt", "eyes.only", "a.b.c", "e2e.test", "user@shop.example"):
        assert (
            await send(corner, HISTORY, {"user_id": fine, "user_hash": signed(corner, fine)})
        ).status == 404


async def test_an_app_with_a_token_key_takes_no_user_hash_as_token(corner: Corner) -> None:
    await open_safe(corner, derived_token_key=True)
    chosen = token_shaped({"user_id": "victim", "user_type": "internal", "exp": 4_000_000_000})
    digest = signed(corner, chosen)
    forged = chosen + "." + base64.urlsafe_b64encode(bytes.fromhex(digest)).rstrip(b"=").decode()
    path = "/v1/ask/user_history/list"
    assert (await send(corner, path, {}, token=forged)).json() == {"message": "Invalid JWT token"}
    token_key = derive_token_key(corner.secret("safe").encode()).decode()
    good = token_of({"user_id": "gina", "exp": 4_000_000_000}, token_key)
    assert (await send(corner, path, {}, token=good)).status == 200


async def test_an_id_that_begins_with_a_user_type_is_nobody_else(corner: Corner) -> None:
    stolen = signed(corner, "paid:bob")
    as_bob = {"user_id": "bob", "user_type": "paid", "user_hash": stolen}
    assert (await send(corner, HISTORY, as_bob)).json() == {"message": "user_hash is invalid."}
    named = {"user_id": "paid:bob", "user_hash": stolen}
    assert (await send(corner, HISTORY, named, app="safe")).status == 401
    unknown = {
        "product_ids": ["p1"],
        "user_id": "bob",
        "user_type": "x",
        "user_hash": signed(corner, "x:bob", "shop"),
    }
    assert (await send(corner, "/v1/search/mget", unknown, app="shop")).status == 401


async def test_a_token_without_an_end_is_good_for_a_day(corner: Corner) -> None:
    path, now_s = "/v1/ask/user_history/list", corner.clock.now_ms() // 1000
    secret = corner.secret("safe")
    for claims, status in (
        ({"user_id": "gina"}, 401),
        ({"user_id": "gina", "iat": now_s - 3_600}, 200),
        ({"user_id": "gina", "iat": now_s - 86_401}, 401),
        ({"user_id": "gina", "iat": now_s + 600}, 401),
        ({"user_id": "gina", "iat": now_s - 90_000, "exp": now_s + 60}, 200),
        ({"user_id": "gi\nna", "exp": now_s + 60}, 401),
        ({"user_id": "gi\u0085na", "exp": now_s + 60}, 401),
    ):
        assert (await send(corner, path, {}, token=token_of(claims, secret))).status == status, claims
    endless = token_of({"user_id": "gina"}, corner.secret("shop"))
    assert (await send(corner, path, {}, app="shop", token=endless)).status == 200


# --- finding 10: an Idempotency-Key is its sender's ---------------------------------------------------------------


async def test_a_browser_does_not_take_the_servers_idempotency_keys(corner: Corner) -> None:
    taken = await send(corner, EVENTS, {"data": [view()]}, app="shop", Idempotency_Key="order-4711")
    assert taken.status == 200
    upload = await call(
        corner.handler, "POST", "/v1/users", headers={**corner.headers(), "Idempotency-Key": "order-4711"},
        json={"data": [{"user_id": "gina"}]},
    )  # fmt: skip
    assert upload.status == 200


async def test_a_reply_is_repeated_only_to_its_reader(corner: Corner) -> None:
    token = token_of({"user_id": "gina", "exp": 4_000_000_000}, corner.secret("shop"))
    path = "/v1/ask/user_history/delete_all"
    first = await send(corner, path, {}, app="shop", token=token, Idempotency_Key="k1")
    again = await send(corner, path, {}, app="shop", token=token, Idempotency_Key="k1")
    assert (first.status, again.status, again.headers["idempotency-replayed"]) == (200, 200, "true")
    nobody = await send(corner, path, {}, app="shop", Idempotency_Key="k1")
    assert (nobody.status, nobody.json()) == (401, {"message": "Authenticated user_id is required"})
    other = token_of({"user_id": "rose", "exp": 4_000_000_000}, corner.secret("shop"))
    rose = await send(corner, path, {}, app="shop", token=other, Idempotency_Key="k1")
    assert "idempotency-replayed" not in rose.headers
    assert (await send(corner, path, {}, app="shop", token="nonsense", Idempotency_Key="k1")).status == 401


async def test_keys_of_browsers_are_forgotten_after_an_hour(corner: Corner) -> None:
    body = {"data": [view()]}
    await send(corner, EVENTS, body, app="shop", Idempotency_Key="k1")
    corner.clock.pass_ms(59 * 60_000)
    again = await send(corner, EVENTS, body, app="shop", Idempotency_Key="k1")
    assert "idempotency-replayed" in again.headers
    corner.clock.pass_ms(2 * 60_000)
    late = await send(corner, EVENTS, body, app="shop", Idempotency_Key="k1")
    assert "idempotency-replayed" not in late.headers


# --- finding 17 and 25: addresses, contradictions ------------------------------------------------------------------


async def test_one_visitor_does_not_starve_the_others(corner: Corner) -> None:
    limits = Limits(queries_per_s=10, query_burst=20, writes_per_s=10, write_burst=20)
    await open_safe(corner, limits=limits)
    path, honest = "/v1/recommendation/user_to_products", []
    for _ in range(16):
        corner.clock.pass_ms(500)
        greedy = [(await send(corner, path, {}, ip="203.0.113.5")).status for _ in range(40)]
        assert greedy.count(404) <= 4
        honest.append((await send(corner, path, {})).status)
    assert honest == [404] * 16
    servers = [
        (await call(corner.handler, "POST", path, headers=corner.headers("safe"), json={})).status
        for _ in range(15)
    ]
    assert servers == [404] * 15


async def test_two_keys_that_differ_are_no_key(corner: Corner) -> None:
    scope_headers = [(b"x-api-key", b"nonsense"), (b"x-api-key", corner.secret().encode())]
    for pair in (scope_headers, scope_headers[::-1]):
        assert await _status(corner, pair) == 401
    assert await _status(corner, [scope_headers[1]] * 2) == 404
    assert await _status(corner, [scope_headers[1], (b"cookie", b"a"), (b"cookie", b"b")]) == 404


async def _status(corner: Corner, headers: list[tuple[bytes, bytes]]) -> int:
    sent: list[Any] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b""}

    async def keep(message: Any) -> None:
        sent.append(message)

    scope = {
        "type": "http", "method": "GET", "path": "/v1/users/x", "raw_path": b"/v1/users/x", "query_string": b"",
        "headers": headers, "client": ("192.0.2.7", 1),
    }  # fmt: skip
    await corner.handler(scope, receive, keep)
    return int(sent[0]["status"])


async def test_a_neighbour_can_not_compute_who_a_nameless_visitor_is(corner: Corner) -> None:
    import hashlib

    day = "2026-03-02"
    guess = hashlib.sha1(f"{corner.publishable('safe')}:192.0.2.7:{BROWSER}:{day}".encode()).hexdigest()
    assert (await send(corner, EVENTS, {"data": [view("p7")]})).status == 200
    assert await history(corner, f"a:{guess}") == []
    assert (await send(corner, EVENTS, {"data": [view("p7")]}, app="shop")).status == 200
    shop = hashlib.sha1(f"{corner.publishable('shop')}:192.0.2.7:{BROWSER}:{day}".encode()).hexdigest()
    assert await history(corner, f"a:{shop}", app="shop") == ["p7"]


async def test_a_bulk_ends_with_its_key(corner: Corner) -> None:
    from cluster.crypto import key_sha256

    revoked: list[int] = []
    answer_first = corner.recommender.answer

    async def revoke_then_answer(query: Any) -> Any:
        if not revoked:
            revoked.append(1)
            await corner.stores.access.revoke_key(key_sha256(corner.publishable("shop")))
            await corner.keyring.refresh()
        return await answer_first(query)

    corner.recommender.answer = revoke_then_answer  # type: ignore[method-assign]
    requests = [{"api_name": "recommendation/user_to_products", "body": {}} for _ in range(20)]
    answer = await send(corner, "/v1/bulk", {"requests": requests}, app="shop")
    statuses = [entry["status_code"] for entry in answer.json()["data"]]
    assert statuses[0] == 404
    assert statuses[-1] == 401
    assert statuses.count(401) >= 12


async def test_ask_endpoints_take_no_unproven_user(corner: Corner) -> None:
    await open_safe(corner)
    for path, body in (
        ("questions", {"question": "How deep?"}),
        ("search", {"q": "oak"}),
        ("related_questions", {}),
        ("trending_questions", {}),
        ("query_suggestion", {"q": "oak"}),
        ("autocomplete", {"q": "oak"}),
        ("search_autocomplete", {"q": "oak"}),
    ):
        refused = await send(corner, f"/v1/ask/{path}", {**body, "user_id": "victim"})
        assert (refused.status, b"user_hash is required." in refused.body) == (401, True), path
        for more in ({}, {"anonymous_id": "v-1"}, {"user_id": "gina", "user_hash": signed(corner, "gina")}):
            answer = await send(corner, f"/v1/ask/{path}", {**body, **more})
            assert answer.status not in (401, 500), (path, more, answer.body)
