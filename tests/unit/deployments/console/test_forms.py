"""Forms of the console that arrive slowly, and files that arrive slowly and many at once."""

from __future__ import annotations

import asyncio
import math
import time
from collections import Counter
from collections.abc import AsyncIterator

import pytest

from cluster.store.stores import Stores
from deployments.console import forms
from deployments.console.forms import find_bounds
from deployments.console.pages.all_pages import PAGES
from deployments.console.pages.imports import MOST_UPLOAD_BYTES
from deployments.edge.http.body_pace import FILE, FORM, MOST_UPLOADS_EACH, SMALL_BODY, BodyPace
from tests.fakes.administration import add_apps
from tests.fakes.archive_oauth import an_account
from tests.fakes.console import Visitor, console_app, open_console_services
from tests.suites.manual_clock import ManualClock


@pytest.fixture
async def visitor(memory_stores: Stores) -> Visitor:
    await memory_stores.accounts.add(an_account(role="administrator"))
    await add_apps(memory_stores)
    return Visitor(console_app(open_console_services(memory_stores, ManualClock())))


async def drip(head: bytes = b"") -> AsyncIterator[bytes]:
    yield head
    while True:
        await asyncio.sleep(0.01)
        yield b"a"


def test_only_people_who_are_signed_in_may_send_much_or_take_long() -> None:
    posted = [page for page in PAGES if "POST" in page.methods]
    assert {find_bounds(page).pace for page in posted if page.is_public} == {SMALL_BODY}
    assert max(find_bounds(page).most_bytes for page in posted if page.is_public) == 20_000
    assert (SMALL_BODY.within_s, SMALL_BODY.bytes_per_s) == (2.0, math.inf)
    (receiving,) = [page for page in posted if find_bounds(page).pace == FILE]
    assert receiving.path == "/apps/{app_id}/import"
    assert find_bounds(receiving).most_bytes == MOST_UPLOAD_BYTES
    assert find_bounds(receiving).fields * find_bounds(receiving).field_bytes <= 2 << 20
    assert {find_bounds(page).pace for page in posted} == {SMALL_BODY, FORM, FILE}


async def test_a_sign_in_that_drips_is_cut_off(visitor: Visitor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forms, "SMALL_BODY", BodyPace(0.05))
    await visitor.get("/sign-in")
    started_s = time.perf_counter()
    headers = {"content-type": "application/x-www-form-urlencoded"}
    answer = await visitor.http.post("/console/sign-in", content=drip(b"username="), headers=headers)
    assert answer.status_code == 400
    assert "did not arrive in time" in answer.text
    assert time.perf_counter() - started_s < 1
    large = await visitor.http.post("/console/sign-in", data={"username": "x" * 30_000})
    assert large.status_code == 413


async def test_a_hundred_slow_uploads_end_and_most_are_refused_at_once(
    visitor: Visitor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(forms, "FILE", BodyPace(0.2, 32 << 10))
    await visitor.sign_in()
    headers = {"content-type": "multipart/form-data; boundary=b"}
    head = b'--b\r\nContent-Disposition: form-data; name="file"; filename="a.csv"\r\n\r\n'

    async def upload() -> int:
        answer = await visitor.http.post("/console/apps/shop/import", content=drip(head), headers=headers)
        return answer.status_code

    uploads = asyncio.gather(*(upload() for _ in range(100)))
    await asyncio.sleep(0.05)
    assert (await visitor.get("/account")).status_code == 200
    assert Counter(await uploads) == {400: MOST_UPLOADS_EACH, 429: 100 - MOST_UPLOADS_EACH}
    assert set(await asyncio.gather(upload())) == {400}, "the places are free again"
