"""`KIOSK_CONSOLE` of a real API replica in this process, over a real Redis; it needs no Ray."""

from __future__ import annotations

import json
from pathlib import Path

import httpx
import pytest

from cluster.admin.master_keys import ensure_master_key
from cluster.settings import Settings
from tests.suites.redis_process import RedisProcess

pytestmark = [pytest.mark.redis, pytest.mark.filterwarnings("ignore")]
PAGES = (
    "/console",
    "/console/",
    "/console/sign-in",
    "/v1/admin/apps",
    "/demo",
    "/demo/shop",
    "/demo/static/shop.js",
)
SCRIPTS = ("/kiosk.js", "/kiosk-1.js")


@pytest.mark.parametrize(
    ("console", "expected"),
    [("false", {404}), ("true", {200, 307, 303, 401, 404})],
)
async def test_the_switch_removes_pages_and_administration_and_keeps_the_script(
    private_server: RedisProcess,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    console: str,
    expected: set[int],
) -> None:
    from deployments.front import gateway as process

    # Logging is set up for a process; this one belongs to pytest.
    monkeypatch.setattr(process, "set_up_logging", lambda **_: None)
    monkeypatch.setattr(process, "open_stderr", lambda: None)
    monkeypatch.setenv("KIOSK_REDIS_URL", private_server.url)
    monkeypatch.setenv("KIOSK_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.setenv("KIOSK_CONSOLE", console)
    monkeypatch.setenv("KIOSK_ARCHIVE_SUBJECTS", "recipes")
    ensure_master_key(Settings())
    gateway = process.Gateway({})
    app = await gateway.__serve_build_asgi_app__()
    try:
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as http:
            pages = {path: (await http.get(path)).status_code for path in PAGES}
            scripts = {path: (await http.get(path)).status_code for path in SCRIPTS}
            described = (await http.get("/openapi.json")).text
            guide = (await http.get("/llms.txt")).text
            start = (await http.get("/", headers={"accept": "text/html"})).text
    finally:
        await gateway.close()
    assert set(scripts.values()) == {200}
    assert set(pages.values()) == expected, pages
    # Without the playground, the demonstrations answer 404 as well; then only their files tell the difference.
    is_on = console == "true"
    assert (pages["/demo/static/shop.js"] == 200) is is_on
    assert ("/v1/admin/apps" in described) is is_on
    assert "`ask_archive`" in json.loads(described)["paths"]["/mcp"]["post"]["description"]
    assert "> A news archive (recipes) for AI agents" in guide
    assert ("/console" in start, "/demo" in start) == (is_on, is_on)
