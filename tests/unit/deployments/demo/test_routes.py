from __future__ import annotations

import re

import pytest
from starlette.applications import Starlette
from starlette.testclient import TestClient

from deployments.demo.browser_script import STATIC
from deployments.demo.routes import ASSETS, PAGES, POLICY, DemoServices, build_demo_routes, render_demo
from tests.fakes.request_handler import Corner


@pytest.fixture
def client(corner: Corner) -> TestClient:
    return TestClient(Starlette(routes=build_demo_routes(DemoServices(corner.keyring))))


@pytest.mark.parametrize("path", PAGES)
def test_a_page_has_no_inline_code_and_loads_from_this_installation_only(
    client: TestClient, path: str
) -> None:
    answer = client.get(path)
    assert answer.status_code == 200
    assert answer.headers["content-security-policy"] == POLICY
    assert "unsafe" not in POLICY
    assert answer.headers["x-frame-options"] == "DENY"
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert not re.search(r"<style|\sstyle=|\son[a-z]+=|javascript:|https?://|<script>|<base", answer.text)
    loaded = re.findall(r'(?:src|href)="([^"#]+)"', answer.text)
    for address in set(loaded) - {"/kiosk.js", "/docs"}:
        assert client.get(address).status_code == 200, address


@pytest.mark.parametrize("path", ["/demo/shop", "/demo/news"])
def test_a_page_carries_the_publishable_key_of_the_playground_and_no_other_secret(
    client: TestClient, corner: Corner, path: str
) -> None:
    text = client.get(path).text
    assert re.findall(r'data-key="([^"]*)"', text) == [corner.publishable("playground")]
    assert "ksk_" not in text


def test_an_app_that_accepts_writes_never_gets_a_demonstration(corner: Corner) -> None:
    writable = DemoServices(corner.keyring, "shop")
    client = TestClient(Starlette(routes=build_demo_routes(writable)))
    answer = client.get("/demo/shop")
    assert answer.status_code == 404
    assert "kpk_" not in answer.text
    assert "kiosk up" in answer.text


async def test_a_revoked_key_disappears_from_the_page(client: TestClient, corner: Corner) -> None:
    book = await corner.stores.access.read_all()
    for key in book.keys.values():
        if key.app_id == "playground" and key.kind == "publishable":
            await corner.stores.access.revoke_key(key.sha256)
    await corner.keyring.refresh()
    answer = client.get("/demo/news")
    assert answer.status_code == 404
    assert answer.headers["content-security-policy"] == POLICY


def test_values_are_escaped_in_the_page() -> None:
    text = bytes(render_demo("/demo/shop", '"><script>alert(1)</script>').body).decode()
    assert "<script>alert" not in text


def test_the_listed_assets_are_served_and_nothing_else(client: TestClient) -> None:
    assert {file.name for file in STATIC.iterdir()} == {*ASSETS}
    for name, media_type in ASSETS.items():
        answer = client.get(f"/demo/static/{name}")
        assert answer.status_code == 200
        assert answer.headers["content-type"].startswith(media_type)
        assert answer.headers["x-content-type-options"] == "nosniff"
    for name in ("../routes.py", "%2e%2e/routes.py", "..%2froutes.py", "nothing.js", ""):
        assert client.get(f"/demo/static/{name}").status_code == 404


def test_no_script_of_the_pages_writes_html() -> None:
    for name in ASSETS:
        if name.endswith(".js"):
            text = (STATIC / name).read_text("utf-8")
            assert not re.search(
                r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function", text
            )
            assert not re.search(r"https?://(?!kiosk\.example|www\.w3\.org/2000/svg)", text)
