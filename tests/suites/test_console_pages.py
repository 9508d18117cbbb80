"""Every page of the console over Redis with something on it: it is answered, and a browser loads little with it."""

from __future__ import annotations

import html
import math
import re
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest

from cluster.clock import SystemClock
from cluster.records.run import StageResult, claim_run, end_run, update_leased_run
from cluster.store.connect import open_stores
from deployments.console.pages.all_pages import PAGES
from deployments.console.renderer import FOLDER, Renderer
from jobs.refresh.evaluation.report_store import ReportStore
from tests.benchmarks.console_data import PageDataSizes, fill_app
from tests.benchmarks.console_pages import FORM_TOKEN, NOT_WALKED, SIGN_IN, list_cases, walk_in_process
from tests.browser.stage import Stage, open_stage
from tests.fakes.archive_oauth import PASSWORD
from tests.fakes.model_shop import evaluation
from tests.suites.doing import require
from tests.suites.redis_process import RedisProcess
from tests.unit.deployments.console.test_sign_in import code_at

SOME = PageDataSizes(
    products=300, interactions=1_000, users=300, rules=120, queries=300, calls=300, exposures=200, audit_rows=60,
    bank=120, runs=3, people=3, refused=3,
)  # fmt: skip
FEW = PageDataSizes(
    products=60, interactions=300, users=60, rules=5, queries=60, calls=40, exposures=60, audit_rows=20, bank=5, runs=1,
    people=2, refused=2,
)  # fmt: skip
PARTS = re.compile(r"""{%-? *(?:extends|include|import|from) *["']([^"']+)""")
PYTHON = re.compile(r">\s*None\s*<|\bNone\b(?=,|\])|\{&#39;|\[&#39;|&lt;[a-z_.]+ object")
"What only Python writes: None in a cell, dictionaries and lists with their quotes, addresses of objects."
PROGRAM = re.compile(r"<pre.*?</pre>|data-copy=\"[^\"]*\"", re.DOTALL)


def test_the_benchmark_forgets_no_page() -> None:
    shown = {page.path for page in PAGES if "GET" in page.methods}
    assert {case.pattern.partition("?")[0] for case in list_cases({})} == shown - set(NOT_WALKED)


@pytest.mark.redis
async def test_each_page_with_data_is_answered_and_small() -> None:
    lines = await walk_in_process(SOME, rounds=1, engine=True)
    assert [(line.name, line.reason) for line in lines if math.isnan(line.value)] == []
    sizes = [line for line in lines if line.unit == "KB"]
    assert len(sizes) > 35
    assert [(line.name, line.value) for line in sizes if not line.kept] == []


class _Person:
    """Somebody who opens pages and sends forms."""

    def __init__(self, origin: str) -> None:
        self.http = httpx.AsyncClient(base_url=origin, timeout=60)
        self.text = ""

    async def get(self, path: str) -> httpx.Response:
        """Open an address below `/console`, or a part of a page as htmx does."""
        answer = await self.http.get("/console" + path)
        self.text = answer.text
        return answer

    async def send(self, page: str, path: str, *, part: bool = False, **form: str) -> httpx.Response:
        """Open a page and send one of its forms."""
        await self.get(page)
        token = FORM_TOKEN.search(self.text)
        assert token, page
        headers = {"hx-request": "true"} if part else {}
        data = {"csrf": html.unescape(token[1]), **form}
        answer = await self.http.post("/console" + path, data=data, headers=headers)
        self.text = answer.text
        return answer

    async def sign_in(self, username: str) -> None:
        """Sign in by the form."""
        answer = await self.send(SIGN_IN, SIGN_IN, username=username, password=PASSWORD)
        assert answer.status_code == 303, answer.text


