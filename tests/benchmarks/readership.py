"""Simulated agents and visitors of an archive, a journal of what they did, and the report that has to equal it.

    python -m tests.benchmarks.readership [CALLS] [--forged N]      100,000 calls and 100,000 forged marks if absent

The agents call over HTTP in both eras. The journal counts what they sent and what they read in the answers, and
visitors follow the links of these answers. So it shares nothing with the log.
"""

from __future__ import annotations

import asyncio
import json
import random
import string
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import quote, unquote

import orjson

from actors.archive.messages import ArchiveArticle
from actors.intake.daily_log_compaction import DailyLogCompactor
from cluster.artifacts.logs.call_log import CallLogStore
from cluster.artifacts.storage.artifact_store import ArtifactStore
from cluster.meter import SilentMeter
from cluster.records.apps import AppSettings
from cluster.records.archive.archive_client import CHECK_CLIENT
from deployments.archive.archive_apps import DefaultArchive
from deployments.operations.insight.archive.readership import load_calls
from deployments.operations.insight.archive.usage_report import ArchiveReport, build_usage_report
from tests.fakes.archive import HOST, ArchiveCorner, open_archive_corner
from tests.fakes.asgi import call

APP = "playground"
NOW = "2026-07-28"
META = "io.modelcontextprotocol/"
AGENTS = ("Claude", "ChatGPT", "Le Chat", CHECK_CLIENT)
SKILLS = ("", "morning-brief", "digest")
TOPICS = (
    "river", "comet", "mayor", "tram", "harbour", "budget", "orchard", "bridge", "museum", "election", "drought",
    "railway", "library", "festival", "bakery", "forest", "vaccine", "strike", "airport", "theatre",
)  # fmt: skip
MISSING = ("zeppelin", "quantum", "opera", "submarine")
BROWSER = "Mozilla/5.0 (X11; Linux x86_64) Firefox/140.0"


class MarkedArchive(DefaultArchive):
    """The default archive, with marks that a test switches."""

    def __init__(self, marks: str = "landing", **settings: Any) -> None:
        self.settings = AppSettings(citation_marks=marks, **settings)

    def settings_of(self, app_id: str) -> AppSettings:
        return self.settings


def write_articles() -> dict[str, ArchiveArticle]:
    """Two articles for each topic, one of them without an address."""
    articles = {}
    for at, topic in enumerate(TOPICS):
        for number in range(2):
            product_id = f"{topic}/{number} é"
            url = "" if number and at % 5 == 0 else f"https://paper.example/{topic}/{number}?page=1#text"
            articles[product_id] = ArchiveArticle(
                product_id, f"The {topic} of town", "", ("A. Bee",), "2026-01-02", url,
                f"News {number} about the {topic}.\n\nMore of it.", "",
            )  # fmt: skip
    return articles


@dataclass
class Journal:
    """What agents and visitors did."""

    counts: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    "(dimension, name, figure) -> number."
    totals: Counter[str] = field(default_factory=Counter)
    visited: set[tuple[int, str]] = field(default_factory=set)

    def add(self, keys: dict[str, str], **figures: int) -> None:
        """Count figures under each dimension."""
        for dimension, name in keys.items():
            for figure, number in figures.items():
                self.counts[dimension, name, figure] += number


