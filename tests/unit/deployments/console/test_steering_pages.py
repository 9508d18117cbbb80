"""Pages of rules, experiments, search, questions and the archive: every role, and hostile names and queries."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from actors.experiments.lifecycle import ExperimentLifecycle
from cluster.records.administration import AppRole
from cluster.records.archive.archive_client import ArchiveCall
from cluster.records.archive.archive_terms import name_terms
from cluster.records.boost_rule import BoostRule
from cluster.records.engine import Engine, Promotion
from cluster.records.experiment import Exposure
from cluster.records.logged_query import LoggedQuery
from cluster.records.question import Answer, BankQuestion, CitedPassage, CitedSentence, Question
from deployments.console.pages import (
    archive,
    experiments,
    interleaving,
    question_experiments,
    rules,
    search,
)
from deployments.console.pages.rules import form_values, rule_from_form
from deployments.operations.framework.services import AdminConfig
from tests.fakes.admin_shop import AdminShop, open_admin_shop
from tests.fakes.archive_oauth import an_account
from tests.fakes.console import Visitor, console_app, open_console_services
from tests.fakes.corner_shop import APP, NOW_MS

HOSTILE = "<img src=x onerror=alert(1)>\"'{{7*7}}"
AREA_PAGES = (
    *rules.PAGES, *experiments.PAGES, *interleaving.PAGES, *question_experiments.PAGES, *search.PAGES,
    *archive.PAGES,
)  # fmt: skip
RANK: dict[str, int] = {"viewer": 1, "analyst": 2, "editor": 3, "owner": 4}
HTMX = {"hx-request": "true"}


@dataclass
class OpenConsole:
    shop: AdminShop
    app: Any

    async def visit(self, role: AppRole = "owner") -> Visitor:
        account = an_account(role)
        if await self.shop.services.stores.accounts.get(role) is None:
            await self.shop.services.stores.accounts.add(account.model_copy(update={"roles": {APP: role}}))
        visitor = Visitor(self.app)
        await visitor.sign_in(role)
        return visitor


@pytest.fixture
async def console(tmp_path: Path) -> AsyncIterator[OpenConsole]:
    async with open_admin_shop(tmp_path) as shop:
        shop.services = replace(shop.services, config=AdminConfig(archive_app=APP))
        await _make_hostile(shop)
        services = open_console_services(shop.corner.stores, shop.corner.clock, services=shop.services)
        yield OpenConsole(shop, console_app(services))


async def _make_hostile(shop: AdminShop) -> None:
    """Store names and texts in which a page could stumble."""
    stores = shop.services.stores
    await shop.perform("rules.put", rules=[{"name": HOSTILE, "boost_fq": "brand:Birk", "position": [1]}])
    await shop.perform("rules.put", rules=[{"name": "b", "boost_fq": "brand:Mori", "position": [1]}])
    await shop.perform(
        "experiments.create",
        experiments=[
            {
                "name": HOSTILE,
                "slug": "paywall",
                "reports_exposure": True,
                "variants": [{"name": "now"}, {"name": HOSTILE}],
            }
        ],
    )
    await shop.perform("experiments.start", experiment="paywall")
    await shop.perform("experiments.interleave", name="Hostile sides", rule=HOSTILE)
    variants = [{"name": "now"}, {"name": HOSTILE, "configuration": {"citation": HOSTILE}}]
    questions = {"name": HOSTILE, "slug": "cited", "method": "question", "variants": variants}
    await shop.perform("experiments.create", experiments=[questions])
    for text, total in ((HOSTILE, 0), (HOSTILE + "s", 3)):
        query = LoggedQuery(at=NOW_MS - 5, kind="search", text=text, total=total, took_ms=3.0)
        await stores.queries.append(APP, [query])
    answer = Answer(
        finish_reason="success", question=HOSTILE, sentences=(CitedSentence(text=HOSTILE, passage=0),),
        passages=(CitedPassage(product_id=HOSTILE, position=0, text=HOSTILE, title=HOSTILE, url="javascript:x"),),
    )  # fmt: skip
    question = Question(
        question_id="q", app_id=APP, text=HOSTILE, asked_at=NOW_MS, deadline_at=NOW_MS, user_id="gina"
    )
    await stores.questions.ask(question, answer, b"{}", holder="t", until_ms=NOW_MS)
    unanswered = question.model_copy(update={"question_id": "r", "text": "who is the king"})
    await stores.questions.ask(
        unanswered, Answer(finish_reason="success"), b"{}", holder="t", until_ms=NOW_MS
    )
    await stores.question_bank.replace(APP, [BankQuestion(question=HOSTILE)])
    call = ArchiveCall(
        at=NOW_MS - 5, tool="ask", client="c-0123456789abcdef", client_name=HOSTILE, question=HOSTILE,
        skill_used=HOSTILE, articles=(HOSTILE,), took_ms=2.0, coverage=0.1, signature="verified", agent=HOSTILE,
    )  # fmt: skip
    refused = replace(call, outcome="refused", refusal=HOSTILE)
    await stores.archive_calls.append(APP, [call, refused, replace(call, skill_used="")])
    await shop.perform("clients.deny", client=HOSTILE)
    await shop.perform("archive.set_terms", permits=["search"], holder=HOSTILE, licence=HOSTILE[:100])


SHOWN = (
    "/apps/shop/rules",
    "/apps/shop/rules/edit",
    "/apps/shop/rules/edit?name=b",
    "/apps/shop/rules/history",
    "/apps/shop/experiments",
    "/apps/shop/experiments/new",
    "/apps/shop/experiments/plan?rate=4&lift=10",
    "/apps/shop/experiments/paywall",
    "/apps/shop/interleavings/new",
    "/apps/shop/interleavings/hostile-sides",
    "/apps/shop/question-experiments/cited",
    "/apps/shop/search",
    "/apps/shop/search?since=90d&kind=search",
    "/apps/shop/questions",
    "/apps/shop/questions?state=unanswered",
    "/apps/shop/question-bank",
    "/apps/shop/archive",
    "/apps/shop/archive/file?by=skill",
)


@pytest.mark.parametrize("role", list(RANK))
async def test_each_role_opens_what_it_may_and_no_text_becomes_markup(
    console: OpenConsole, role: AppRole
) -> None:
    visitor = await console.visit(role)
    needed = {page.path: page.role for page in AREA_PAGES if "GET" in page.methods}
    for path in SHOWN:
        pattern = path.partition("?")[0].replace("/apps/shop", "/apps/{app_id}")
        pattern = pattern.replace("/cited", "/{question_experiment}")
        least = (
            needed.get(
                re.sub("/paywall", "/{experiment}", re.sub("/hostile-sides", "/{interleaving}", pattern))
            )
            or "viewer"
        )
        page = await visitor.get(path)
        assert page.status_code == (200 if RANK[role] >= RANK[least] else 403), (path, page.text[-2000:])
        if page.headers["content-type"].startswith("text/csv"):
            continue  # a file to save, never shown
        assert "<img" not in page.text, path
        assert "javascript:" not in page.text, path
        assert "49" not in re.findall(r"onerror=alert\(1\)&gt;&#34;&#39;(\d+)", page.text), path
    assert ("gina" in (await visitor.get("/apps/shop/questions")).text) is False


@pytest.mark.parametrize("role", ["viewer", "analyst", "editor"])
async def test_each_role_changes_only_what_it_may(console: OpenConsole, role: AppRole) -> None:
    visitor = await console.visit(role)
    for page in AREA_PAGES:
        if "POST" not in page.methods:
            continue
        await visitor.get("/apps/shop/rules")
        path = (
            page.path.replace("{app_id}", APP)
            .replace("{experiment}", "paywall")
            .replace("{interleaving}", "hostile-sides")
        )
        answer = await visitor.post(path, headers=HTMX)
        assert (answer.status_code == 403) == (RANK[role] < RANK[page.role or "viewer"]), path


async def test_viewers_see_no_query_texts(console: OpenConsole) -> None:
    visitor = await console.visit("viewer")
    page = await visitor.get("/apps/shop/archive")
    assert "Top questions" not in page.text
    refused = await visitor.get("/apps/shop/search")
    assert (refused.status_code, "This needs the role analyst" in refused.text) == (403, True)
    assert "/console/apps/shop/search" not in page.text


async def test_a_rule_is_made_previewed_moved_deleted_and_brought_back(console: OpenConsole) -> None:
    visitor = await console.visit("editor")
    form = {
        "name": "boards", "engine_id": "default", "enabled": "on", "boost_fq": "product_id:cutting-board",
        "position": "1", "priority": "9", "try_users": "gina", "try_queries": "*",
    }  # fmt: skip
    preview = await visitor.post("/apps/shop/rules/preview", headers=HTMX, **form)
    assert preview.status_code == 200
    assert "Oak cutting board" in preview.text
    assert "boards wins over b" in preview.text
    assert "The filter selects 1 products" in preview.text
    for heading in ("Search: all products", "Recommendations for gina"):
        assert f"<h3>{heading}</h3>" in preview.text
    assert "<html" not in preview.text
    broken = await visitor.post("/apps/shop/rules/preview", headers=HTMX, **{**form, "boost_fq": "brand:("})
    assert "boost_fq is invalid" in broken.text
    refused = await visitor.post("/apps/shop/rules/edit", **{**form, "boost_fq": "brand:(", "name": HOSTILE})
    assert refused.status_code == 400
    assert "<img" not in refused.text
    assert "brand:(" in refused.text
    saved = await visitor.post("/apps/shop/rules/edit", **form)
    assert saved.headers["location"] == "/console/apps/shop/rules"
    page = await visitor.get("/apps/shop/rules")
    assert "boards was saved" in page.text
    assert "both pin products at position 1" in page.text
    moved = await visitor.post("/apps/shop/rules/move", name="boards", engine_id="default", direction="down")
    assert moved.status_code == 303
    await visitor.post("/apps/shop/rules/delete", name="boards", engine_id="default")
    page = await visitor.get("/apps/shop/rules/history")
    version = re.findall(r'name="version_id" value="([^"]+)"', page.text)[0]
    undone = await visitor.post("/apps/shop/rules/history", version_id=version, verb="undo")
    assert undone.headers["location"] == "/console/apps/shop/rules"
    page = await visitor.get("/apps/shop/rules")
    assert "The change was undone." in page.text
    stored = await console.shop.perform("rules.list")
    assert "boards" in [rule.name for rule in stored.rules]
    newest = (await console.shop.perform("rules.history")).versions[0]
    assert (newest.username, newest.change) == ("editor", "undo")


async def test_an_interleaving_is_started_shown_and_ended(console: OpenConsole) -> None:
    await console.shop.perform("experiments.complete", experiment="hostile-sides")
    visitor = await console.visit("editor")
    form = await visitor.get("/apps/shop/interleavings/new")
    assert "Both sides fill the same lists by turns" in form.text
    refused = await visitor.post("/apps/shop/interleavings/new", name="Less", rule="nothing")
    assert "no stored rule" in refused.text
    started = await visitor.post("/apps/shop/interleavings/new", name="Less", rule="b", traffic="50")
    address = started.headers["location"].removeprefix("/console")
    page = await visitor.get(address)
    assert "Less is Active." in page.text
    assert "No list was interleaved yet" in page.text
    assert "50 %" in page.text
    experiment = (await console.shop.perform("experiments.get", experiment="less")).experiment
    assert (experiment.method, experiment.variants[1].boost_rule) == ("interleave", "b")
    step = await visitor.post(f"/apps/shop/experiments/{experiment.experiment_id}", step="complete")
    there = await visitor.get(step.headers["location"].removeprefix("/console"))
    assert there.headers["location"].removeprefix("/console") == address
    assert "Conclude" not in (await visitor.get(address)).text


async def test_many_rules_are_shown_page_by_page(console: OpenConsole) -> None:
    many = [{"name": f"r{at:03}", "boost_fq": "brand:Birk", "position": [1]} for at in range(150)]
    await console.shop.perform("rules.put", rules=many)
    visitor = await console.visit("editor")
    first = await visitor.get("/apps/shop/rules")
    rest = await visitor.get("/apps/shop/rules?start=150")
    assert ("r000<" in first.text, "r149<" in first.text) == (True, False)
    assert ("r000</a>" in rest.text, "r149</a>" in rest.text) == (False, True)
    assert "152 rules" in first.text
    assert "in all; the operation rules.conflicts lists them" in first.text
    assert (await visitor.get("/apps/shop/rules?start=x")).status_code == 200


async def test_an_experiment_is_made_planned_and_led_through_its_life(console: OpenConsole) -> None:
    visitor = await console.visit("editor")
    plan = await visitor.get("/apps/shop/experiments/plan?rate=20&lift=15&people_per_day=1000", **HTMX)
    assert "5,766" in plan.text
    assert "is no number" in (await visitor.get("/apps/shop/experiments/plan?rate=x", **HTMX)).text
    form = await visitor.get("/apps/shop/experiments/new")
    for name in ("engine_id_2", "snapshot_2", "boost_rule_2"):
        assert f'<select id="f-{name}"' in form.text
    assert '<option value="b">' in form.text
    assert form.text.index('id="f-boost_rule_2"') < form.text.index('id="f-weight_2"'), "effects come first"
    made = await visitor.post(
        "/apps/shop/experiments/new", name="Blue button", goal="add_to_cart", variant_1="now", variant_2="blue",
        weight_2="2", traffic="50",
    )  # fmt: skip
    address = made.headers["location"].removeprefix("/console")
    page = await visitor.get(address)
    assert "Blue button" in page.text
    assert "add to cart" in page.text
    assert "50 %" in page.text
    assert "All variants serve the same." in page.text
    refused = await visitor.post(address, step="start")
    assert (refused.status_code, "no user would be counted" in refused.text) == (400, True)
    await visitor.get(address)
    await visitor.post(address, step="edit", **{"reports_exposure-shown": "yes", "reports_exposure": "on"})
    assert "All variants serve the same." not in (await visitor.get(address)).text
    await visitor.post(address, step="start")
    assert "Blue button is Active." in (await visitor.get(address)).text
    await visitor.post(address, step="edit", **{"weights-blue": "3", "traffic": ""})
    experiment = (await console.shop.perform("experiments.get", experiment="blue-button")).experiment
    assert [variant.weight for variant in experiment.variants] == [1, 3]
    await visitor.get(address)
    refused = await visitor.post(address, step="edit", traffic="10")
    assert refused.status_code == 400
    assert "traffic can only go up" in refused.text
    await visitor.get(address)
    await visitor.post(address, step="complete")
    assert "Completed" in (await visitor.get(address)).text


async def test_the_wizard_makes_goals_segments_and_guardrails_that_the_page_shows(
    console: OpenConsole,
) -> None:
    visitor = await console.visit("editor")
    made = await visitor.post(
        "/apps/shop/experiments/new", name="Values", variant_1="now", variant_2="blue", goals="orders",
        primary="revenue", segments="device", guardrails="latency", reports_exposure="on",
    )  # fmt: skip
    address = made.headers["location"].removeprefix("/console")
    experiment = (await console.shop.perform("experiments.get", experiment="values")).experiment
    assert [goal.name for goal in experiment.goals] == ["orders", "revenue"]
    assert (experiment.primary, experiment.segments) == ("revenue", ("device",))
    assert experiment.guardrails == {"latency": 50}
    stores = console.shop.corner.stores
    for number in range(4):
        exposure = Exposure(experiment.variants[number % 2].variant_id, NOW_MS, device="phone")
        await stores.experiments.assign(experiment, [f"u:{number}"], exposure, "take")
    page = (await visitor.get(address)).text
    for text in ("Revenue per user", "Orders per user", "Users who convert", "device: phone", "primary"):
        assert text in page
    assert "Guardrail of latency" in page
    await visitor.post(address, step="edit", **{"guardrails-latency": "20"})
    experiment = (await console.shop.perform("experiments.get", experiment="values")).experiment
    assert experiment.guardrails == {"latency": 20}
    await visitor.get(address)
    await visitor.post(address, step="start")
    await ExperimentLifecycle(stores, console.shop.corner.clock).pause(APP, "values", "latency of blue")
    assert "A guardrail paused the experiment: latency of blue." in (await visitor.get(address)).text
    plan = await visitor.get("/apps/shop/experiments/plan?rate=&lift=15&primary=revenue", **HTMX)
    assert "has no revenue in the last 14 days" in plan.text


async def test_the_question_bank_and_clients_are_changed(console: OpenConsole) -> None:
    visitor = await console.visit("owner")
    await visitor.post("/apps/shop/question-bank", verb="add", question="Is it oak?", weight="2")
    await visitor.post(
        "/apps/shop/question-bank", verb="edit", question="Is it oak?", new_question="Is it ash?", weight="3"
    )
    page = await visitor.get("/apps/shop/question-bank?contains=ash")
    assert "Is it ash?" in page.text
    refused = await visitor.post("/apps/shop/question-bank", verb="add", question="Is it ash?")
    assert (refused.status_code, "already" in refused.text) == (409, True)
    await visitor.post("/apps/shop/question-bank", verb="remove", question="Is it ash?")
    assert (await console.shop.perform("bank.list")).total == 1
    await visitor.post("/apps/shop/archive/clients", verb="rate", client="Bot", calls_per_minute="12")
    page = await visitor.get("/apps/shop/archive")
    assert "The rate limit of Bot is saved." in page.text
    assert ("without a skill" in page.text, "(direct)" in page.text) == (True, False)
    assert "Agents that sign their requests" in page.text
    await visitor.post("/apps/shop/archive/terms", permits="search, ai-input", payment="attribution")
    page = await visitor.get("/apps/shop/archive")
    assert "The terms are saved." in page.text
    assert "train-ai=n, search=y" in page.text
    refused = await visitor.post("/apps/shop/archive/terms", permits="everything")
    assert "permits: input should be" in refused.text
    await visitor.post("/apps/shop/archive/remove-terms", licence="")
    assert list((await console.shop.perform("archive.terms")).terms) == [name_terms(HOSTILE[:100])]
    refused = await visitor.post(
        "/apps/shop/archive/clients", verb="rate", client="Bot", calls_per_minute="x"
    )
    assert "have to be a number" in refused.text
    await visitor.post("/apps/shop/archive/clients", verb="forget", client="Bot")
    assert [rule.client for rule in (await console.shop.perform("clients.list")).rules] == [HOSTILE]


@pytest.mark.parametrize(
    "rule",
    [
        {"name": "a", "boost_fq": "brand:Birk", "position": [1, 4], "priority": 3, "enabled": False},
        {"name": "a", "boost": [{"field": "brand", "option": "contains", "query": "B", "action": "bury"}]},
        {"name": "a", "boost": [{"field": "brand", "query": "B", "pin_position": 2}]},
        {"name": "a", "boost_fq": "x:1", "queries": ["knife", "board"], "query_option": "is"},
        {"name": "a", "boost_fq": "x:1", "context": {"season": ["spring"]}, "module_names": ["home"]},
        {
            "name": "a",
            "json_asset": {"banner": [1, None]},
            "api_names": ["search"],
            "boosting_tags": ["x", "y z"],
        },
        {"name": "a", "boost_fq": "x:1", "starts_at": NOW_MS, "ends_at": NOW_MS + 60_000},
    ],
)
def test_a_rule_survives_its_form(rule: dict[str, Any]) -> None:
    stored = BoostRule.model_validate(rule)
    values = form_values(stored, "default")
    form = {name: str(value) for name, value in values.items() if name != "enabled"}
    if values["enabled"]:
        form["enabled"] = "on"
    again = BoostRule.model_validate(rule_from_form(form, {"api_names": stored.api_names}))
    assert again == stored


async def test_products_are_picked_for_a_rule_from_a_search(console: OpenConsole) -> None:
    visitor = await console.visit("editor")
    search = await visitor.get("/apps/shop/rules/products?q=steel+fork", **HTMX)
    assert 'data-pick="hand-fork"' in search.text
    assert "No products found." in (await visitor.get("/apps/shop/rules/products?q=zzzz", **HTMX)).text
    await visitor.get("/apps/shop/rules/edit")
    # a browser sends the inputs of each chosen product again
    body = {"csrf": visitor.token, "name": "two", "engine_id": "default", "enabled": "on", "priority": "0",
            "pick": ["hand-fork", "tulip-bulbs"], "pick_position": ["2", "5"]}  # fmt: skip
    saved = await visitor.http.post("/console/apps/shop/rules/edit", data=body)
    assert saved.status_code == 303, saved.text
    rules = {rule.name: rule for rule in (await console.shop.perform("rules.list")).rules}
    assert [(entry.query, entry.pin_position) for entry in rules["two"].boost] == [
        ("hand-fork", 2),
        ("tulip-bulbs", 5),
    ]
    page = await visitor.get("/apps/shop/rules/edit?name=two")
    assert re.findall(r'name="pick" value="([^"]+)"', page.text) == ["hand-fork", "tulip-bulbs"]
    body |= {"csrf": visitor.token, "pick_position": ["first", "5"]}
    refused = await visitor.http.post("/console/apps/shop/rules/edit?name=two", data=body)
    assert refused.status_code == 400
    assert re.findall(r'name="pick" value="([^"]+)"', refused.text) == ["hand-fork", "tulip-bulbs"]


async def test_a_preview_names_the_new_place_of_a_buried_product(console: OpenConsole) -> None:
    stored = [rule.name for rule in (await console.shop.perform("rules.list")).rules]
    await console.shop.perform("rules.delete", engine_id="default", names=stored)
    listed = await console.shop.perform("catalog.search", q="*", limit=50)
    first = listed["products"][0]["product_id"]
    preview = await console.shop.perform(
        "rules.preview", engine_id="default", queries=["*"], rows=3,
        rule={"name": "last", "boost": [{"field": "product_id", "query": first, "action": "bury"}]},
    )  # fmt: skip
    (sample,) = [listed_sample for listed_sample in preview.samples if listed_sample.endpoint == "search"]
    assert [listed_sample.after for listed_sample in sample.products] == [1, 2, 3, listed["total"]]
    assert (sample.products[3].product_id, sample.products[3].change) == (first, "down")


async def test_the_page_of_an_interleaving_names_its_promotion(console: OpenConsole) -> None:
    shop = console.shop
    stores = shop.services.stores
    lifecycle = ExperimentLifecycle(stores, shop.services.clock)
    variants = [{"name": "now", "snapshot": "v1"}, {"name": HOSTILE, "snapshot": "v2", "weight": 0}]
    draft = {"name": "New", "method": "interleave", "variants": variants, "promote_when_better": True}
    (experiment,) = await lifecycle.create(APP, [draft])
    await lifecycle.start(APP, "new")
    visitor = await console.visit("viewer")
    await stores.engines.put(Engine(app_id=APP, engine_id="default", snapshot="v1"))
    address = f"/apps/shop/interleavings/{experiment.experiment_id}"
    assert "It promotes v2 by itself" in (await visitor.get(address)).text
    evidence = {"experiment_id": experiment.experiment_id}
    entry = Promotion(
        app_id=APP, engine_id="default", version="v2", before="v1", at_ms=NOW_MS, evidence=evidence
    )
    assert await stores.promotions.promote(entry)
    assert "It promoted v2 by itself" in (await visitor.get(address)).text
