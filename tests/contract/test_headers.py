"""What every reply says to caches and browsers, over the table of endpoints and both ways in."""

from __future__ import annotations

import base64
import hashlib
import re
from typing import Any

import pytest

from actors.history.tracker import ThreadTracker
from cluster.crypto import Vault
from cluster.records.engine import Engine
from deployments.api.http.application import build_application
from deployments.api.http.hot import HotPathMiddleware
from deployments.archive.archive_config import ArchiveConfig
from deployments.archive.services import build_archive_routes, open_archive
from deployments.edge.http.request_log import RequestLog
from tests.fakes.asgi import Answer, call
from tests.fakes.request_handler import BROWSER, MASTER, Corner, open_corner

THREAD = "11111111-0000-4000-8000-000000000001"


@pytest.fixture
async def corner() -> Corner:
    corner = await open_corner()
    await corner.stores.engines.put(Engine(app_id="shop", engine_id="default"))
    await ThreadTracker(corner.stores, corner.clock).add_question("shop", "gina-7", THREAD, "How deep?", None)
    return corner


@pytest.fixture(params=["framework", "front"])
def app(request: pytest.FixtureRequest, corner: Corner) -> Any:
    archive = open_archive(
        corner.stores, Vault(MASTER), corner.archive, corner.clock, ArchiveConfig(),
        log=RequestLog(),
    )  # fmt: skip
    ordinary = build_application(corner.handler, version="0", more=build_archive_routes(archive))
    return HotPathMiddleware(ordinary, lambda: corner.handler) if request.param == "front" else ordinary


def is_kept_by_nobody(answer: Answer) -> bool:
    return (
        answer.headers.get("cache-control") == "no-store"
        and answer.headers.get("x-content-type-options") == "nosniff"
        and "etag" not in answer.headers
        and answer.names.count("cache-control") == 1
    )


def must_be_revalidated(answer: Answer) -> bool:
    return (
        answer.headers.get("cache-control") == "private, no-cache"
        and answer.headers.get("vary") == "X-API-KEY, Authorization"
        and answer.headers.get("x-content-type-options") == "nosniff"
        and answer.headers.get("etag", "").startswith('"')
    )


async def test_no_reply_of_any_endpoint_is_kept_by_a_cache_or_guessed_at_by_a_browser(
    corner: Corner, app: Any
) -> None:
    """Good requests, bad ones and those of strangers."""
    good = 0
    for endpoint in corner.handler.endpoints:
        path = re.sub(r"\{[a-z_]+\}", "gina-7", endpoint.path) + "?user_id=gina-7"
        for key in (corner.headers(), {"X-API-KEY": corner.publishable()}, {}):
            for body in ({"user_id": "gina-7"}, {"data": []}, None):
                answer = await call(
                    app, endpoint.method, path, headers={"User-Agent": BROWSER, **key}, json=body
                )
                assert is_kept_by_nobody(answer) or (answer.status == 200 and must_be_revalidated(answer)), (
                    endpoint.name
                )
                good += answer.status == 200
    assert good > 40
    for method, path in (
        ("GET", "/v1/nowhere"),
        ("PUT", "/v1/users"),
        ("OPTIONS", "/v1/users"),
        ("HEAD", "/v1/users/x"),
    ):
        assert is_kept_by_nobody(await call(app, method, path)), (method, path)


async def polled(corner: Corner, app: Any) -> list[str]:
    accepted = await call(
        app, "POST", "/v1/ask/questions", headers=corner.headers(), json={"question": "How deep?"}
    )
    paths = [f"/v1/ask/questions/{accepted.json()['data']['question_id']}/answer"]
    for endpoint in corner.handler.endpoints:
        if endpoint.method == "GET" and ("/threads" in endpoint.path or "notifications" in endpoint.path):
            paths.append(endpoint.path.replace("{thread_id}", THREAD) + "?user_id=gina-7")
    return paths


async def test_what_is_polled_has_a_tag_and_is_not_sent_again_while_it_is_the_same(
    corner: Corner, app: Any
) -> None:
    paths = await polled(corner, app)
    assert len(paths) == 4
    for path in paths:
        first = await call(app, "GET", path, headers=corner.headers())
        assert first.status == 200, path
        assert must_be_revalidated(first), path
        tag = first.headers["etag"]
        for condition in (tag, f"W/{tag}", f'"x", {tag}', "*"):
            again = await call(app, "GET", path, headers={**corner.headers(), "If-None-Match": condition})
            assert (again.status, again.body) == (304, b"")
            assert again.headers["etag"] == tag
            assert again.headers["vary"] == "X-API-KEY, Authorization"
            assert again.headers["access-control-allow-origin"] == "*"
            assert "x-request-id" in again.headers
        other = await call(app, "GET", path, headers={**corner.headers(), "If-None-Match": '"other"'})
        assert (other.status, other.body) == (200, first.body)
        # a tag opens nothing
        assert (await call(app, "GET", path, headers={"If-None-Match": tag})).status == 401


