"""`kiosk.js` on pages of another origin: against the whole API, and against a network that misbehaves."""

from __future__ import annotations

import hashlib
import hmac
import json
import re
from pathlib import Path
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.responses import HTMLResponse
from starlette.routing import Route

from deployments.api.http.application import build_application
from deployments.demo.browser_script import build_script_routes, read_script, script_version
from deployments.operations.insight.outcomes import load_report
from tests.browser.site import HOSTILE, Site
from tests.contract.oauth.test_browser import BROWSER, playwright, serving
from tests.fakes.script_integrity import script_integrity
from tests.fakes.simulated_shop import APP, open_simulated_shop
from tests.house.tree import ROOT

pytestmark = [
    pytest.mark.asyncio(loop_scope="session"),
    pytest.mark.skipif(BROWSER is None, reason="no Chromium or Chrome on PATH nor in KIOSK_TEST_BROWSER"),
]
expect = playwright.expect
NOWHERE = "http://kiosk.test"
"An origin that only the routes of a test answer for."


def _guide(site: Site) -> list[str]:
    """Return the blocks of HTML of the guide, for this site and a product that it has."""
    text = (ROOT / "docs" / "guides" / "browser.md").read_text("utf-8")
    for old, new in (
        ("https://kiosk.example", site.url), ("kpk_dev_...", site.corner.publishable()), ("trowel-02", "tugboat"),
        ("hoe-11", "bulb-planter"), ("How deep do I plant tulips?", "How long is the Kaltbach tunnel?"),
    ):  # fmt: skip
        text = text.replace(old, new)
    return re.findall(r"^```html\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


def _shop(site: Site, body: str) -> Starlette:
    """Return a customer's site whose page allows nothing but Kiosk; without a script it gets the pinned one."""
    pinned = (
        f'<script src="{site.url}/kiosk-{script_version()}.js" data-key="{site.corner.publishable()}" '
        f'crossorigin="anonymous" integrity="{script_integrity()}"></script>'
    )
    html = (
        "<!doctype html><html lang=en><title>Shop</title><link rel=icon href='data:,'>"
        f"{'' if '<script' in body else pinned}{body}</html>"
    )
    policy = f"default-src 'none'; script-src {site.url}; connect-src {site.url}; img-src data:"
    headers = {"content-security-policy": policy}
    return Starlette(routes=[Route("/{path:path}", lambda _: HTMLResponse(html, headers=headers))])


async def test_two_lines_fill_a_list_and_a_click_on_it_changes_the_next_list(site: Site) -> None:
    body = _guide(site)[0]
    async with serving(_shop(site, body)) as shop, site.visit() as page:
        sent: list[dict[str, Any]] = []
        page.on("request", lambda request: sent.append(request) if "interactions" in request.url else None)
        await page.goto(f"{shop}/toys?secret=1")
        await expect(page.locator("li")).to_have_count(4)
        line = page.locator("li a").first
        clicked = await line.get_attribute("data-kiosk-product")
        await page.evaluate("document.querySelectorAll('a').forEach((a) => a.removeAttribute('href'))")
        await line.click()
        await page.evaluate("kiosk.flush()")
        history = await page.evaluate("kiosk.recommendation.user_to_history({rows: 5})")
        assert [product["product_id"] for product in history["data"]["products"]] == [clicked, "tugboat"]
        again = await page.evaluate("kiosk.recommendation.user_to_products({rows: 9})")
        assert clicked not in [product["product_id"] for product in again["data"]["products"]]
        events = [
            event for request in sent for event in json.loads(request.post_data or "{}").get("data", [])
        ]
        events = [event for event in events if event["type"] != "viewable_impression"]
        assert [event["type"] for event in events] == ["product_detail_page_view", "click"]
        assert re.fullmatch(r"[0-9a-f-]{36}", events[1]["service_id"])
        assert {event["context"]["page"]["url"] for event in events} == {f"{shop}/toys"}
        visitor = events[0]["anonymous_id"]
        await page.reload()
        assert await page.evaluate("kiosk.anonymousId") == visitor


async def test_what_was_done_last_arrives_although_the_page_is_gone(site: Site) -> None:
    async with serving(_shop(site, "")) as shop, site.visit() as page:
        await page.goto(shop)
        await page.evaluate("for (const id of ['tugboat', 'bulb-planter']) kiosk.track('add_to_cart', id)")
        await page.goto(f"{shop}/next")
        for _ in range(50):
            history = await page.evaluate("kiosk.recommendation.user_to_history({})")
            viewed = [product["product_id"] for product in history["data"]["products"]]
            if len(viewed) == 2:
                break
            await page.wait_for_timeout(20)
        assert set(viewed) == {"tugboat", "bulb-planter"}


async def test_a_visitor_who_signs_in_keeps_the_history(site: Site) -> None:
    proof = hmac.new(site.corner.secret().encode(), b"ada-16", hashlib.sha256).hexdigest()
    async with serving(_shop(site, "")) as shop, site.visit() as page:
        await page.goto(shop)
        await page.evaluate("kiosk.track('like', 'tugboat'); kiosk.flush()")
        await page.evaluate(f"kiosk.identify({{userId: 'ada-16', userHash: '{proof}'}})")
        await page.evaluate("kiosk.track('like', 'bulb-planter'); kiosk.flush()")
        await page.wait_for_timeout(100)
        history = await page.evaluate("kiosk.recommendation.user_to_history({})")
        assert {product["product_id"] for product in history["data"]["products"]} == {
            "tugboat",
            "bulb-planter",
        }
        await page.evaluate("kiosk.reset()")
        nobody = await page.evaluate("kiosk.recommendation.user_to_history({})")
        assert nobody["data"]["products"] == []


async def test_an_answer_grows_and_never_waits_for_ever(site: Site) -> None:
    async with serving(_shop(site, "")) as shop, site.visit() as page:
        await page.goto(shop)
        seen = await page.evaluate(
            """async () => {
              const seen = [];
              const reply = await kiosk.answer("How long is the Kaltbach tunnel?",
                (answer) => seen.push(answer.revision));
              return {seen, finished: reply.data.finished, text: reply.data.answer};
            }"""
        )
        assert seen["finished"] is True
        assert "4.7" in seen["text"]
        assert seen["seen"] == sorted(set(seen["seen"]))


async def test_the_examples_of_the_guide_run(site: Site) -> None:
    examples = [block for block in _guide(site)[2:] if "module" in block]
    assert len(examples) == 4
    async with serving(_shop(site, "")) as shop, site.visit() as page:
        await page.goto(shop)
        for block in examples:
            code = re.search(r'<script type="module">\n(.*?)</script>', block, re.DOTALL)
            assert code is not None
            await page.evaluate(
                "(async () => { const box = {}, stage = {}; const show = (list) => { if (!list.length) throw list; };"
                f"{code[1]}; if ('textContent' in box && !/4\\.7/.test(box.textContent)) throw box.textContent; }})()"
            )
        history = await page.evaluate("kiosk.recommendation.user_to_history({history_type: 'last_checkout'})")
        assert history["ok"], history


async def test_every_operation_accepts_what_the_script_adds(site: Site) -> None:
    proof = hmac.new(site.corner.secret().encode(), b"ada-17", hashlib.sha256).hexdigest()
    async with serving(_shop(site, "")) as shop, site.visit() as page:
        await page.goto(shop)
        replies = await page.evaluate(
            """async (userHash) => {
              const kiosk = Kiosk.open({...document.querySelector("script").dataset, session: "on",
                userId: "ada-17", userHash, userType: "free", token: ""});
              kiosk.track("click", "tugboat");
              const id = "11111111-1111-4111-8111-111111111111";
              const more = {user_to_attributes: {field: "brand"}, product_to_products: {product_id: "tugboat"},
                mget: {product_ids: ["tugboat"]}, questions: {question: "Why?"}, answers: {question_ids: [id]},
                question_answering: {q: "Why?", min_probability: 0.5}};
              const replies = {};
              for (const group of ["recommendation", "search", "ask", "qa"]) {
                for (const name of Object.keys(kiosk[group])) {
                  const body = more[name] || (group === "recommendation" ? {} : {q: "boat"});
                  const reply = await kiosk[group][name](body);
                  replies[group + "." + name] = reply.ok || reply.message;
                }
              }
              const bulk = await kiosk.bulk([
                {api_name: "search/search", body: {q: "boat"}}, {api_name: "search/mget", body: more.mget}]);
              replies.bulk = bulk.ok && bulk.data.every((one) => one.status_code === 200) || bulk.body;
              await kiosk.flush();
              return replies;
            }""",
            proof,
        )
        assert {name: reply for name, reply in replies.items() if reply is not True} == {}
        assert len(replies) == 20


class Network:
    """Answers for `NOWHERE` with the replies that a test put in, and notes what was sent."""

    def __init__(self) -> None:
        self._script = read_script().decode()
        self.replies: dict[str, list[tuple[int, Any, dict[str, str]]]] = {}
        self.html = ""
        self.sent: list[tuple[str, dict[str, str], Any]] = []
        self.is_away = False

    async def answer(self, route: Any) -> None:
        """Answer one request of the page."""
        request = route.request
        path = request.url.removeprefix(NOWHERE).split("?")[0]
        if path == "/":
            html = f"<!doctype html><title>x</title><link rel=icon href='data:,'>{self.html}"
            return await route.fulfill(body=html, content_type="text/html")
        if path == "/kiosk.js":
            return await route.fulfill(body=self._script, content_type="text/javascript")
        self.sent.append((path, request.headers, json.loads(request.post_data or "null")))
        if self.is_away:
            return await route.abort()
        waiting = self.replies.get(path, [])
        status, reply, headers = waiting.pop(0) if waiting else (200, {"message": "success"}, {})
        return await route.fulfill(status=status, json=reply, headers=headers)


async def _load(page: Any, network: Network, attributes: str = 'data-key="kpk_dev_x"') -> None:
    network.html = f'<script src="/kiosk.js" {attributes}></script>{network.html}'
    await page.route(f"{NOWHERE}/**", network.answer)
    await page.goto(f"{NOWHERE}/")


async def test_a_query_is_repeated_after_what_the_server_asks_for(site: Site) -> None:
    network = Network()
    path = "/v1/search/search"
    network.replies[path] = [
        (429, {"message": "Too many requests."}, {"retry-after": "1"}),
        (503, {"message": "starting"}, {"retry-after": "0"}),
        (200, {"data": {"products": []}}, {}),
        (429, {"message": "Too many requests."}, {"retry-after": "3600"}),
        (422, {"detail": [{"loc": ["body", "q"], "msg": "field required", "type": "x"}]}, {}),
    ]
    async with site.visit() as page:
        await _load(page, network)
        calls = (
            "(async () => { const at = performance.now(); const reply = await kiosk.search.search({q: 'x'});"
        )
        first = await page.evaluate(calls + " return {...reply, ms: performance.now() - at}; })()")
        assert (first["ok"], len(network.sent)) == (True, 3)
        assert 1_000 <= first["ms"] < 6_000
        late = await page.evaluate("kiosk.search.search({q: 'x'})")
        assert (late["ok"], late["status"], late["retryAfterMs"]) == (False, 429, 3_600_000)
        wrong = await page.evaluate("kiosk.search.search({})")
        assert (wrong["message"], len(network.sent)) == ("body.q: field required", 5)
        assert wrong["data"] == {}
        assert [fault for fault in site.faults if "status of" not in fault] == []
        site.faults.clear()


async def test_interactions_survive_refusals_and_go_in_batches(site: Site) -> None:
    network = Network()
    path = "/v1/interactions"
    refused = {
        "errors": True,
        "message": "refused",
        "data": ["data.1.type is invalid. The attribute is wrong."],
    }
    network.replies[path] = [
        (429, {"message": "Too many requests."}, {"retry-after": "0"}),
        (422, refused, {}),
    ]
    async with site.visit() as page:
        await _load(page, network, 'data-key="kpk_dev_x" data-flush-ms="50"')
        types = "n === 1 ? 'wrong' : n === 30 ? 'checkout' : 'click'"
        await page.evaluate(f"for (let n = 0; n < 120; n++) kiosk.track({types}, 'p' + n)")
        for _ in range(100):
            await page.wait_for_timeout(50)
            if len(network.sent) >= 5:
                break
        batches = [[event["product_ids"][0] for event in body["data"]] for _, _, body in network.sent]
        keys = [headers.get("idempotency-key", "") for _, headers, _ in network.sent]
        assert [len(batch) for batch in batches] == [50, 50, 50, 50, 19]
        assert keys[0] == keys[1] != ""
        assert [bool(key) for key in keys] == [True, True, True, False, False]
        assert keys[2] != keys[1]
        arrived = [product_id for batch in batches[2:] for product_id in batch]
        assert sorted(arrived) == sorted(f"p{n}" for n in range(120) if n != 1)
        site.faults.clear()  # the browser itself reports refused requests


async def test_nothing_is_thrown_into_a_page_without_network_and_storage(site: Site) -> None:
    network = Network()
    async with site.visit() as page:
        await page.add_init_script(
            "for (const name of ['localStorage', 'sessionStorage']) "
            "Object.defineProperty(window, name, {get() { throw new Error('denied'); }});"
            "window.unhandled = 0; addEventListener('unhandledrejection', () => unhandled++);"
        )
        await _load(page, network, 'data-key="kpk_dev_x" data-retries="0"')
        network.is_away = True
        outcome = await page.evaluate(
            """async () => {
              const circular = {}; circular.self = circular;
              kiosk.on("call", () => { throw new Error("the page's fault"); });
              kiosk.track("click", "a"); kiosk.track(); kiosk.track("click", circular);
              const replies = [
                await kiosk.search.search({q: "x"}), await kiosk.search.search(circular), await kiosk.answer("Why?"),
                await kiosk.call("nothing"), await kiosk.bulk([]), await kiosk.follow("x"),
              ];
              await kiosk.flush();
              kiosk.identify(); kiosk.reset();
              return {oks: replies.map((reply) => reply.ok), id: kiosk.anonymousId, unhandled};
            }"""
        )
        assert outcome["oks"] == [False] * 6
        assert re.fullmatch(
            r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}", outcome["id"]
        )
        assert outcome["unhandled"] == 0
        assert [fault for fault in site.faults if "Failed to load" not in fault] == []
        site.faults.clear()


