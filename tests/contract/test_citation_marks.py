"""Marks of links, and the visits that they count."""

from __future__ import annotations

import asyncio
import json
import random
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest

from cluster.artifacts.logs.call_log import CallLogStore
from deployments.archive.citations import citation_endpoints, visit_tracking
from deployments.archive.citations.citation_marks import LIFE_H, MarkSigner, remove_mark
from tests.benchmarks.readership import APP, BROWSER, MarkedArchive, Simulation, compare, forge_mark
from tests.fakes.archive import HOST, ArchiveCorner, open_archive_corner
from tests.fakes.asgi import call

PLAIN_URL = "https://news.example.com/articles/na-1002"
HOUR_MS = 3_600_000


async def open_marked(marks: str, **settings: Any) -> ArchiveCorner:
    corner = await open_archive_corner(apps=MarkedArchive(marks, **settings))
    records = corner.stores.records._apps[APP].records["product"]  # type: ignore[attr-defined]
    records["na-1002"] = json.dumps({"product_id": "na-1002", "url": PLAIN_URL}).encode()
    return corner


async def read_answers(corner: ArchiveCorner) -> dict[str, Any]:
    first, *_ = await corner.ask("river water rules")
    pair = {"product_id": first["product_id"], "offset": first["offset"]}
    article = (await corner.tool("get_archive_article", pair))["result"]["structuredContent"]
    return {"ask": first, "get": article}


async def visits_of(corner: ArchiveCorner) -> list[tuple[str, tuple[str, ...]]]:
    await corner.services.workers.usage.write()
    rows = await corner.stores.archive_calls.read_all(APP, "0")
    return [(row.call_id, row.articles) for row in rows if row.event == "visit"]


async def test_links_are_plain_while_marks_are_off() -> None:
    switched_off, untouched = await open_marked("off"), await open_archive_corner()
    assert await read_answers(switched_off) == await read_answers(untouched)
    assert (await read_answers(untouched))["ask"]["url"] == PLAIN_URL
    await untouched.services.workers.usage.write()
    rows = await untouched.stores.archive_calls.read_all(APP, "0")
    assert {row.marked for row in rows} == {False}


@pytest.mark.parametrize("marks", ["landing", "redirect"])
async def test_a_followed_link_is_joined_to_its_call_and_article(marks: str) -> None:
    corner = await open_marked(marks)
    simulation = Simulation(corner, None, None, random.Random(1), None)  # type: ignore[arg-type]
    answers = await read_answers(corner)
    assert answers["ask"]["url"] != answers["get"]["url"] != PLAIN_URL
    assert f"({answers['get']['url']})" in answers["get"]["citation_format"]
    await simulation.follow(answers["get"]["url"])
    await simulation.follow(answers["ask"]["url"])
    await simulation.follow(answers["ask"]["url"])
    visited = await visits_of(corner)
    first, read, *_ = await corner.stores.archive_calls.read_all(APP, "0")
    assert visited == [(read.call_id, ("na-1002",)), *[(first.call_id, ("na-1002",))] * 2]
    assert (first.marked, read.question_id) == (True, first.call_id)


async def test_a_citation_with_a_mark_still_stands() -> None:
    for marks in ("landing", "redirect"):
        corner = await open_marked(marks)
        link = (await read_answers(corner))["get"]["citation_format"]
        given = {"citations": [{"text": f"The river rules passed by nine votes. {link}"}]}
        answer = await corner.tool("check_citations", given)
        assert [state["status"] for state in answer["result"]["structuredContent"]["results"]] == ["stands"]


async def test_a_redirect_leads_to_the_article_alone_and_counts_only_people() -> None:
    corner = await open_marked("redirect", bot_rule="on")
    path = (await read_answers(corner))["get"]["url"].removeprefix(f"https://{HOST}")

    async def get(target: str, method: str = "GET", agent: str = BROWSER, **more: str) -> tuple[int, str]:
        headers = {"host": HOST, "user-agent": agent, **more}
        answer = await call(corner.app, method, target, headers=headers)
        return answer.status, answer.headers.get("location", "")

    assert await get(path, "HEAD") == await get(path, agent="Googlebot/2.1") == (302, PLAIN_URL)
    assert await get(path, **{"sec-purpose": "prefetch"}) == (302, PLAIN_URL)
    assert await visits_of(corner) == []
    assert await get(path) == (302, PLAIN_URL)
    assert await get(path[:-1]) == await get("/visits/https://evil.example") == (404, "")
    assert (await get(path, "POST"))[0] == (await get("/visits"))[0] == 405
    corner.clock.pass_ms(LIFE_H * HOUR_MS)
    assert await get(path) == (302, PLAIN_URL)
    assert len(await visits_of(corner)) == 1


