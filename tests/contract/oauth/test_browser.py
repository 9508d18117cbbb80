"""The pages in a real browser: Chromium of the system, headless, without JavaScript, against a real server."""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from cluster.clock import SystemClock
from cluster.store.stores import Stores
from deployments.archive.oauth.services import OAuthServices
from tests.fakes.archive_oauth import CHALLENGE, PASSWORD, VERIFIER, an_account, app_over, oauth_services

playwright = pytest.importorskip("playwright.async_api", reason="playwright is not installed")
NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
BROWSER = os.environ.get("KIOSK_TEST_BROWSER") or next(filter(None, map(shutil.which, NAMES)), None)
SHOTS = os.environ.get("KIOSK_TEST_SHOTS", "")
"A folder in which screenshots are kept for looking at."
WIDTHS = {"desktop": (1200, 850, "light"), "phone": (360, 740, "dark")}

pytestmark = pytest.mark.skipif(
    BROWSER is None, reason="no Chromium or Chrome on PATH nor in KIOSK_TEST_BROWSER"
)


@asynccontextmanager
async def serving(app: Starlette) -> AsyncIterator[str]:
    """Run an application on a loopback port."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        server = uvicorn.Server(uvicorn.Config(app, log_config=None, lifespan="off"))
        listening.listen()  # whoever connects before the server runs waits
        running = asyncio.ensure_future(server.serve(sockets=[listening]))
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        finally:
            server.should_exit = True
            await running


class Callback:
    """A client that listens on loopback for the answer."""

    def __init__(self) -> None:
        self.received: list[dict[str, str]] = []
        self.app = Starlette(routes=[Route("/callback", self.hear)])

    async def hear(self, request: Request) -> Response:
        """Take the answer."""
        self.received.append(dict(request.query_params))
        return HTMLResponse(
            "<!doctype html><title>Connected</title><link rel=icon href='data:,'><p>Connected."
        )


@pytest.fixture
async def services(memory_stores: Stores) -> OAuthServices:
    await memory_stores.accounts.add(an_account())
    return oauth_services(memory_stores, SystemClock(), public_url="")


@pytest.mark.parametrize("width", WIDTHS)
async def test_a_person_connects_a_client_on_the_same_machine(
    services: OAuthServices, width: str, tmp_path: Path
) -> None:
    wide, high, scheme = WIDTHS[width]
    shots = Path(SHOTS) if SHOTS else tmp_path
    callback = Callback()
    async with (
        serving(app_over(services)) as origin,
        serving(callback.app) as client,
        httpx.AsyncClient() as http,
    ):
        # Registered with another port than the one it listens on in the end, as native clients do.
        sent = {"client_name": "Desk <b>Research</b>", "redirect_uris": ["http://127.0.0.1:1/callback"]}
        client_id = (await http.post(f"{origin}/oauth/register", json=sent)).json()["client_id"]
        asks = {
            "response_type": "code", "client_id": client_id, "redirect_uri": f"{client}/callback",
            "state": "a/b+c", "code_challenge": CHALLENGE, "code_challenge_method": "S256", "resource": f"{origin}/mcp",
        }  # fmt: skip
        async with playwright.async_playwright() as driver:
            browser = await driver.chromium.launch(executable_path=BROWSER, args=["--no-sandbox"])
            context = await browser.new_context(
                viewport={"width": wide, "height": high}, color_scheme=scheme, java_script_enabled=False
            )
            page = await context.new_page()
            complaints: list[str] = []
            page.on("console", lambda message: complaints.append(message.text))
            await page.goto(str(httpx.URL(f"{origin}/oauth/authorize/archive", params=asks)))
            await page.screenshot(path=shots / f"{width}-1-sign-in.png", full_page=True)
            assert await page.get_by_text(urlsplit(client).netloc).is_visible()
            assert await page.get_by_text("Applications choose their own names.").is_visible()
            await page.get_by_label("User name").fill("ada")
            await page.get_by_label("Password").fill("a wrong one")
            await page.keyboard.press("Enter")
            await page.get_by_role("alert").wait_for()
            await page.screenshot(path=shots / f"{width}-2-refused.png", full_page=True)
            assert await page.get_by_label("User name").input_value() == "ada"
            await page.get_by_label("Password").fill(PASSWORD)
            await page.get_by_role("button", name="Sign in").click()
            await page.get_by_role("heading", name="Desk <b>Research</b> wants to use the archive").wait_for()
            await page.screenshot(path=shots / f"{width}-3-consent.png", full_page=True)
            for name in ("Allow", "Deny", "Use another account"):
                box = await page.get_by_role("button", name=name).bounding_box()
                assert box["height"] >= 44
                assert box["x"] >= 0
                assert box["x"] + box["width"] <= wide
            text = await page.locator("main").bounding_box()
            assert text["width"] <= wide
            await page.get_by_role("button", name="Allow").click()
            await page.get_by_text("Connected.").wait_for()
            assert urlsplit(page.url).netloc == urlsplit(client).netloc
            (received,) = callback.received
            assert (received["state"], received["iss"]) == ("a/b+c", f"{origin}/archive")
            data = {
                "grant_type": "authorization_code", "code": received["code"], "code_verifier": VERIFIER,
                "client_id": client_id, "redirect_uri": f"{client}/callback", "resource": f"{origin}/mcp",
            }  # fmt: skip
            tokens = (await http.post(f"{origin}/oauth/token", data=data)).json()
            await page.goto(f"{origin}/oauth/authorize/clients")
            assert await page.get_by_role("button", name="Disconnect Desk <b>Research</b>").is_visible()
            await page.screenshot(path=shots / f"{width}-4-clients.png", full_page=True)
            await page.goto(f"{origin}/oauth/authorize/archive")
            await page.screenshot(path=shots / f"{width}-5-stop.png", full_page=True)
            await context.close()
            await browser.close()
        assert [text for text in complaints if "Content Security" in text] == []
        used = await http.post(f"{origin}/mcp", headers={"authorization": f"Bearer {tokens['access_token']}"})
        assert used.status_code == 200


async def test_a_browser_does_not_show_the_page_in_a_frame_or_send_it_from_another_site(
    services: OAuthServices,
) -> None:
    async with serving(app_over(services)) as origin, httpx.AsyncClient() as http:
        sent = {"client_name": "Desk", "redirect_uris": ["http://127.0.0.1:1/callback"]}
        client_id = (await http.post(f"{origin}/oauth/register", json=sent)).json()["client_id"]
        asks = {
            "response_type": "code", "client_id": client_id, "redirect_uri": "http://127.0.0.1:1/callback",
            "code_challenge": CHALLENGE, "code_challenge_method": "S256",
        }  # fmt: skip
        address = str(httpx.URL(f"{origin}/oauth/authorize/archive", params=asks))

        async def frame(_: Request) -> Response:
            shown = f"<!doctype html><title>x</title><link rel=icon href='data:,'><iframe src='{address}'></iframe>"
            post = f"<form id=f method=post action='{origin}/oauth/authorize/archive'><input name=decision value=allow>"
            return HTMLResponse(f"{shown}{post}<button>go</button></form>")

        async with (
            serving(Starlette(routes=[Route("/", frame)])) as other,
            playwright.async_playwright() as driver,
        ):
            browser = await driver.chromium.launch(executable_path=BROWSER, args=["--no-sandbox"])
            page = await browser.new_page()
            await page.goto(other.replace("127.0.0.1", "localhost"))
            framed = page.frames[1]
            assert await framed.locator("input").count() == 0
            async with page.expect_navigation():
                await page.get_by_role("button", name="go").click()
            assert await page.get_by_role("heading").inner_text() == "This form can’t be used"
            await browser.close()