@dataclass
class Simulation:
    """A corner, its journal, and the way of rows into the artifact store."""

    corner: ArchiveCorner
    artifacts: ArtifactStore
    journal: Journal
    rng: random.Random
    compactor: DailyLogCompactor[Any]
    tokens: dict[tuple[str, int], str] = field(default_factory=dict)
    results: list[tuple[str, int, dict[str, Any]]] = field(default_factory=list)
    "Agent, user and result of the latest questions."
    links: list[tuple[int, str, str, dict[str, str]]] = field(default_factory=list)
    "Number of the call, article, address, and the dimensions, of links that nobody followed yet."
    number: int = 0

    @classmethod
    async def open(cls, folder: Path, seed: int, marks: str = "landing") -> Simulation:
        corner = await open_archive_corner(apps=MarkedArchive(marks))
        corner.archive.articles = write_articles()
        for product_id, article in corner.archive.articles.items():
            corner.stores.records._apps[APP].records["product"][product_id] = orjson.dumps(  # type: ignore[attr-defined]
                {"product_id": product_id, "url": article.url}
            )
        artifacts = ArtifactStore.open(folder)
        compactor = DailyLogCompactor(
            corner.stores.archive_calls, CallLogStore(artifacts, corner.clock), corner.clock, SilentMeter()
        )
        return cls(corner, artifacts, Journal(), random.Random(seed), compactor)

    async def run(self, calls: int) -> None:
        """Make calls, visits between them, and compact now and then; the last rows stay on their way."""
        for at in range(calls):
            self.corner.clock.pass_ms(1_000)
            if at % 3_000 == 0:
                self._sign_in()
            await self._call_tool()
            if self.rng.random() < 0.6:
                await self._visit()
            is_due = at % 5_000 == calls // 2 % 5_000
            if is_due or at % 200 == 199:
                await self.corner.services.workers.usage.write()
            if is_due:
                await self.compactor.run_once([APP], at_once=True)
        await self.corner.services.workers.usage.write()

    def _sign_in(self) -> None:
        """Give each user of each agent a token, which lives for an hour."""
        self.tokens = {
            (agent, user): self.corner.token(f"user-{user}", f"client-{agent}-{user % 3}", agent)
            for agent in AGENTS
            for user in range(12)
        }

    async def report(self, top: int = 1_000) -> ArchiveReport:
        """Build the report of everything."""
        services: Any = SimpleNamespace(stores=self.corner.stores, artifacts=self.artifacts)
        since, rows = await load_calls(services, APP, 0)
        return build_usage_report(rows, since=since, until=self.corner.clock.now_ms(), top=top)

    async def _call_tool(self) -> None:
        rng = self.rng
        agent, user = rng.choice(AGENTS), rng.randrange(12)
        kind = rng.choices(("ask", "search", "read", "fetch", "wrong", "invalid"), (5, 2, 3, 1, 1, 1))[0]
        mine = [entry[2] for entry in self.results if entry[:2] == (agent, user)]
        skill = rng.choice(SKILLS)
        if kind in ("read", "fetch") and not mine:
            kind = "ask"
        if kind == "ask":
            words = rng.choice(TOPICS) if rng.random() < 0.8 else rng.choice(MISSING)
            name, arguments = "ask_archive", {"question": f"What about the {words} ?", "skill_used": skill}
        elif kind == "search":
            name, arguments, skill = "search", {"query": rng.choice(TOPICS)}, ""
        elif kind == "read":
            pair = rng.choice(mine)
            name = "get_archive_article"
            arguments = {"product_id": pair["product_id"], "offset": pair["offset"], "skill_used": skill}
        elif kind == "fetch":
            pair = rng.choice(mine)
            name, arguments, skill = "fetch", {"id": f"{pair['offset']}.{pair['product_id']}"}, ""
        elif kind == "wrong":
            name = "get_archive_article"
            arguments = {"product_id": "river/0 é", "offset": 7, "skill_used": skill}
        else:
            name, arguments = "ask_archive", {"skill_used": skill}
        is_new = name in ("search", "fetch") or rng.random() < 0.5
        answer = await self._send(agent, user, name, arguments, is_new=is_new)
        self._record(agent, user, name, skill, kind, answer)

    async def _send(self, agent: str, user: int, name: str, arguments: Any, *, is_new: bool) -> Any:
        params: dict[str, Any] = {"name": name, "arguments": arguments}
        headers: dict[str, str] = {}
        if is_new:
            params["_meta"] = {
                f"{META}protocolVersion": NOW, f"{META}clientInfo": {"name": agent, "version": "1"},
                f"{META}clientCapabilities": {},
            }  # fmt: skip
            headers = {"mcp-protocol-version": NOW, "mcp-method": "tools/call", "mcp-name": name}
        message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
        answer = await self.corner.post(
            json.dumps(message).encode(), token=self.tokens[agent, user], headers=headers
        )
        assert answer.status == 200, answer
        return answer.json()

    def _record(self, agent: str, user: int, tool: str, skill: str, kind: str, answer: Any) -> None:
        journal = self.journal
        self.number += 1
        if agent == CHECK_CLIENT:
            journal.totals["checks"] += 1
        document = answer.get("result", {}).get("structuredContent")
        refused = document is None
        assert refused == (kind in ("wrong", "invalid")), answer
        results = [] if refused else document.get("results", [document])
        for result in results if kind == "ask" else ():
            self.results = [*self.results[-60:], (agent, user, result)]
        shown = {}
        for result in results:
            product_id = result.get("product_id") or result["id"].partition(".")[2]
            url = result.get("url", "")
            shown[product_id] = url if url.startswith("http") else ""
        day = time.strftime("%Y-%m-%d", time.gmtime(self.corner.clock.now_ms() / 1000))
        keys = {"agent": agent, "skill": skill or "(direct)", "tool": tool, "day": day}
        for product_id, url in shown.items():
            if url:
                self.links.append((self.number, product_id, url, {**keys, "article": product_id}))
        if agent == CHECK_CLIENT:
            return
        is_ask = kind in ("ask", "search")
        journal.totals["calls"] += 1
        journal.totals["links"] += len(shown)
        journal.totals["asks"] += is_ask
        journal.totals["unanswered"] += is_ask and not shown
        journal.add(
            keys, calls=1, asks=int(is_ask), reads=int(not is_ask and not refused), refused=int(refused),
            links=len(shown), unanswered=int(is_ask and not shown),
        )  # fmt: skip
        for product_id in shown:
            journal.add({"article": product_id}, calls=1, asks=int(is_ask), reads=int(not is_ask), links=1)

    async def _visit(self) -> None:
        """Follow a link, perhaps again; or send what is no mark."""
        if self.rng.random() < 0.15:
            await self.send_mark(forge_mark(self.rng, self.links[-1][2] if self.links else ""))
        if not self.links:
            return
        at = self.rng.randrange(max(0, len(self.links) - 200), len(self.links))
        number, product_id, url, keys = self.links[at]
        await self.follow(url)
        journal, is_check = self.journal, keys["agent"] == CHECK_CLIENT
        if is_check:
            journal.totals["other"] += 1
        elif (number, product_id) in journal.visited:
            journal.totals["repeats"] += 1
        else:
            journal.totals["visits"] += 1
            journal.add(keys, visits=1)
        journal.visited.add((number, product_id))

    async def follow(self, url: str) -> Any:
        """Follow a link as a browser does, and run `kiosk.js` on the landing page."""
        _, _, mark = url.partition("kiosk_mark=")
        if mark:
            return await self.send_mark(unquote(mark.partition("#")[0]))
        path = url.removeprefix(f"https://{HOST}")
        answer = await call(self.corner.app, "GET", path, headers={"host": HOST, "user-agent": BROWSER})
        assert answer.status == 302, (url, answer)
        return answer

    async def send_mark(self, mark: str) -> Any:
        """Send a mark as `kiosk.js` does."""
        headers = {"host": HOST, "user-agent": BROWSER, "content-type": "text/plain;charset=UTF-8"}
        answer = await call(
            self.corner.app, "POST", "/visits", headers=headers, body=mark.encode(), client=("192.0.2.9", 1)
        )
        assert answer.status == 204, answer
        return answer


