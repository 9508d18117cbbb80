"""How long each page of the console takes, and how much a browser loads with it.

python -m tests.benchmarks.console_pages                    an app of 1,000 products, real Redis, in this process
python -m tests.benchmarks.console_pages --playground       the playground
python -m tests.benchmarks.console_pages --large            1,000,000 products and interactions, without an engine
python -m tests.benchmarks.console_pages --products 200000 --engine
python -m tests.benchmarks.console_pages --url http://127.0.0.1:8000 --app shop --user ada < password

The note of a page has its median, longest and first time, and the processor time of this process for each request:
client and server, or the client alone with `--url`. The bound of a page is 100 ms at the 95th percentile, or 300 ms of
100,000 products and more; 150 KB of transfer, or 400 KB with charts. Pages whose values an installation does not
have are not measured and named.
"""

from __future__ import annotations

import argparse
import asyncio
import html
import re
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from urllib.parse import quote

import httpx
import numpy as np

from actors.language.hashing_embedder import HashingEmbedder
from cluster.clock import SystemClock
from cluster.store.connect import open_stores
from deployments.console.page import Page
from deployments.console.pages.all_pages import PAGES
from jobs.playground.loader import load_playground
from tests.benchmarks.console_data import LARGE, PageDataSizes, fill_app
from tests.benchmarks.report import print_report
from tests.benchmarks.scenarios import Line
from tests.browser.stage import open_stage
from tests.fakes.archive_oauth import PASSWORD
from tests.suites.redis_process import RedisProcess

ROUNDS = 30
SIGN_IN = "/sign-in"
LARGE_FROM = 100_000
_CATALOG, _USER_PAGE = "/apps/{app_id}/catalog", "/apps/{app_id}/readers/one"
_ENGINE, _TRY = "/apps/{app_id}/models/engines/{engine_id}", "/apps/{app_id}/try"
QUERIES: Mapping[str, Sequence[str]] = {
    _CATALOG: ("", "after={product_id}", "q=steel+kettle"),
    _CATALOG + "/product": ("id={product_id}",),
    _CATALOG + "/product/related": ("id={product_id}",),
    _CATALOG + "/product/outcomes": ("id={product_id}",),
    "/apps/{app_id}/readers": ("", "prefix=b", "contains=7"),
    _USER_PAGE: ("user_id={user_id}",),
    _USER_PAGE + "/recommendations": ("user_id={user_id}",),
    _USER_PAGE + "/absence": ("user_id={user_id}&product_id={product_id}",),
    _USER_PAGE + "/export": ("user_id={user_id}",),
    "/apps/{app_id}/quarantine/entry": ("id={entry_id}",),
    _TRY + "/answer": ("id={question_id}",),
    _ENGINE + "/compare": ("first={first_version}&second={second_version}",),
    _ENGINE + "/compare/lists": ("first={first_version}&second={second_version}",),
    "/apps/{app_id}/experiments/plan": ("rate=4&lift=10&people_per_day=1000",),
    "/apps/{app_id}/rules": ("", "start=50"),
    "/apps/{app_id}/rules/products": ("q=kettle",),
    "/apps/{app_id}/rules/edit": ("", "engine=default&name={rule}"),
    "/apps/{app_id}/question-bank": ("", "contains=kettle"),
    "/audit": ("", "operation=rules.put&username=person-3"),
    "/invitation": ("token={invitation}",),
}
"Path of a page -> the queries it is measured with."
ASK_ENGINE = (
    _CATALOG + "?q=", _CATALOG + "/product/related", _USER_PAGE + "/recommendations", _USER_PAGE + "/absence",
    _ENGINE + "/compare/lists",
)  # fmt: skip
"Beginnings of the addresses that ask an engine."
NOT_WALKED = (
    "/sign-in/provider",
    "/sign-in/provider/callback",
    "/audit/export",
    _USER_PAGE + "/export",
    "/apps/{app_id}/outcomes/file",
    "/apps/{app_id}/archive/file",
)
"They lead elsewhere, or are downloads, which have no bound."
_ASSET = re.compile(r'(?:src|href)="(/console/static/[^"]+)"')
_CHART_ASSET = re.compile(r'data-uplot-[a-z]+="([^"]+)"')
_LOADED = re.compile(r'hx-get="([^"]+)" hx-trigger="load"')
FORM_TOKEN = re.compile(r'name="csrf" value="([^"]+)"')
_NAME = re.compile(r"\{(\w+)(?::path)?\}")


@dataclass(frozen=True, slots=True)
class PageCase:
    """One address of a page; without a value that it needs, `missing` names it."""

    pattern: str
    address: str
    missing: str = ""