async def test_a_changed_thread_has_another_tag(corner: Corner, app: Any) -> None:
    path = "/v1/ask/user_history/threads?user_id=gina-7"
    paths = [path for path in await polled(corner, app) if path.endswith("threads?user_id=gina-7")]
    path = paths[0] if paths else path
    first = await call(app, "GET", path, headers=corner.headers())
    await ThreadTracker(corner.stores, corner.clock).add_question(
        "shop", "gina-7", "22222222-0000-4000-8000-000000000002", "And tulips?", None
    )
    again = await call(app, "GET", path, headers={**corner.headers(), "If-None-Match": first.headers["etag"]})
    assert again.status == 200
    assert again.headers["etag"] != first.headers["etag"]


async def test_pages_and_documents_load_nothing_and_can_not_be_framed(app: Any) -> None:
    page = await call(app, "GET", "/docs")
    policy = page.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "frame-ancestors 'none'" in policy
    assert "unsafe" not in policy
    assert page.headers["x-frame-options"] == "DENY"
    assert page.headers["referrer-policy"] == "no-referrer"
    assert page.headers["cache-control"].startswith("public")
    text = page.body.decode()
    (style,) = re.findall(r"<style>(.*?)</style>", text, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    assert f"style-src 'sha256-{digest}'" in policy
    assert not re.search(r"<(?:link|img|iframe|base)\b|\ssrc=|\sstyle=|@import|url\(|\son[a-z]+=", text)
    (script,) = re.findall(r"<script>(.*?)</script>", text, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}'" in policy
    assert "connect-src" not in policy, "the page calls nobody"
    assert not re.search(
        r"innerHTML|outerHTML|insertAdjacent|document\.write|eval|localStorage|cookie", script
    )
    assert not re.search(r'href="(?!#|openapi\.json|docs/try|docs/administration)', text)
    pages = ("/", "/docs/try", "/docs/administration", "/docs", "/openapi.json", "/llms.txt")
    for path in (*pages, "/.well-known/mcp-server-card"):
        answer = await call(app, "GET", path)
        assert answer.status == 200
        assert answer.headers["x-content-type-options"] == "nosniff", path
        assert answer.headers["cache-control"].startswith("public"), path


async def test_the_page_to_try_requests_runs_one_script_and_reaches_this_installation_only(app: Any) -> None:
    page = await call(app, "GET", "/docs/try")
    policy, text = page.headers["content-security-policy"], page.body.decode()
    (script,) = re.findall(r"<script>(.*?)</script>", text, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}'" in policy
    assert "connect-src 'self'" in policy
    assert "default-src 'none'" in policy
    assert "frame-ancestors 'none'" in policy
    assert "unsafe" not in policy
    assert not re.search(r"https?://", text)
    assert not re.search(
        r"innerHTML|outerHTML|insertAdjacent|document\.write|eval|localStorage|cookie", script
    )
    assert not re.search(r"<(?:link|img|iframe|base)\b|\ssrc=|\sstyle=|@import|url\(|\son[a-z]+=", text)
    assert not re.search(r'href="(?!\.\./docs"|\.\./openapi\.json")', text)


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/mcp"), ("GET", "/mcp"), ("POST", "/oauth/token"), ("POST", "/oauth/register"),
        ("PUT", "/oauth/token"),
        ("GET", "/oauth/authorize/archive"), ("GET", "/oauth/authorize/clients"), ("PUT", "/llms.txt"),
    ],
)  # fmt: skip
async def test_the_archive_and_its_sign_in_are_kept_by_nobody(app: Any, method: str, path: str) -> None:
    answer = await call(app, method, path, json={})
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["cache-control"] == "no-store"


async def test_no_cache_stores_a_user(corner: Corner, app: Any) -> None:
    user = {"data": [{"user_id": "gina-7"}]}
    await call(app, "POST", "/v1/users", headers=corner.headers(), json=user)
    await corner.apply()
    answer = await call(app, "GET", "/v1/users/gina-7", headers=corner.headers())
    assert answer.status == 200
    assert is_kept_by_nobody(answer)
