"""The simulated world whose people look at pages with `kiosk.js`, over HTTP, and whose network misbehaves.

The released script runs in node. It makes the visitors' ids, keeps their lists, names the list of each interaction,
and sends again what was lost. The world loses requests and answers, sends beacons twice, and reloads pages.
"""

from __future__ import annotations

import asyncio
import json
import shutil
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import uvicorn

from cluster.process.free_ports import free_ports
from cluster.store.stores import Stores
from deployments.api.http.application import build_application
from deployments.api.http.hot import HotPathMiddleware
from deployments.demo.browser_script import build_script_routes
from tests.fakes.request_handler import BROWSER, StillClock
from tests.fakes.simulated_shop import APP, ROWS, ShownList, SimulatedShop, open_world

NODE = shutil.which("node")
PROGRAM = Path(__file__).with_name("page_process.mjs")
STRANGER = "stranger"


class SimulatedPages(SimulatedShop):
    """The world: each visit is a tab of its own, in which the page is loaded once or more."""

    process: asyncio.subprocess.Process

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self._names: dict[str, str] = {}
        "Id of a visitor -> name of the person."
        self.faults: Counter[str] = Counter()
        "`lost` answer, or `unreachable` server -> requests; the empty text counts those without a fault."
        self._unsent = False
        "The page of the visitor has interactions that it did not send."

    async def visit(self, person: str, interest: int) -> None:
        """Open a tab, let a person react to lists, and leave it with or without unsent interactions."""
        visitor = await self._open(person)
        await super().visit(visitor, interest)
        if self._unsent and self._random.random() < 0.5:
            await self.step("flush", visitor, fault=self._draw_fault())
            self._unsent = False
        await self._leave(visitor)

    async def ask(self, person: str) -> ShownList:
        """Load a list; the server also answered each request whose answer was lost."""
        engine = self._random.choice(("good", "plain"))
        body = {"rows": ROWS, "engine_id": engine}
        answer = await self.step("list", person, body=body, fault=self._draw_fault())
        for lost in answer["lost"]:
            self.show(person, engine, lost)
        shown = self.show(person, engine, answer["shown"])
        await self._served_log.write()
        if self._random.random() < 0.3:
            await self._leave(person, reload=True)
        return shown

    def is_named(self, kind: str) -> bool:
        """Return True: the script finds the list, also after the page was loaded again."""
        return True

    async def track(
        self, kind: str, shown: ShownList, products: list[str], *, person: str = "", **more: Any
    ) -> None:
        """Record an interaction; the script names the list, unless it is a forged or a foreign one."""
        if person == STRANGER:
            stranger = await self._open(STRANGER)
            await self.step("track", stranger, type=kind, fields={"product_ids": products, **more})
            await self._leave(stranger)
            return
        if more.get("service_id") == shown.service_id:
            del more["service_id"]
        await self.step("track", shown.person, type=kind, fields={"product_ids": products, **more})
        self._unsent = True

    async def repeat(self, shown: ShownList, product: str) -> None:
        """Send one interaction in ten beacons."""
        if self._unsent:
            await self.step("flush", shown.person, fault="")
        await self.track("share", shown, [product])
        await self._leave(shown.person, beacons=10, reload=True)

    async def step(self, step: str, visitor: str, **more: Any) -> dict[str, Any]:
        """Let a page do something; return its result."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        message = {
            "step": step,
            "name": self._names.get(visitor, visitor),
            "now_ms": self.clock.now_ms(),
            **more,
        }
        self.process.stdin.write(json.dumps(message).encode() + b"\n")
        result: dict[str, Any] = json.loads(await self.process.stdout.readline())
        assert "error" not in result, result
        return result

    async def _open(self, name: str) -> str:
        """Open a tab; return the id that the script gave to the visitor."""
        visitor = str((await self.step("open", name))["anonymous_id"])
        self._names[visitor] = name
        return visitor

    async def _leave(self, visitor: str, *, beacons: int = 0, reload: bool = False) -> None:
        beacons = beacons or self._random.choice((1, 1, 2))
        left = await self.step("leave", visitor, beacons=beacons, reload=reload)
        assert left["anonymous_id"] == visitor
        self.journal.verdicts["repeated"] += left["repeated"]
        self._unsent = False

    def _draw_fault(self) -> str:
        fault = self._random.choices(("", "lost", "unreachable"), (0.8, 0.1, 0.1))[0]
        self.faults[fault] += 1
        return fault


@asynccontextmanager
async def open_simulated_pages(folder: Path, seed: int, stores: Stores) -> AsyncIterator[SimulatedPages]:
    """Serve the API of an empty world on a port, and open the program that runs the pages."""
    shop = await open_world(SimulatedPages, folder, seed, StillClock(), stores)
    ordinary = build_application(shop.corner.handler, version="0", more=build_script_routes())
    app = HotPathMiddleware(ordinary, lambda: shop.corner.handler)
    port = free_ports(1)[0]
    server = uvicorn.Server(uvicorn.Config(app, port=port, log_config=None, lifespan="off", access_log=False))
    serving = asyncio.create_task(server.serve())
    while not server.started:  # noqa: ASYNC110 - it has no event for that
        await asyncio.sleep(0.01)
    assert NODE is not None
    url, key = f"http://127.0.0.1:{port}", shop.corner.publishable(APP)
    shop.process = await asyncio.create_subprocess_exec(
        NODE, str(PROGRAM), url, key, BROWSER,
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    try:
        assert shop.process.stdout is not None
        await shop.process.stdout.readline()
        yield shop
    finally:
        if shop.process.returncode is None:
            shop.process.kill()
        await shop.process.wait()
        server.should_exit = True
        await serving