def list_cases(
    values: Mapping[str, str], pages: Sequence[Page] = PAGES, *, engine: bool = True
) -> Iterator[PageCase]:
    """Return the addresses of all pages that show something."""
    for page in pages:
        if "GET" not in page.methods or page.path in NOT_WALKED:
            continue
        for query in QUERIES.get(page.path, ("",)):
            pattern = page.path + (f"?{query}" if query else "")
            if not engine and any(pattern.startswith(pattern_start) for pattern_start in ASK_ENGINE):
                continue
            missing = [name for name in _NAME.findall(pattern) if not values.get(name)]
            address = _NAME.sub(lambda match: quote(values.get(match[1], ""), safe=""), pattern)
            yield PageCase(pattern, address, ", ".join(missing))


async def sign_in(origin: str, username: str, password: str) -> dict[str, str]:
    """Sign in by the form, and return the cookies. Attempts are counted, so a run does it once.

    Errors:
        RuntimeError: the installation refuses
    """
    async with httpx.AsyncClient(base_url=origin, timeout=60) as http:
        token = FORM_TOKEN.search((await http.get("/console/sign-in")).text)
        csrf = html.unescape(token[1]) if token else ""
        given = {"csrf": csrf, "username": username, "password": password}
        answer = await http.post("/console/sign-in", data=given)
        if answer.status_code != 303:
            raise RuntimeError(f"the sign-in was answered with {answer.status_code}")
        return dict(http.cookies)


class PageWalk:
    """Somebody who is signed in and opens pages."""

    def __init__(self, http: httpx.AsyncClient) -> None:
        self._http = http

    async def measure(self, case: PageCase, rounds: int, bound_ms: float) -> Iterator[Line]:
        """Return the lines of one page: its time, and its transfer if it is a whole page."""
        if case.pattern == SIGN_IN:
            self._http.cookies.clear()
        address = "/console" + case.address
        if case.missing:
            return iter([Line(case.pattern, float("nan"), "ms", reason=f"no value for {case.missing}")])
        first = await self._get(address)
        is_part = first.text.lstrip()[:9].lower() != "<!doctype"
        if first.status_code != 200:
            reason = f"status {first.status_code}"
            return iter([Line(case.pattern, float("nan"), "ms", bound_ms, reason=reason)])
        headers = {"hx-request": "true"} if is_part else {}
        times, spent_ms = [], 0.0
        while len(times) < rounds:
            began, spent_s = time.perf_counter(), time.process_time()
            answer = await self._http.get(address, headers=headers)
            if answer.status_code == 429:
                await _wait(answer)
                continue
            times.append((time.perf_counter() - began) * 1000)
            spent_ms += (time.process_time() - spent_s) * 1000 / rounds
        p50, p95 = np.percentile(times, [50, 95])
        first_ms = first.elapsed.total_seconds() * 1000
        note = f"p50 {p50:.1f}, most {max(times):.1f}, first {first_ms:.0f}, processor {spent_ms:.1f}"
        lines = [Line(f"{case.pattern}: p95", float(p95), "ms", bound_ms, note=note)]
        if not is_part:
            has_chart = "data-chart=" in first.text
            size = await self._transfer(first, has_chart=has_chart) / 1000
            lines.append(Line(f"{case.pattern}: transfer", size, "KB", 400 if has_chart else 150))
        return iter(lines)

    async def _transfer(self, first: httpx.Response, *, has_chart: bool) -> int:
        """Return the bytes of a page with its assets and the parts that load with it."""
        names = _ASSET.findall(first.text) + (_CHART_ASSET.findall(first.text) if has_chart else [])
        parts = [html.unescape(part) for part in _LOADED.findall(first.text)]
        size = first.num_bytes_downloaded
        for name in dict.fromkeys([*names, *parts]):
            size += (await self._get(name)).num_bytes_downloaded
        return size

    async def _get(self, address: str) -> httpx.Response:
        """Return a page; wait where the console bounds the requests of one person."""
        while (answer := await self._http.get(address)).status_code == 429:
            await _wait(answer)
        return answer


async def _wait(answer: httpx.Response) -> None:
    await asyncio.sleep(float(answer.headers.get("retry-after", "1")))