async def test_a_list_shows_hostile_texts_as_texts(site: Site) -> None:
    network = Network()
    products = [
        {"product_id": "a", "title": HOSTILE, "url": "javascript:document.title='taken'"},
        {"product_id": "b", "title": "Fork", "url": "https://shop.example/fork"},
    ]
    network.replies["/v1/recommendation/user_to_trending"] = [(200, {"data": {"products": products}}, {})]
    network.html = "<ul data-kiosk-list='recommendation.user_to_trending'></ul>"
    async with site.visit() as page:
        await _load(page, network, 'data-key="kpk_dev_x" data-session="only"')
        await expect(page.locator("li")).to_have_text([HOSTILE, "Fork"])
        assert await page.get_by_role("button").get_attribute("href") is None
        assert await page.locator("img").count() == 0
        await page.get_by_role("button").click()
        body = await page.evaluate("kiosk.search.search({q: 'x'}).then(() => kiosk.session)")
        assert [event["product_ids"] for event in body] == [["a"]]
        assert network.sent[-1][2]["additional_interactions"] == body
        assert await page.evaluate("kiosk.flush().then(() => document.title)") == "x"
        assert [path for path, _, _ in network.sent if "interactions" in path] == []


async def test_products_without_an_address_are_reached_by_keyboard(site: Site) -> None:
    network = Network()
    products = [
        {"product_id": "a", "title": "Fork"},
        {"product_id": "c", "title": "Spade", "url": "https://shop.example/c"},
        {"product_id": "b", "title": "Rake", "url": ""},
    ]
    network.replies["/v1/recommendation/user_to_trending"] = [(200, {"data": {"products": products}}, {})]
    network.html = "<form><ul data-kiosk-list='recommendation.user_to_trending'></ul></form>"
    async with site.visit() as page:
        await _load(page, network, 'data-key="kpk_dev_x" data-session="only"')
        await expect(page.locator("li")).to_have_text(["Fork", "Spade", "Rake"])
        address = page.url
        await page.keyboard.press("Tab")
        await expect(page.get_by_role("button", name="Fork")).to_be_focused()
        await page.keyboard.press("Enter")
        await page.keyboard.press("Tab")
        await expect(page.get_by_role("link", name="Spade")).to_be_focused()
        await page.keyboard.press("Tab")
        await page.keyboard.press("Space")
        assert await page.evaluate("kiosk.session.flatMap((event) => event.product_ids)") == ["a", "b"]
        assert page.url == address


