"""Make the pictures of the console in `docs/assets`: `python -m docs.screenshots [FOLDER]`.

It serves the console over the sample data and a Redis of its own, and opens its pages in the Chromium of the system.
"""

from __future__ import annotations

import asyncio
import io
import math
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from PIL import Image

from actors.language.hashing_embedder import HashingEmbedder
from cluster.admin.schema import record_running
from cluster.artifacts.snapshots import SnapshotStore
from cluster.records.administration import AuditRow
from cluster.records.engine import Engine
from cluster.records.logged_query import LoggedQuery
from cluster.store import keys
from cluster.store.connect import OpenStores, open_stores
from cluster.store.installation.live_metrics import WINDOW_MS, LiveFigureStore
from jobs.playground.loader import load_playground
from jobs.refresh.build.model_snapshot import SnapshotOrigin, write_model_snapshot
from jobs.refresh.evaluation.report_models import EvaluationReport
from jobs.refresh.evaluation.report_store import ReportStore
from tests.browser.stage import Stage, Tab, open_browser, open_stage
from tests.fakes.corner_shop import DAY_MS
from tests.fakes.model_shop import evaluation
from tests.fakes.trained_snapshot import ring_engine
from tests.suites.redis_process import RedisProcess

FOLDER = Path(__file__).parent / "assets"
COLOURS = 128
APP, ENGINE, USER, PRODUCT = "shop", "homepage", "greta-eichhorn-012", "bulb-planter"
PICTURES: tuple[tuple[str, str, int, str], ...] = (
    ("console-overview", "/", 1280, "light"),
    ("console-overview-phone", "/", 390, "dark"),
    ("console-catalog", f"/apps/{APP}/catalog/product?id={PRODUCT}", 1280, "light"),
    ("console-user", f"/apps/{APP}/readers/one?user_id={USER}", 1280, "light"),
    ("console-try", f"/apps/{APP}/try", 1280, "dark"),
    ("console-models", f"/apps/{APP}/models/engines/{ENGINE}/snapshots/NEWEST", 1280, "light"),
    ("console-experiments", f"/apps/{APP}/experiments/new", 1280, "light"),
    ("console-rules", f"/apps/{APP}/rules/edit", 1280, "light"),
    ("console-search", f"/apps/{APP}/search", 1280, "light"),
    ("console-access", f"/apps/{APP}/access", 1280, "light"),
)
"Name, address below `/console` with NEWEST for the newest snapshot, width and theme."
RULE = {"name": "own brand", "boost_fq": "brand:Fernhollow", "position": [1]}
QUERIES = (
    ("garden gloves", 14, 60), ("board game", 31, 52), ("tulip bulbs", 9, 44), ("rain barrel", 3, 37),
    ("wooden toys", 22, 30), ("kitchen knife", 12, 21), ("hedgehog house", 0, 17), ("solar lamp", 0, 12),
    ("fleece jaket", 0, 8),
)  # fmt: skip
"Text, number of results, how often it was searched in a week."


async def furnish(stage: Stage, stores: OpenStores, scratch: Path) -> str:
    """Write what the pages show, from the sample data to snapshots; return the newest snapshot."""
    await load_playground(stores, now_ms=stage.corner.clock.now_ms(), embedder=HashingEmbedder(), app_id=APP)
    await _add_people_and_figures(stage, stores)
    app = (await stores.access.read_all()).apps[APP]
    await stores.access.put_app(
        app.model_copy(update={"created_at": stage.corner.clock.now_ms() - 90 * DAY_MS})
    )
    await stage.perform("apps.set_limits", queries_per_s=200, writes_per_s=50)
    await record_running(stores, stage.corner.clock.now_ms())
    await stage.perform("rules.put", rules=[RULE])
    await _log_searches(stores, stage.corner.clock.now_ms())
    await stores.engines.put(Engine(app_id=APP, engine_id=ENGINE, created_at=1))
    snapshots, reports = SnapshotStore(stage.artifacts), ReportStore(stage.artifacts)
    serving = version = ""
    for seed, change in ((3, 0.02), (4, 0.012)):
        folder, serving = scratch / f"snapshot-{seed}", version
        now_ms = stage.corner.clock.now_ms()
        origin = SnapshotOrigin()
        await asyncio.to_thread(
            write_model_snapshot, ring_engine(seed), folder, written_at_ms=now_ms, origin=origin
        )
        version = snapshots.publish(APP, ENGINE, folder)
        reports.put(APP, ENGINE, version, _build_report(change, serving))
        if not serving:
            await stage.perform("promotions.promote", engine_id=ENGINE, version=version)
    return version


def _build_report(change: float, serving: str) -> EvaluationReport:
    """Return an evaluation with figures that differ, as measured ones do."""
    report = evaluation(change, serving=serving).to_dict()
    means = {"ndcg@10": 0.214, "recall@10": 0.331, "hit_rate@10": 0.402, "mrr@10": 0.176}
    for group in report["segments"]:
        group["figures"] = {
            name: {"mean": mean, "low": mean - 0.011, "high": mean + 0.012} for name, mean in means.items()
        }
    sentence = f"certainly better: ndcg@10 0.2140 against {0.214 - change:.4f} of what serves"
    facts = {
        **report,
        "figures": means,
        "readers_asked": 300,
        "verdict": {"allowed": True, "sentence": sentence},
    }
    return EvaluationReport.model_validate(facts)