async def walk(
    origin: str,
    values: Mapping[str, str],
    cookies: dict[str, str],
    *,
    rounds: int,
    bound_ms: float,
    engine: bool,
) -> list[Line]:
    """Measure every page of an installation."""
    lines: list[Line] = []
    async with httpx.AsyncClient(base_url=origin, timeout=120, cookies=cookies) as http:
        pages = PageWalk(http)
        # The form of the sign-in last: nobody who is signed in sees it.
        for case in sorted(list_cases(values, engine=engine), key=lambda case: case.pattern == SIGN_IN):
            measured = list(await pages.measure(case, rounds, bound_ms))
            lines += measured
            for line in measured:
                print(
                    f"{line.name}  {line.value:.1f} {line.unit}  {line.note or line.reason}", file=sys.stderr
                )
    return lines


async def find_values(origin: str, app_id: str, username: str, cookies: dict[str, str]) -> dict[str, str]:
    """Return what an installation has for the placeholders of its pages, by its administration over HTTP."""
    values = {"app_id": app_id, "engine_id": "default", "username": username}
    sources = {
        "product_id": ("catalog/products?limit=1", "products", "product_id"),
        "user_id": ("users?limit=1", "users", "user_id"),
        "run_id": ("runs?limit=1", "runs", "run_id"),
        "version": ("engines/default/snapshots?limit=1", "snapshots", "version"),
        "experiment": ("experiments", "experiments", "slug"),
        "import_id": ("imports", "imports", "import_id"),
        "rule": ("rules", "rules", "name"),
        "entry_id": ("quarantine?limit=1", "newest", "id"),
    }
    async with httpx.AsyncClient(base_url=origin, timeout=60, cookies=cookies) as http:
        for name, (path, rows, field) in sources.items():
            answer = await http.get(f"/v1/admin/apps/{app_id}/{path}")
            data: Any = answer.json().get("data") if answer.status_code == 200 else None
            entries = data.get(rows) if isinstance(data, dict) else data
            if entries:
                values[name] = str(entries[0][field])
    if "version" in values:
        values |= {"first_version": values["version"], "second_version": values["version"]}
    return values


async def walk_in_process(
    sizes: PageDataSizes, *, rounds: int, engine: bool, playground: bool = False
) -> list[Line]:
    """Measure every page over a Redis server started for it."""
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory()))
        server = RedisProcess()
        stack.callback(server.stop)
        stores = await stack.enter_async_context(open_stores(server.start().url))
        stage = await stack.enter_async_context(open_stage(stores, folder))
        await stage.corner.asking.start()
        await stage.add_person()
        began = time.perf_counter()
        values = await fill_app(stage, "shop", sizes, folder, for_engine=engine)
        print(f"filled in {time.perf_counter() - began:.0f} s", file=sys.stderr)
        cookies = await sign_in(stage.origin, "ada", PASSWORD)
        if playground:
            now_ms = SystemClock().now_ms()
            await load_playground(stores, now_ms=now_ms, embedder=HashingEmbedder())
            values = {"app_id": "playground", "engine_id": "default", "username": "ada", "rule": ""}
            for noun, name in (("product", "product_id"), ("user", "user_id")):
                values[name] = (await stores.records.page_ids("playground", noun, limit=1))[0]
        bound_ms = 300.0 if sizes.products >= LARGE_FROM else 100.0
        return await walk(stage.origin, values, cookies, rounds=rounds, bound_ms=bound_ms, engine=engine)


async def _measure(given: argparse.Namespace) -> list[Line]:
    if given.url:
        cookies = await sign_in(given.url, given.user, sys.stdin.readline().rstrip("\n"))
        values = await find_values(given.url, given.app, given.user, cookies)
        bound_ms = 300.0 if given.large else 100.0
        return await walk(given.url, values, cookies, rounds=given.rounds, bound_ms=bound_ms, engine=True)
    sizes = LARGE if given.large else PageDataSizes()
    if given.products:
        sizes = replace(sizes, products=given.products, interactions=given.products)
    engine = given.engine or (not given.large and sizes.products < LARGE_FROM)
    return await walk_in_process(sizes, rounds=given.rounds, engine=engine, playground=given.playground)


def main() -> int:
    """Print the figures; return 1 if a bound is missed."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--url", default="", help="address of an installation; the password comes by stdin")
    parser.add_argument("--app", default="playground")
    parser.add_argument("--user", default="ada")
    parser.add_argument("--playground", action="store_true", help="the app with the sample data")
    parser.add_argument("--large", action="store_true", help="1,000,000 products and interactions")
    parser.add_argument("--products", type=int, default=0, help="and as many interactions")
    parser.add_argument(
        "--engine", action="store_true", help="also pages that ask an engine of many products"
    )
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    return print_report(asyncio.run(_measure(given)), out=given.out)


if __name__ == "__main__":
    sys.exit(main())