async def test_lists_of_one_page_do_not_repeat_each_other(site: Site) -> None:
    place = "<ul data-kiosk-list='recommendation.{}'{} data-kiosk-body='{{\"rows\": 4{}}}'></ul>".format
    body = (
        place("user_to_products", "", "") + place("user_to_trending", "", ', "exclude": ["tugboat"]')
        + place("user_to_products", " data-kiosk-repeat", "") + place("user_to_products", "", "")
    )  # fmt: skip
    async with serving(_shop(site, body)) as shop, site.visit() as page:
        await page.goto(shop)
        await expect(page.locator("li")).to_have_count(16)
        lists = [
            await page.locator("ul").nth(at).locator("[data-kiosk-product]").evaluate_all(
                "(places) => places.map((place) => place.dataset.kioskProduct)"
            )
            for at in range(4)
        ]  # fmt: skip
        first, trending, repeated, last = lists
        assert repeated == first
        assert len({*first, *trending, *last}) == 12
        assert "tugboat" not in trending


async def test_a_list_does_not_wait_long_for_the_lists_above_it(site: Site) -> None:
    network = Network()
    network.replies["/v1/recommendation/user_to_products"] = [(503, {}, {"retry-after": "20"})] * 2
    network.replies["/v1/recommendation/user_to_trending"] = [
        (200, {"data": {"products": [{"product_id": "a", "title": "Fork"}]}}, {})
    ]
    network.html = (
        "<ul data-kiosk-list='recommendation.user_to_products'></ul>"
        "<ul data-kiosk-list='recommendation.user_to_trending'></ul>"
        "<ul data-kiosk-list='search.search'></ul>"
    )
    async with site.visit() as page:
        await _load(page, network)
        await expect(page.locator("li")).to_have_text(["Fork"], timeout=4_000)
        bodies = {path.rsplit("/", 1)[1]: body for path, _, body in network.sent}
        assert bodies["user_to_trending"]["exclude"] == []
        assert "exclude" not in bodies["search"]
        site.faults.clear()  # the browser itself reports the 503


