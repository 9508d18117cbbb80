"""Make the pictures of the console in `docs/img`: `python -m docs.screenshots [FOLDER]`.

It serves the console over a furnished shop and a Redis of its own, and opens its pages in the Chromium of the system.
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

from cluster.records.administration import AuditRow
from cluster.store import keys
from cluster.store.connect import OpenStores, open_stores
from cluster.store.redis.live_figures import WINDOW_MS, RedisLiveFigures
from tests.browser.stage import Stage, Tab, open_browser, open_stage
from tests.suites.redis_process import RedisProcess

FOLDER = Path(__file__).parent / "img"
COLOURS = 128
PICTURES: tuple[tuple[str, str, int, str], ...] = (
    ("console-overview", "/", 1280, "light"),
    ("console-overview-dark", "/", 1280, "dark"),
    ("console-overview-phone", "/", 390, "dark"),
    ("console-access", "/apps/shop/access", 1280, "light"),
    ("console-audit", "/audit", 1280, "light"),
    ("console-account", "/account", 1280, "light"),
    ("console-rules", "/apps/shop/rules", 1280, "light"),
    ("console-experiments", "/apps/shop/experiments", 1280, "light"),
    ("console-models", "/apps/shop/models", 1280, "light"),
    ("console-search", "/apps/shop/search", 1280, "light"),
)
"Name, address below `/console`, width and theme; pages that this release lacks are left out."


async def furnish(stage: Stage, stores: OpenStores) -> None:
    """Write what the pages show: live figures, people and a few changes."""
    now_ms = stage.corner.clock.now_ms()
    figures = RedisLiveFigures(stores.server)
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


async def take(browser: Any, base: str, folder: Path) -> list[Path]:
    """Open the pages and write their pictures."""
    written = []
    tab = await Tab.open(browser, base)
    await tab.sign_in()
    await tab.page.get_by_role("heading", level=1).wait_for()
    for name, path, wide, scheme in PICTURES:
        high = 820 if wide > 600 else 844
        await tab.page.set_viewport_size({"width": wide, "height": high})
        await tab.page.emulate_media(color_scheme=scheme)
        if await tab.go(path) != 200:
            continue
        await tab.page.wait_for_timeout(600)
        raw = await tab.page.screenshot()
        picture = Image.open(io.BytesIO(raw)).convert("RGB").quantize(COLOURS)
        target = folder / f"{name}.png"
        picture.save(target, optimize=True)
        written.append(target)
    return written


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
                await furnish(stage, stores)
                for path in await take(browser, stage.base, folder):
                    sys.stdout.write(f"written: {path} ({path.stat().st_size / 1000:.0f} kB)\n")
    finally:
        server.stop()


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    asyncio.run(main(Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER))