async def _log_searches(stores: OpenStores, now_ms: int) -> None:
    queries = [
        LoggedQuery(
            at=now_ms - (7 * at + 3 * number) * 3_600_000 // 3 % (6 * 86_400_000) - 60_000, kind="search", text=text,
            total=total, took_ms=4.0 + at % 7, reader=f"r{(at * 7 + number) % 40}",
        )
        for number, (text, total, count) in enumerate(QUERIES)
        for at in range(count)
    ]  # fmt: skip
    await stores.queries.append(APP, sorted(queries, key=lambda query: query.at))


async def _add_people_and_figures(stage: Stage, stores: OpenStores) -> None:
    now_ms = stage.corner.clock.now_ms()
    figures = LiveFigureStore(stores.server)
    for back in range(60):
        wave = 1 + 0.4 * math.sin(back / 7) + 0.1 * math.sin(back * 1.7)
        count = round(420 * wave)
        counts = {
            "requests": count, "ms:26": round(count * 0.55), "ms:31": round(count * 0.33), "ms:38": round(count * 0.1),
            "ms:43": max(1, round(count * 0.012 * wave)), "served:personal": round(count * 0.61),
            "served:cohort": round(count * 0.17), "served:trending": round(count * 0.14),
            "served:popular": round(count * 0.05),
        }  # fmt: skip
        await figures.add(counts, now_ms - back * WINDOW_MS)
    await stage.add_person()
    await stage.add_person("grace", role="reader", roles={"shop": "editor"})
    for name in ("intake", "engines", "trainer", "tracker"):
        await stores.server.execute_slow("SET", keys.lease(name), "node-1", "PX", "600000")
    changes = (
        ("apps.create", ""), ("people.grant_role", ""), ("keys.rotate", ""),
        ("apps.set_limits", "this needs the role owner; your role in shop is editor"),
    )  # fmt: skip
    for at, (operation, reason) in enumerate(changes):
        await stores.audit.append(
            AuditRow(
                at=now_ms - 60_000 * (9 - at), user_id="usr-ada", username="grace" if reason else "ada", way="console",
                address="192.0.2.17", operation=operation, app_id="shop", outcome="refused" if reason else "done",
                reason=reason, arguments={"app_id": "shop"},
            )
        )  # fmt: skip


async def take(browser: Any, base: str, folder: Path, newest: str) -> list[Path]:
    """Open the pages and write their pictures."""
    written = []
    tab = await Tab.open(browser, base)
    await tab.sign_in()
    await tab.page.get_by_role("heading", level=1).wait_for()
    for name, path, wide, scheme in PICTURES:
        high = 820 if wide > 600 else 844
        await tab.page.set_viewport_size({"width": wide, "height": high})
        await tab.page.emulate_media(color_scheme=scheme)
        if await tab.go(path.replace("NEWEST", newest)) != 200:
            raise RuntimeError(f"{path} shows no page")
        if act := ACTS.get(name):
            await act(tab.page)
        await tab.page.wait_for_timeout(1_500)
        raw = await tab.page.screenshot()
        picture = Image.open(io.BytesIO(raw)).convert("RGB").quantize(COLOURS)
        target = folder / f"{name}.png"
        picture.save(target, optimize=True)
        written.append(target)
    return written


async def _send_a_call(page: Any) -> None:
    """Send a search for two users, and show the answers."""
    await page.get_by_label("Endpoint").select_option("search")
    await page.get_by_label("Text").first.fill("garden")
    await page.get_by_label("Compare A and B").check()
    await page.get_by_label("User id").first.fill(USER)
    await page.get_by_role("button", name="Send").click()
    await page.get_by_role("heading", name="Answers").scroll_into_view_if_needed()
    await page.locator("#results").evaluate("(results) => scrollTo(0, results.offsetTop - 60)")


async def _preview_a_rule(page: Any) -> None:
    """Fill in a rule and let its effect be shown."""
    await page.get_by_label("Name", exact=False).first.fill("books first")
    await page.get_by_label("Filter that selects products to pin").fill("type:book")
    await page.locator("#f-position").fill("1, 2")
    await page.get_by_label("Search queries to try").fill("garden")
    await page.locator("#preview table").first.wait_for()
    await page.evaluate("scrollTo(0, 0)")


async def _await_recommendations(page: Any) -> None:
    """Wait for the part of the page that is loaded after it."""
    await page.locator("ol li").first.wait_for()


ACTS = {
    "console-user": _await_recommendations, "console-try": _send_a_call, "console-rules": _preview_a_rule,
}  # fmt: skip
"Picture -> what somebody does on the page first."


async def main(folder: Path) -> None:
    """Make all pictures in an existing folder."""
    server = RedisProcess("--maxmemory", str(2 << 30), durable=True)
    server.start()
    try:
        with TemporaryDirectory() as scratch:
            async with (
                open_stores(server.url) as stores,
                open_stage(stores, Path(scratch)) as stage,
                open_browser() as browser,
            ):
                newest = await furnish(stage, stores, Path(scratch))
                for path in await take(browser, stage.base, folder, newest):
                    sys.stdout.write(f"written: {path} ({path.stat().st_size / 1000:.0f} kB)\n")
    finally:
        server.stop()


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    asyncio.run(main(Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER))