async def _wait_until_seen(page: Any, sent: list[Any], product_ids: set[str]) -> None:
    for _ in range(200):
        events = [event for request in sent for event in request.post_data_json["data"]]
        seen = [event["product_ids"] for event in events if event["type"] == "viewable_impression"]
        if product_ids <= {product_id for listed in seen for product_id in listed}:
            return
        await page.wait_for_timeout(50)
    raise AssertionError(f"not seen: {product_ids}")


async def test_products_that_were_really_seen_reach_the_outcomes_report(site: Site, tmp_path: Path) -> None:
    world = await open_simulated_shop(tmp_path, 8)
    now_ms = world.clock.now_ms()
    api = build_application(world.corner.handler, version="0", more=build_script_routes())
    async with serving(api) as url, site.visit() as page:
        html = (
            "<!doctype html><link rel=icon href='data:,'><style>* {margin: 0} li {height: 400px}</style>"
            "<ul data-kiosk-list='recommendation.user_to_products' data-kiosk-body='{\"engine_id\": \"plain\"}'></ul>"
            f"<script src='{url}/kiosk.js' data-key='{world.corner.publishable(APP)}' data-flush-ms='50'></script>"
        )
        async with serving(Starlette(routes=[Route("/", lambda _: HTMLResponse(html))])) as shop:
            await page.clock.set_fixed_time(now_ms / 1000)
            sent: list[Any] = []
            page.on(
                "request", lambda request: sent.append(request) if "interactions" in request.url else None
            )
            await page.goto(shop)
            places = page.locator("[data-kiosk-product]")
            await expect(places).to_have_count(6)
            shown = [str(await place.get_attribute("data-kiosk-product")) for place in await places.all()]
            # the last two products are on the screen too shortly
            await page.evaluate("scrollTo(0, 1600); setTimeout(() => scrollTo(0, 800), 300)")
            await _wait_until_seen(page, sent, {*shown[2:4]})
            await page.evaluate("scrollTo(0, 0)")
            await _wait_until_seen(page, sent, {*shown[:4]})
            await places.first.click()
            await page.evaluate("kiosk.flush()")
    await world.settle()
    total = load_report(world.artifacts, APP, "total", 0, now_ms + 1).total
    assert (total.lists, total.places, total.seen, total.clicks) == (1, 6, 4, 1)
    assert total.seen_ctr is not None
    assert total.seen_ctr.value == 1 / 4


