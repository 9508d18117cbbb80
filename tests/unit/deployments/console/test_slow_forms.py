"""Forms that arrive slowly or strangely: they outlive no session and take no time of others."""

from __future__ import annotations

import asyncio
import time
from urllib.parse import urlencode

import pytest

from cluster.admin.accounts import AccountAdmin
from cluster.store.stores import Stores
from deployments.console import app as console
from deployments.console import forms
from deployments.edge.http.body_pace import BodyPace
from deployments.edge.limits.token_buckets import BucketRate
from deployments.sign_in.sessions import RENEW_AFTER_S
from tests.fakes.archive_oauth import PASSWORD, an_account
from tests.fakes.console import Visitor, console_app, open_console_services
from tests.suites.manual_clock import ManualClock

ORIGIN = "https://shop.example.com"
SESSION = "__Host-kiosk_console_session"


class Scene:
    """An installation in which ada is signed in twice, at home and by somebody who took her cookie."""

    def __init__(self, stores: Stores) -> None:
        self.clock = ManualClock()
        self.people = AccountAdmin(stores.accounts, stores.grants)
        self.app = console_app(open_console_services(stores, self.clock))
        self.home = Visitor(self.app)
        self.thief = Visitor(self.app)

    async def begin(self) -> None:
        """Sign ada in, and copy her cookies."""
        await self.home.sign_in()
        self.thief.http.cookies = self.home.http.cookies
        await self.thief.get("/account")

    async def slow_post(self, path: str, meanwhile: str, **form: str) -> int:
        """Send a form of the thief whose last bytes come after a form of ada's; return the status."""
        sent = urlencode({"csrf": self.thief.token, **form}).encode()
        arrived, go_on = asyncio.Event(), asyncio.Event()
        answers = []

        async def receive() -> dict[str, object]:
            arrived.set()
            await go_on.wait()
            return {"type": "http.request", "body": sent, "more_body": False}

        async def send(message: dict[str, object]) -> None:
            answers.append(message)

        cookies = "; ".join(f"{name}={value}" for name, value in self.thief.http.cookies.items())
        headers = {
            "host": "shop.example.com", "cookie": cookies, "origin": ORIGIN,
            "content-type": "application/x-www-form-urlencoded", "content-length": str(len(sent)),
        }  # fmt: skip
        scope = {
            "type": "http", "method": "POST", "path": "/console" + path, "query_string": b"", "scheme": "https",
            "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
            "client": ("192.0.2.7", 1), "server": ("shop.example.com", 443), "root_path": "",
        }  # fmt: skip
        running = asyncio.ensure_future(self.app(scope, receive, send))
        await arrived.wait()
        if meanwhile == "sign-out":
            await self.home.post("/sign-out")
        else:
            await self.people.set_password("ada", "a much better password", self.clock.now_ms())
        go_on.set()
        await running
        for name, value in answers[0]["headers"]:  # type: ignore[attr-defined]
            if name == b"set-cookie" and value.startswith(SESSION.encode() + b"="):
                self.thief.http.cookies.set(SESSION, value.decode().split("=", 1)[1].split(";")[0])
        return int(answers[0]["status"])  # type: ignore[call-overload]


@pytest.fixture
async def scene(memory_stores: Stores, monkeypatch: pytest.MonkeyPatch) -> Scene:
    # The pace of bodies is not what is tested: on a busy machine a slow hash takes longer than a form may.
    monkeypatch.setattr(forms, "FORM", BodyPace(60.0))
    await memory_stores.accounts.add(an_account(role="administrator"))
    scene = Scene(memory_stores)
    await scene.begin()
    return scene


@pytest.mark.parametrize("meanwhile", ["sign-out", "password"])
@pytest.mark.parametrize("path", ["/account/sessions", "/apps"])
async def test_a_form_does_nothing_when_its_session_ended_while_it_arrived(
    scene: Scene, memory_stores: Stores, meanwhile: str, path: str
) -> None:
    scene.clock.advance((RENEW_AFTER_S + 1) * 1000)
    status = await scene.slow_post(path, meanwhile, app_id="evil", environment="development")
    assert status == 303
    assert (await scene.thief.get("/account")).status_code == 303
    assert "evil" not in (await memory_stores.access.read_all()).apps


async def test_a_person_is_signed_in_after_ending_all_other_sessions(scene: Scene) -> None:
    other = Visitor(scene.app)
    await other.sign_in()
    await scene.home.post("/account/sessions")
    assert (await scene.home.get("/account")).status_code == 200
    assert (await other.get("/account")).status_code == 303


async def test_a_charset_can_not_stop_the_process(scene: Scene) -> None:
    stranger = Visitor(scene.app)
    await stranger.get("/sign-in")
    part = (
        b'--x\r\ncontent-disposition: form-data; name="username"\r\n\r\n' + b"9" * 60_000 + b"\r\n--x--\r\n"
    )
    begun_s = time.process_time()
    for charset in ("punycode", "idna", '"punycode"', "PUNYCODE"):
        answer = await stranger.http.post(
            "/console/sign-in", content=part,
            headers={"content-type": f"multipart/form-data; boundary=x; charset={charset}"},
        )  # fmt: skip
        assert answer.status_code == 400
        assert "UTF-8" in answer.text
    assert time.process_time() - begun_s < 0.5
    fine = await stranger.http.post(
        "/console/sign-in", data={"csrf": stranger.token, "username": "ada", "password": PASSWORD},
        headers={"content-type": "application/x-www-form-urlencoded; charset=UTF-8"},
    )  # fmt: skip
    assert fine.status_code == 303


@pytest.mark.parametrize("body", [b"&" * (1 << 20), b"a=1&" * 10_000])
async def test_a_form_of_ten_thousand_fields_is_refused_unread(scene: Scene, body: bytes) -> None:
    begun_s = time.process_time()
    answer = await scene.home.http.post(
        "/console/apps", content=body, headers={"content-type": "application/x-www-form-urlencoded"}
    )
    assert (answer.status_code, "more than 500 fields" in answer.text) == (400, True)
    assert time.process_time() - begun_s < 0.4


async def test_one_person_does_not_keep_the_replica_busy(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(console, "REQUESTS", BucketRate(1.0, 5))
    answers = [await scene.home.get("/account") for _ in range(7)]
    assert [answer.status_code for answer in answers] == [200] * 5 + [429] * 2
    assert "too many requests" in answers[-1].text
    assert answers[-1].headers["retry-after"] == "1"
    assert (await Visitor(scene.app).get("/sign-in")).status_code == 200
    scene.clock.advance(2_000)
    assert (await scene.home.get("/account")).status_code == 200
