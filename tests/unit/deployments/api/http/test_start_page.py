from __future__ import annotations

import re

from starlette.testclient import TestClient

from deployments.api.http.application import build_application
from tests.fakes.request_handler import Corner

HTML = {"accept": "text/html"}


def test_with_pages_a_person_is_led_to_the_console_and_a_program_to_the_api(corner: Corner) -> None:
    client = TestClient(build_application(corner.handler, version="1.2", pages=True))
    links = re.findall(r'<a href="([^"]+)">', client.get("/", headers=HTML).text)
    assert links[:4] == ["console", "demo", "docs", "docs/try"]
    reply = client.get("/").json()
    assert (reply["api"], reply["openapi"], reply["health"]) == ("/v1", "/openapi.json", "/-/healthz")
    assert (reply["console"], reply["demo"], reply["script"]) == ("/console", "/demo", "/kiosk.js")


def test_without_pages_the_start_page_names_neither_console_nor_demonstrations(corner: Corner) -> None:
    client = TestClient(build_application(corner.handler, version="1.2"))
    for headers in (HTML, {}):
        text = client.get("/", headers=headers).text
        assert "openapi.json" in text
        assert "console" not in text
        assert "demo" not in text