async def test_visits_of_one_address_count_at_a_bounded_rate() -> None:
    corner = await open_marked("landing")
    simulation = Simulation(corner, None, None, random.Random(1), None)  # type: ignore[arg-type]
    url = (await read_answers(corner))["get"]["url"]
    for _ in range(200):
        await simulation.follow(url)
    assert len(await visits_of(corner)) == 120
    for status, body, headers in (
        (413, b"x" * 100_000, {}),
        (400, b"x", {"content-encoding": "gzip"}),
        (400, b"x", {"content-length": "+1"}),
    ):
        answer = await call(corner.app, "POST", "/visits", body=body, headers=headers)
        assert answer.status == status


@pytest.mark.parametrize("path", ["/visits", "/mcp/citations.json"])
async def test_a_body_that_does_not_arrive_in_time_is_refused(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (visit_tracking, citation_endpoints):
        monkeypatch.setattr(module, "BODY_S", 0.05)
    corner, sent = await open_marked("landing"), list[dict[str, Any]]()

    async def receive() -> dict[str, Any]:
        await asyncio.sleep(30)
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    scope = {
        "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": "POST", "scheme": "http",
        "path": path, "raw_path": path.encode(), "query_string": b"", "root_path": "",
        "headers": [(b"host", HOST.encode()), (b"content-length", b"60")],
        "client": ("192.0.2.7", 40000), "server": (HOST, 443),
    }  # fmt: skip
    await corner.app(scope, receive, send)
    assert sent[0]["status"] == 408


def test_forged_marks_are_never_genuine() -> None:
    rng = random.Random(3)
    signer = MarkSigner((b"k" * 32, b"old" + b"k" * 29))
    earlier = MarkSigner(signer.keys[1:])
    now_ms = 1_800_000_000_000
    for at in range(100_000):
        mark = signer.sign(APP, "", f"{at:016x}", f"na {at}", now_ms)
        assert signer.verify(APP, forge_mark(rng, f"https://x.example/?kiosk_mark={mark}")) is None
    genuine = signer.verify(APP, earlier.sign(APP, "", "00" * 8, "na 1.2", now_ms))
    assert genuine is not None
    assert (genuine.product_id, genuine.is_expired(now_ms)) == ("na 1.2", False)
    assert genuine.is_expired(now_ms + LIFE_H * HOUR_MS)
    assert signer.verify("sports", earlier.sign(APP, "", "00" * 8, "na 1.2", now_ms)) is None
    assert MarkSigner((b"z" * 32,)).verify(APP, mark) is None


@pytest.mark.parametrize(
    "url", ["https://x.example/a?b=1&kiosk_mark=t..p&c=2#f", "https://x.example/a?kiosk_mark=t..p"]
)
def test_an_address_without_its_mark_is_the_one_before(url: str) -> None:
    kept = "https://x.example/a?b=1&c=2#f" if "b=1" in url else "https://x.example/a"
    assert remove_mark(url) == (kept, "")
    assert remove_mark(unquote(kept)) == (kept, "")


@pytest.mark.parametrize(("marks", "calls"), [("landing", 2_000), ("redirect", 300)])
async def test_the_report_equals_the_journal_of_calls_and_visits(
    tmp_path: Path, marks: str, calls: int
) -> None:
    simulation = await Simulation.open(tmp_path, 11, marks)
    await simulation.run(calls)
    assert compare(simulation.journal, await simulation.report()) == []
    assert simulation.journal.totals["visits"] > calls / 3
    assert simulation.journal.totals["repeats"] > 0
    assert CallLogStore(simulation.artifacts).commit(APP).files