async def test_nothing_counts_as_seen_in_a_hidden_tab_or_where_the_page_opts_out(site: Site) -> None:
    listed = {"service_id": "5" * 8, "products": [{"product_id": "a"}, {"product_id": "b"}]}
    html = "<ul data-kiosk-list='recommendation.user_to_products'></ul>"
    for attributes, hidden in (('data-impressions="off"', "visible"), ('data-session="on"', "hidden")):
        network = Network()
        network.html = html
        network.replies["/v1/recommendation/user_to_products"] = [(200, {"data": listed}, {})]
        async with site.visit() as page:
            await page.add_init_script(
                f"let state = '{hidden}'; Object.defineProperty(document, 'visibilityState', {{get: () => state}});"
                "window.show = () => { state = 'visible'; document.dispatchEvent(new Event('visibilitychange')); };"
            )
            await _load(page, network, f'data-key="kpk_dev_x" data-flush-ms="50" {attributes}')
            await expect(page.locator("li")).to_have_text(["a", "b"])
            await page.wait_for_timeout(1_700)
            assert [path for path, _, _ in network.sent] == ["/v1/recommendation/user_to_products"]
            await page.evaluate("show()")
            expected = [("a", "5" * 8), ("b", "5" * 8)] if hidden == "hidden" else []
            seen: list[tuple[str, str]] = []
            for _ in range(26 if not expected else 200):
                await page.wait_for_timeout(100)
                events = [event for _, _, body in network.sent[1:] for event in body["data"]]
                seen = [(name, event["service_id"]) for event in events for name in event["product_ids"]]
                if expected and len(seen) >= len(expected):
                    break
            assert sorted(seen) == expected
            assert await page.evaluate("kiosk.session") == []
