"""Count the processor instructions of each kind of request: `python -m tests.benchmarks.instructions [--rounds N]`.

A whole API replica answers in one process over a real Redis server, for a generated market with a trained snapshot and
for the playground. The replica runs under `valgrind --tool=callgrind`, which counts only while a request is answered.
Timers stand still, and the cyclic garbage collector is off while it counts. So two runs of one state differ by less
than 1 %, and two states can be compared on a busy machine. Instructions of Redis and of the kernel do not count.
"""

from __future__ import annotations

import argparse
import asyncio
import ctypes
import gc
import json
import mmap
import os
import re
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from cluster.store.connect import open_stores
from tests.fakes.asgi import call
from tests.fakes.request_handler import StillClock
from tests.golden import writing
from tests.golden.answers import Recording
from tests.golden.archiving import make_token
from tests.golden.caller import Caller
from tests.golden.catalog import make_interactions, make_products, user_id
from tests.golden.installation import MARKET, RECIPE, SHOP, Installation, World, put_rules_and_people
from tests.golden.randomness import FixedRandomness, fixed_randomness
from tests.suites.redis_process import RedisProcess
from tests.suites.redis_waiting import EASY

WARMUP = 4
STEP_MS = 10
"The clock of the replica moves so far between two requests."
TOOL_STEP_MS = 3_000
"The same between two calls of an agent, so that its limit is not met."
TOOL = "tool of an agent"
_FILTER = "brand:(Alder OR Birk) AND price:[5 TO 60]"
_CODE = bytes.fromhex("4889f8 31d2 48c1c703 48c1c70d 48c1c73d 48c1c733 4887db 4889d0 c3".replace(" ", ""))
"A request to valgrind on x86-64: `rax` points to six numbers, the first is the request. See `valgrind.h`."
_DUMP_STATS_AT, _START, _STOP = (0x4354_0000 + number for number in (3, 4, 5))
_TRIGGER = re.compile(r"^desc: Trigger: Client Request: (.*)$", re.MULTILINE)
_TOTALS = re.compile(r"^totals: (\d+)$", re.MULTILINE)

Send = Callable[[int], Awaitable[Any]]