def forge_mark(rng: random.Random, url: str) -> str:
    """Return a mark that nobody signed: a changed genuine one, or noise."""
    letters = string.ascii_letters + string.digits + "-_"
    mark = unquote(url.partition("kiosk_mark=")[2].partition("#")[0] or url.partition("/visits/")[2])
    token, _, rest = mark.partition(".")
    way = rng.randrange(5)
    if not mark or way == 0:
        return "".join(rng.choices(letters, k=27)) + "." + rest
    if way == 1:
        at = rng.randrange(27)
        changed = rng.choice([letter for letter in letters if letter != token[at]])
        return f"{token[:at]}{changed}{token[at + 1 :]}.{rest}"
    if way == 2:
        return f"{token}.{rest}x"
    if way == 3:
        return f"{token}.other.{rest.partition('.')[2]}"
    return rng.choice(
        ["", ".", "..", token, f"{token}.", "é" * 90, "x" * 601, quote(mark) + "%", f"{token[:-1]}.{rest}"]
    )


def compare(journal: Journal, report: ArchiveReport) -> list[str]:
    """Return the differences of a journal and a report."""
    totals = journal.totals
    pairs = {
        "calls": report.calls, "checks": report.checks, "asks": report.question_calls, "links": report.links,
        "unanswered": report.missing_calls, "visits": report.visits, "repeats": report.repeated_visits,
        "other": report.other_visits,
    }  # fmt: skip
    differences = [
        f"{name}: {totals[name]} in the journal, {figure}"
        for name, figure in pairs.items()
        if totals[name] != figure
    ]
    counted: Counter[tuple[str, str, str]] = Counter()
    for dimension, rows in report.usage.items():
        for row in rows:
            for figure in ("calls", "asks", "reads", "refused", "links", "visits", "unanswered"):
                counted[dimension, row.name, figure] += getattr(row, figure)
    for key in sorted({*counted, *journal.counts}):
        if counted[key] != journal.counts[key]:
            differences.append(f"{key}: {journal.counts[key]} in the journal, {counted[key]}")
    return differences


async def main(calls: int, forged: int) -> int:
    """Run the drill and print its figures."""
    with tempfile.TemporaryDirectory() as folder:
        begun_s = time.monotonic()
        simulation = await Simulation.open(Path(folder), 7)
        await simulation.run(calls)
        run_s, begun_s = time.monotonic() - begun_s, time.monotonic()
        report = await simulation.report()
        report_s = time.monotonic() - begun_s
        differences = compare(simulation.journal, report)
        for _ in range(forged):
            simulation.corner.clock.pass_ms(500)
            await simulation.send_mark(forge_mark(simulation.rng, simulation.rng.choice(simulation.links)[2]))
        await simulation.corner.services.workers.usage.write()
        again = await simulation.report()
        counted = again.visits + again.repeated_visits + again.other_visits
        counted -= report.visits + report.repeated_visits + report.other_visits
        files = sum(entry.size for entry in CallLogStore(simulation.artifacts).commit(APP).files)
        print(
            f"{report.calls + report.checks:,} calls, {report.visits:,} visits, {report.repeated_visits:,} repeats"
        )
        print(f"run {run_s:.0f} s, report {report_s:.2f} s, {files / calls:.0f} bytes of Parquet a call")
        print(f"{len(differences)} differences, {counted} of {forged:,} forged marks counted")
        print("\n".join(differences[:20]))
    return 1 if differences or counted else 0


if __name__ == "__main__":
    given = [word for word in sys.argv[1:] if word.isdigit()]
    forged = int(sys.argv[sys.argv.index("--forged") + 1]) if "--forged" in sys.argv else 100_000
    sys.exit(asyncio.run(main(int(given[0]) if given else 100_000, forged)))