@pytest.mark.redis
async def test_every_template_is_rendered_with_figures(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rendered: dict[str, list[str]] = {}
    render = Renderer.render

    def render_and_record(self: Renderer, template: str, *given: Any, **named: Any) -> Any:
        response = render(self, template, *given, **named)
        rendered.setdefault(template, []).append(bytes(response.body).decode())
        return response

    monkeypatch.setattr(Renderer, "render", render_and_record)
    async with AsyncExitStack() as stack:
        server = RedisProcess()
        stack.callback(server.stop)
        stores = await stack.enter_async_context(open_stores(server.start().url))
        stage = await stack.enter_async_context(open_stage(stores, tmp_path))
        await stage.corner.asking.start()
        await stage.add_person()
        await stage.add_person("guest", role="reader", roles={})
        values = await fill_app(stage, "shop", FEW, tmp_path, for_engine=True)
        values["run_id"] = await _finish_run(stage, values)
        person = _Person(stage.origin)
        stack.push_async_callback(person.http.aclose)
        await person.get(SIGN_IN)
        await person.sign_in("ada")
        for case in list_cases(values):
            if case.pattern != SIGN_IN:
                answer = await person.get(case.address)
                assert answer.status_code == 200, (case, answer.text)
        await _send_forms(person, values)
        guest = _Person(stage.origin)
        stack.push_async_callback(guest.http.aclose)
        await guest.sign_in("guest")
        assert (await guest.get("/")).status_code == 403
        late = _Person(stage.origin)
        stack.push_async_callback(late.http.aclose)
        assert "code" in (await late.send(SIGN_IN, SIGN_IN, username="ada", password=PASSWORD)).text
    templates = {
        path.relative_to(FOLDER).as_posix(): path.read_text("utf-8") for path in FOLDER.rglob("*.html")
    }
    parts = {name for text in templates.values() for name in PARTS.findall(text)} | {"macros.html"}
    assert set(templates) - parts - set(rendered) == set()
    shown = [
        (name, text[max(0, match.start() - 150) : match.end() + 50])
        for name, texts in rendered.items()
        for text in (PROGRAM.sub("", text) for text in texts)
        if (match := PYTHON.search(text)) is not None
    ]
    assert shown == []


async def _finish_run(stage: Stage, values: dict[str, str]) -> str:
    """Give both snapshots an evaluation, and add a training that ended with figures and stages."""
    stores, now_ms = stage.corner.stores, SystemClock().now_ms()
    reports = ReportStore(stage.artifacts)
    first, second = values["first_version"], values["second_version"]
    reports.put("shop", "default", first, evaluation())
    reports.put("shop", "default", second, evaluation(0.02, serving=first))
    await stage.perform("promotions.promote", engine_id="default", version=first)
    run = (await stage.perform("runs.order", engine_id="default", recipe="fast")).run
    claimed = require(claim_run(run, "worker", now_ms))
    stages = (
        StageResult(name="dataset", seconds=1.5, facts={"events": 12, "kinds": {"click": 3}, "none": None}),
    )
    working = require(update_leased_run(claimed, "worker", 1, now_ms, {"stage": "plan", "stages": stages}))
    parts = tuple(part.to_dict() for part in evaluation().parts)
    ended = end_run(
        working, "worker", 1, now_ms, "finished",
        {"version": second, "figures": {"ndcg@10": 0.2}, "parts": parts, "verdict": "Better."},
    )  # fmt: skip
    assert ended is not None
    await stores.runs.compare_and_set(ended)
    return run.run_id


async def _send_forms(person: _Person, values: dict[str, str]) -> None:
    """Send each form that is answered with a page or a part of one."""
    shop = "/apps/shop"
    training, rule = f"{shop}/models/trainings", f"{shop}/rules/edit"
    estimate = await person.send(
        f"{training}/new", f"{training}/estimate", part=True, engine_id="default", recipe="fast"
    )
    assert estimate.status_code == 200, estimate.text
    assert re.search(r"For \d{3} interactions of about \d\d users with 72 products", estimate.text), (
        estimate.text
    )
    preview = await person.send(
        rule, f"{shop}/rules/preview", part=True, name="kettles", engine_id="default", action="pin",
        boost_fq="brand:Alder", try_queries="kettle", try_users="b0-1", try_products="p11", enabled="on",
    )  # fmt: skip
    assert preview.status_code == 200, preview.text
    import_path = f"{shop}/import/{values['import_id']}"
    trial = await person.send(
        import_path, f"{import_path}/dry-run", part=True, **{"column-0": "product_id", "more": ""}
    )
    assert trial.status_code == 200, trial.text
    for kind in ("user_to_products", "user_to_categories", "search", "complete", "ask"):
        answer = await person.send(
            f"{shop}/try",
            f"{shop}/try",
            part=True,
            kind=kind,
            q="kettle",
            user_id_a="b0-1",
            facets="brand",
            compare="on",
        )
        assert answer.status_code == 200, answer.text
    for page, form in (
        ("/people", {"username": "zoe", "role": "reader"}),
        ("/tokens", {"name": "nightly", "role": "viewer", "days": "3"}),
        ("/apps", {"app_id": "second", "environment": "development"}),
    ):
        answer = await person.send(page, page, **form)
        assert answer.status_code == 200, (page, answer.text)
    invited = await person.send(f"{shop}/access", f"{shop}/access/invite", username="", role="viewer")
    assert invited.status_code == 200, invited.text
    assert (await person.get("/invitation?token=kiv_never_made")).status_code == 404
    assert (await person.get("/nothing")).status_code == 404
    wrong = await person.send(
        f"{training}/new", f"{training}/estimate", part=True, recipe="fast", changes="x=1"
    )
    assert wrong.status_code == 400
    shown = await person.send("/account", "/account/second-factor", password=PASSWORD)
    secret = re.search(r"<code>([A-Z2-7]{32})</code>", shown.text)
    pending = re.search(r'name="pending" value="([^"]+)"', shown.text)
    assert secret
    assert pending
    confirmed = await person.send(
        "/account", "/account/second-factor/confirm", pending=html.unescape(pending[1]),
        code=code_at(secret[1], SystemClock().now_ms()),
    )  # fmt: skip
    assert confirmed.status_code == 200, confirmed.text