class Callgrind:
    """Requests to the callgrind in which this process runs; outside of it they do nothing."""

    def __init__(self) -> None:
        self._page = mmap.mmap(-1, mmap.PAGESIZE, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
        self._page.write(_CODE)
        address = ctypes.addressof(ctypes.c_char.from_buffer(self._page))
        self._function = ctypes.CFUNCTYPE(ctypes.c_uint64, ctypes.c_void_p)(address)

    def start(self) -> None:
        """Begin to count."""
        self._request(_START)

    def stop(self) -> None:
        """Count no longer."""
        self._request(_STOP)

    def dump(self, name: str) -> None:
        """Write what was counted under a name, and begin again at zero."""
        self._request(_DUMP_STATS_AT, ctypes.c_char_p(name.encode()))

    def _request(self, number: int, text: ctypes.c_char_p | None = None) -> None:
        address = 0 if text is None else ctypes.cast(text, ctypes.c_void_p).value or 0
        arguments = (ctypes.c_uint64 * 6)(number, address, 0, 0, 0, 0)
        self._function(ctypes.addressof(arguments))


class StoppableLoop(asyncio.SelectorEventLoop):
    """A loop whose time can stand still, so that nothing periodic begins."""

    def __init__(self) -> None:
        super().__init__()
        self.stopped_at: float | None = None

    def time(self) -> float:
        return super().time() if self.stopped_at is None else self.stopped_at


async def prepare(url: str, folder: Path) -> int:
    """Fill Redis and the artifact store as the golden recording does, and return the time in milliseconds."""
    clock = StillClock()
    async with open_stores(url, clock=clock, **EASY) as stores:
        world = World(folder, clock)
        world.stores = stores
        process = await Installation.open(world)
        await put_rules_and_people(world)
        caller = Caller(Recording(), FixedRandomness(), "fill", process.app, clock, process.corner.keys)
        await writing.fill_market(caller)
        await world.settle()
        version = await asyncio.to_thread(world.train, MARKET, RECIPE)
        await world.promote(MARKET, version)
        await writing.fill_shop(caller)
        await world.apply()
        await process.close()
    return clock.now_ms()


async def measure(
    url: str, folder: Path, now_ms: int, rounds: int, only: str, randomness: FixedRandomness
) -> None:
    """Answer every kind of request, and dump the counts of each."""
    callgrind, clock = Callgrind(), StillClock(now_ms)
    loop = asyncio.get_running_loop()
    assert isinstance(loop, StoppableLoop)
    async with open_stores(url, clock=clock, **EASY) as stores:
        world = World(folder, clock)
        world.stores = stores
        process = await Installation.open(world)
        loop.stopped_at = loop.time()
        for name, send in kinds(process).items():
            if only not in name:
                continue
            for number in range(-WARMUP, rounds):
                if number == 0:
                    gc.collect()
                    gc.disable()
                randomness.begin(f"{name} {number}")
                clock.pass_ms(TOOL_STEP_MS if name == TOOL else STEP_MS)
                if number >= 0:
                    callgrind.start()
                answer = await send(number)
                callgrind.stop()
                if answer.status not in (200, 202):
                    raise RuntimeError(f"{name}: {answer.status} {answer.body[:300]!r}")
            callgrind.dump(name)
            gc.enable()
            print(name, len(answer.body), file=sys.stderr, flush=True)
        loop.stopped_at = None
        await process.close()


def kinds(process: Installation) -> dict[str, Send]:
    """Name the requests; each sends the one with a number."""
    market, shop = ({"x-api-key": process.corner.keys[app, "secret"]} for app in (MARKET, SHOP))
    signed = {"host": "news.example.com", "authorization": f"Bearer {make_token(process)}"}
    clicks = make_interactions(process.world.clock.now_ms(), 100, from_days=1, to_days=0)
    products = make_products(process.world.clock.now_ms(), 100)
    page = {"rows": 10, "fl": ["title"]}

    def post(path: str, body: Callable[[int], Any], headers: dict[str, str] = market) -> Send:
        return lambda number: call(process.app, "POST", path, headers=headers, json=body(number))

    def user(number: int) -> str:
        return user_id(abs(number) % 20)

    async def answer_question(number: int) -> Any:
        body = {"question": "What does the treaty about the river say?", "user_id": f"reader-{number}"}
        answer = await call(process.app, "POST", "/v1/ask/questions", headers=shop, json=body)
        await process.corner.asking.queue.wait_idle()
        return answer

    recommendation, search = "/v1/recommendation", "/v1/search"
    tool = {"name": "ask_archive", "arguments": {"question": "What does the treaty about the river say?"}}
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": tool}
    browsing = {"q": "*", "fq": "type:garden", "facets": ["brand", "tags"], "order_by": [{"field": "price"}]}
    return {
        "user_to_products": post(f"{recommendation}/user_to_products", lambda n: {"user_id": user(n), **page}),
        "user_to_products, filter and fields": post(
            f"{recommendation}/user_to_products",
            lambda n: {"user_id": user(n), "rows": 10, "fl": ["title", "price", "brand"], "fq": _FILTER},
        ),
        "user_to_trending": post(f"{recommendation}/user_to_trending", lambda n: {"user_id": user(n), **page}),
        "user_to_categories": post(
            f"{recommendation}/user_to_categories", lambda n: {"user_id": user(n), "products_per_category": 2}
        ),
        "product_to_products": post(
            f"{recommendation}/product_to_products", lambda n: {"product_id": products[n]["product_id"], **page}
        ),
        "user_to_history": post(f"{recommendation}/user_to_history", lambda n: {"user_id": user(n), **page}),
        "search": post(f"{search}/search", lambda n: {"q": "steel knife", "user_id": user(n), **page}),
        "browse with filter, facets and order": post(f"{search}/search", lambda n: {**browsing, **page}),
        "completion": post(f"{search}/autocomplete", lambda n: {"q": "stee kni", "completion_fields": ["title"]}),
        "search of articles": post("/v1/ask/search", lambda n: {"q": "river treaty", "answer": 0}, shop),
        "question with its answer": answer_question,
        TOOL: post("/mcp", lambda n: message, signed),
        "one interaction": post("/v1/interactions", lambda n: {"data": [clicks[n]]}),
        "100 interactions": post("/v1/interactions", lambda n: {"data": clicks}),
        "one product": post("/v1/products", lambda n: {"data": [products[n]]}),
        "100 products": post("/v1/products", lambda n: {"data": products}),
        "a stored user": lambda number: call(
            process.app, "GET", f"/v1/users/{user(number)}", headers=market
        ),
    }  # fmt: skip


def run_counted(url: str, folder: Path, now_ms: int, rounds: int, only: str) -> dict[str, int]:
    """Run this program under callgrind and return the instructions for one request of each kind."""
    counts = folder / "counts"
    environment = {**os.environ, "PYTHONHASHSEED": "0", "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    subprocess.run(
        [
            "valgrind", "--tool=callgrind", "--instr-atstart=no", f"--callgrind-out-file={counts}", "-q",
            sys.executable, "-m", "tests.benchmarks.instructions", "--url", url, "--folder", str(folder),
            "--now-ms", str(now_ms), "--rounds", str(rounds), "--only", only,
        ],
        env=environment, check=True,
    )  # fmt: skip
    result = {}
    for path in sorted(folder.glob("counts.*"), key=lambda path: int(path.suffix[1:])):
        text = path.read_text("utf-8", "replace")
        trigger, totals = _TRIGGER.search(text), _TOTALS.search(text)
        if trigger and totals:
            result[trigger[1]] = int(totals[1]) // rounds
    return result


def main() -> None:
    """Print instructions for each request as JSON."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=20, help="counted requests of each kind")
    parser.add_argument("--only", default="", help="count kinds whose name contains this text")
    for name in ("url", "folder", "now-ms"):
        parser.add_argument(f"--{name}", default="", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.url:
        loop = StoppableLoop()
        folder, now_ms = Path(chosen.folder), int(chosen.now_ms)
        with fixed_randomness() as randomness:
            work = measure(chosen.url, folder, now_ms, chosen.rounds, chosen.only, randomness)
            loop.run_until_complete(work)
        return
    server = RedisProcess()
    with TemporaryDirectory(prefix="kiosk-instructions-") as scratch:
        try:
            url = server.start().url
            with fixed_randomness():
                now_ms = asyncio.run(prepare(url, Path(scratch)))
            counted = run_counted(url, Path(scratch), now_ms, chosen.rounds, chosen.only)
        finally:
            server.stop()
    print(json.dumps(counted, indent=1))


if __name__ == "__main__":
    main()
