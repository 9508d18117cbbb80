"""`DELETE /v1/users/{id}?everything=true`: an order, and a receipt that names nobody."""

from __future__ import annotations

from tests.contract.ways import Way
from tests.fakes.asgi import Answer
from tests.fakes.request_handler import BROWSER

PERSON = "canary-user-7f3a"


async def send(way: Way, method: str, target: str, kind: str = "secret", app: str = "shop") -> Answer:
    headers = {"X-API-KEY": way.key(app, kind), "User-Agent": BROWSER}
    return await way.send(method, target, headers, None)


async def test_everything_of_a_person_is_ordered_to_go_and_the_receipt_can_be_read(way: Way) -> None:
    answer = await send(way, "DELETE", f"/v1/users/{PERSON}?everything=true")
    assert (answer.status, answer.json()["message"]) == (200, "deleted")
    erasure = answer.json()["data"]
    assert erasure["receipt"] == f"/v1/users/_erasures/{erasure['task_id']}"
    read = await send(way, "GET", erasure["receipt"])
    receipt = read.json()["data"]
    assert (read.status, receipt["status"], receipt["by"]) == (200, "queued", "api")
    assert receipt["request_id"] == dict(answer.headers)["x-request-id"]
    assert len(receipt["subject"]) == 24
    assert PERSON not in read.body.decode()


async def test_nobody_else_reads_a_receipt_or_orders_an_erasure(way: Way) -> None:
    ordered = (await send(way, "DELETE", f"/v1/users/{PERSON}?everything=1")).json()["data"]
    foreign = await send(way, "GET", ordered["receipt"], app="other")
    unknown = await send(way, "GET", "/v1/users/_erasures/nowhere")
    assert (foreign.status, unknown.status, foreign.json()) == (404, 404, unknown.json())
    for method, target in (("GET", ordered["receipt"]), ("DELETE", f"/v1/users/{PERSON}?everything=true")):
        assert (await send(way, method, target, "publishable")).status in (401, 403)


async def test_without_the_word_only_the_profile_goes(way: Way) -> None:
    answer = await send(way, "DELETE", f"/v1/users/{PERSON}")
    assert list(answer.json()["data"]) == ["task_id"]
