"""The framework of the console: headers, files, texts, templates."""

from __future__ import annotations

import hashlib
import re
import sys
from pathlib import Path

import pytest
import structlog
from starlette.responses import Response

from cluster.errors import Conflict
from cluster.store.stores import Stores
from deployments.console.assets import FOLDER as STATIC
from deployments.console.assets import SERVED
from deployments.console.page import Page
from deployments.console.pages.all_pages import PAGES
from deployments.console.renderer import FOLDER as TEMPLATES
from deployments.console.renderer import POLICY
from deployments.console.request import ConsoleRequest
from deployments.console.texts.console_texts import ConsoleTexts
from tests.fakes.archive_oauth import an_account
from tests.fakes.console import Visitor, console_app, open_console_services
from tests.suites.manual_clock import ManualClock

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

OURS = {"console.css", "console.js", "icon.svg"}
_KEY = re.compile(r"""\b(?:t|text|texts)\(\s*["']([a-z0-9_.]+)["']""")
_OPEN_KEY = re.compile(r"""\bt\(\s*["']([a-z0-9_.]+[._])["']\s*~""")
_FORMATTED_KEY = re.compile(r"""\bf"([a-z0-9_]+\.[a-z0-9_.]+\.)\{""")
_NAMED = re.compile(r'"([a-z0-9_]+(?:\.[a-z0-9_]+)+)"')
_INLINE = re.compile(r"""\son[a-z]+\s*=\s*["']|\sstyle\s*=|<style|javascript:|hx-on|\|\s*safe\b""")


async def _thorny(request: ConsoleRequest) -> Response:
    if request.method == "POST":
        raise Conflict("there is a <b>rule</b> of that name")
    return request.page("error.html", code=1, message=request.form.get("name", "empty"))


async def _faulty(request: ConsoleRequest) -> Response:
    raise RuntimeError("a secret cause")


@pytest.fixture
async def visitor(memory_stores: Stores) -> Visitor:
    await memory_stores.accounts.add(an_account(role="administrator"))
    pages = (*PAGES, Page("/thorny", _thorny, methods=("GET", "POST")), Page("/faulty", _faulty))
    services = open_console_services(memory_stores, ManualClock())
    return Visitor(console_app(services, pages))


def test_each_vendored_file_has_its_version_licence_and_checksum() -> None:
    rows = tomllib.loads((STATIC / "VENDORED.toml").read_text("utf-8"))["file"]
    assert {row["name"] for row in rows} | OURS == {
        path.name for path in STATIC.iterdir() if path.suffix in SERVED
    }
    for row in rows:
        assert hashlib.sha256((STATIC / row["name"]).read_bytes()).hexdigest() == row["sha256"], row["name"]
        assert row["version"]
        assert row["licence"]
        assert (STATIC / row["licence_file"]).stat().st_size > 200


def test_each_text_of_a_page_exists_and_no_text_is_unused() -> None:
    texts = set(ConsoleTexts().texts)
    templates = [path.read_text("utf-8") for path in TEMPLATES.rglob("*.html")]
    code = [path.read_text("utf-8") for path in TEMPLATES.parent.rglob("*.py")]
    used = {key for text in (*templates, *code) for key in _KEY.findall(text) if not key.endswith((".", "_"))}
    begun = {key for text in templates for key in _OPEN_KEY.findall(text)}
    begun |= {key for text in code for key in _FORMATTED_KEY.findall(text)}
    named = {key for text in code for key in _NAMED.findall(text)} & texts
    assert used - texts == set()
    unused = texts - used - named
    assert {key for key in unused if not key.startswith(tuple(begun) or ("\0",))} == set()


def test_no_template_has_script_or_style_in_it() -> None:
    for path in TEMPLATES.rglob("*.html"):
        text = path.read_text("utf-8")
        assert not _INLINE.search(text), path
        assert [script for script in re.findall(r"<script[^>]*>", text) if "src=" not in script] == [], path


async def test_pages_have_the_headers_that_browsers_obey(visitor: Visitor) -> None:
    page = await visitor.get("/sign-in")
    assert page.status_code == 200
    assert page.headers["content-security-policy"] == POLICY
    assert page.headers["x-frame-options"] == "DENY"
    assert page.headers["x-content-type-options"] == "nosniff"
    assert page.headers["referrer-policy"] == "no-referrer"
    assert page.headers["cache-control"] == "no-store"


async def test_the_first_load_is_small_and_its_files_are_kept_for_ever(visitor: Visitor) -> None:
    page = await visitor.sign_in()
    names = re.findall(r'(?:src|href)="(/console/static/[^"]+)"', page.text)
    size = len(page.content)
    for name in names:
        answer = await visitor.http.get(name)
        assert answer.headers["cache-control"] == "public, max-age=31536000, immutable"
        assert answer.headers["content-encoding"] == "gzip"
        size += int(answer.headers["content-length"])
    assert len(names) == 4
    assert size <= 150_000
    charts = re.findall(r'data-uplot-[a-z]+="([^"]+)"', page.text)
    for name in charts:
        size += int((await visitor.http.get(name)).headers["content-length"])
    assert len(charts) == 2
    assert size <= 400_000
    older = await visitor.http.get(re.sub(r"static/\w+/", "static/0123/", names[0]))
    assert older.headers["cache-control"] == "no-store"


async def test_a_refused_form_is_shown_again_with_the_message_and_what_was_entered(visitor: Visitor) -> None:
    await visitor.sign_in()
    page = await visitor.post("/thorny", name="<i>spring</i>")
    assert page.status_code == 409
    assert "there is a &lt;b&gt;rule&lt;/b&gt; of that name" in page.text
    assert "&lt;i&gt;spring&lt;/i&gt;" in page.text
    part = await visitor.post("/thorny", headers={"hx-request": "true"}, name="x")
    assert part.headers["hx-retarget"] == "#notices"
    assert "<html" not in part.text


@pytest.mark.parametrize("headers", [{}, {"hx-request": "true"}], ids=["page", "part"])
async def test_an_unexpected_error_names_the_request_id_of_its_log_line(
    visitor: Visitor, headers: dict[str, str]
) -> None:
    await visitor.sign_in()
    with structlog.testing.capture_logs() as lines:
        page = await visitor.get("/faulty", **headers)
    (line,) = [line for line in lines if line["event"] == "console_failed"]
    assert page.status_code == 500
    assert f"kiosk logs {line['request_id']}" in page.text
    assert "a secret cause" not in page.text


async def test_a_form_from_elsewhere_or_without_its_token_is_refused(visitor: Visitor) -> None:
    await visitor.sign_in()
    elsewhere = await visitor.post("/thorny", headers={"origin": "https://evil.example.com"})
    assert elsewhere.status_code == 403
    assert (await visitor.post("/thorny", headers={"sec-fetch-site": "cross-site"})).status_code == 403
    assert (await visitor.post("/thorny", csrf="wrong")).status_code == 403
    assert (await visitor.http.post("/console/thorny", json={})).status_code == 400


async def test_pages_need_a_session_and_lead_to_the_sign_in(visitor: Visitor) -> None:
    page = await visitor.get("/thorny?x=1")
    assert page.status_code == 303
    assert page.headers["location"] == "/console/sign-in?next=%2Fconsole%2Fthorny%3Fx%3D1"
    part = await visitor.get("/thorny", **{"hx-request": "true"})
    assert part.headers["hx-redirect"] == "/console/sign-in?next=%2Fconsole%2F"
    assert (await visitor.get("/no-such-page")).status_code == 303
    await visitor.sign_in()
    assert (await visitor.get("/no-such-page")).status_code == 404
    assert (await visitor.http.put("/console/thorny")).status_code == 405


def test_paths_of_pages_are_unique_per_method() -> None:
    places = [(page.path, method) for page in PAGES for method in page.methods]
    assert len(places) == len(set(places))


def test_templates_are_all_used() -> None:
    texts = [path.read_text("utf-8") for path in TEMPLATES.parent.rglob("*.py")]
    texts += [path.read_text("utf-8") for path in TEMPLATES.rglob("*.html")]
    joined = "\n".join(texts)
    for path in TEMPLATES.rglob("*.html"):
        assert f'"{Path(path).relative_to(TEMPLATES).as_posix()}"' in joined, path
