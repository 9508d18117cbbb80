"""Whether open consoles slow recommendations down: the 99th percentile with five of them beside the one without.

python -m tests.benchmarks.console_load [--port 18080] [--rounds 6] [--seconds 12] [--rate 100] [--pages]
python -m tests.benchmarks.console_load --alone     one process with the API and the console over Redis, without Ray

A fresh installation with 10,000 products answers recommendations at a constant rate. In every second round, a process
of its own holds five consoles open: each asks for the live parts of the Overview, of trainings, of one training and
of an import, as often as a browser does. The ratio of the medians may be 1.1. `--pages` also measures every page of the
playground on that installation.
"""

from __future__ import annotations

import argparse
import asyncio
import html
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import AsyncExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import httpx

from cluster.store.connect import open_stores
from tests.benchmarks import scenarios, stack
from tests.benchmarks.console_data import PageDataSizes, fill_app
from tests.benchmarks.console_pages import FORM_TOKEN, find_values, sign_in, walk
from tests.benchmarks.load import drive, http_request
from tests.benchmarks.report import print_report
from tests.benchmarks.scenarios import Line
from tests.benchmarks.unmeasured import NO_FIGURES
from tests.browser.stage import open_stage
from tests.fakes.archive_oauth import PASSWORD
from tests.suites.redis_process import RedisProcess

CONSOLES = 5
MOST_RATIO = 1.1
_POLLS = {"overview": 5.0, "trainings": 3.0, "run": 2.0, "import": 2.0}
"Part of a page -> seconds between two requests of its template; a browser also asks only while something runs."


async def prepare_pages(origin: str, cookies: dict[str, str], app_id: str) -> dict[str, str]:
    """Upload a file and order a training that is cancelled; return the addresses of the live parts."""
    models = f"/console/apps/{app_id}/models/trainings"
    async with httpx.AsyncClient(base_url=origin, timeout=60, cookies=cookies) as http:
        imports = f"/console/apps/{app_id}/import"
        form = {"csrf": await _token(http, imports), "noun": "product"}
        file = {"file": ("list.csv", b"product_id,title\n" + b"x1,Kettle\n" * 1_000)}
        uploaded = await http.post(imports, data=form, files=file)
        form = {"csrf": await _token(http, models + "/new"), "engine_id": "default", "recipe": "fast"}
        ordered = await http.post(models + "/new", data=form)
        run = ordered.headers.get("location", models)
        await http.post(run + "/cancel", data={"csrf": form["csrf"]})
    return {
        "overview": "/console/live",
        "trainings": models,
        "run": run,
        "import": uploaded.headers.get("location", imports),
    }


async def _token(http: httpx.AsyncClient, path: str) -> str:
    match = FORM_TOKEN.search((await http.get(path)).text)
    if match is None:
        raise RuntimeError(f"{path} has no form")
    return html.unescape(match[1])


async def hold_consoles(origin: str, cookies: dict[str, str], addresses: dict[str, str]) -> None:
    """Hold consoles open until this process is ended; print a line when all of them are."""
    polls = []
    for number in range(CONSOLES):
        http = httpx.AsyncClient(base_url=origin, timeout=60, cookies=cookies)
        polls += [
            _poll(http, addresses[part], pause_s, number / CONSOLES) for part, pause_s in _POLLS.items()
        ]
    print("open", flush=True)
    await asyncio.gather(*polls)


async def _poll(http: httpx.AsyncClient, address: str, pause_s: float, phase: float) -> None:
    await asyncio.sleep(pause_s * phase)
    while True:
        began = time.monotonic()
        answer = await http.get(address, headers={"hx-request": "true"})
        if answer.status_code != 200:
            raise RuntimeError(f"{address} was answered with {answer.status_code}")
        await asyncio.sleep(max(0.0, pause_s - (time.monotonic() - began)))


@contextmanager
def open_consoles(origin: str, cookies: dict[str, str], addresses: dict[str, str]) -> Iterator[None]:
    """Hold consoles open in another process.

    Errors:
        RuntimeError: one of them was not answered
    """
    plan = json.dumps({"origin": origin, "cookies": cookies, "addresses": addresses})
    command = [sys.executable, "-m", "tests.benchmarks.console_load", "--hold"]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=stack.ROOT)
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(plan.encode() + b"\n")
    process.stdin.flush()
    try:
        if process.stdout.readline() != b"open\n":
            raise RuntimeError("the consoles could not be opened")
        yield
        if process.poll() is not None:
            raise RuntimeError("a console was not answered")
    finally:
        process.kill()
        process.wait(10)


def compare(
    running: stack.Stack,
    cookies: dict[str, str],
    *,
    rounds: int,
    seconds: float,
    rate: float,
    prefix: bytes = b"u",
) -> Iterator[Line]:
    """Measure recommendations without and with open consoles, in turns."""
    origin = f"http://127.0.0.1:{running.port}"
    addresses = asyncio.run(prepare_pages(origin, cookies, running.app_id))
    requests = [
        http_request(
            "POST", "/v1/recommendation/user_to_products", body=b'{"user_id":"%s%d","rows":10}' % (prefix, number),
            headers={"X-API-KEY": running.secret_key}, port=running.port,
        )
        for number in range(500)
    ]  # fmt: skip

    def measure() -> float:
        figures = drive(requests, port=running.port, connections=16, seconds=seconds, rate=rate)
        if figures.failures:
            raise RuntimeError(f"answers failed: {figures}")
        return figures.p99_ms

    measure()
    alone, beside = [], []
    for _ in range(rounds):
        alone.append(measure())
        with open_consoles(origin, cookies, addresses):
            beside.append(measure())
    without, with_consoles = statistics.median(alone), statistics.median(beside)
    notes = [", ".join(f"{time:.1f}" for time in sorted(times)) for times in (alone, beside)]
    yield Line("recommendations: p99 without a console", without, "ms", note=notes[0])
    yield Line(f"with {CONSOLES} consoles on live pages", with_consoles, "ms", note=notes[1])
    yield Line("with consoles / without", with_consoles / without, "x", MOST_RATIO)


def measure_alone(given: argparse.Namespace) -> Iterator[Line]:
    """Measure a process of its own that has the API, an engine and the console."""
    command = [sys.executable, "-m", "tests.benchmarks.console_load", "--serve"]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=stack.ROOT)
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        started = next(line for line in process.stdout if line.startswith(b"{"))
        facts = json.loads(started)
        running = stack.Stack(facts["port"], Path(), facts["secret_key"], 0.0, "shop")
        yield from compare(
            running,
            facts["cookies"],
            rounds=given.rounds,
            seconds=given.seconds,
            rate=given.rate,
            prefix=b"b0-",
        )
    finally:
        process.stdin.close()
        process.wait(30)


async def serve_alone() -> None:
    """Serve until the standard input ends; print port, key and cookies of somebody who is signed in."""
    async with AsyncExitStack() as opened:
        folder = Path(opened.enter_context(TemporaryDirectory()))
        server = RedisProcess()
        opened.callback(server.stop)
        stores = await opened.enter_async_context(open_stores(server.start().url))
        stage = await opened.enter_async_context(open_stage(stores, folder))
        await stage.add_person()
        sizes = PageDataSizes(products=10_000, interactions=20_000)
        await fill_app(stage, "shop", sizes, folder, for_engine=True)
        facts = {
            "port": int(stage.origin.rpartition(":")[2]), "secret_key": stage.corner.secret(),
            "cookies": await sign_in(stage.origin, "ada", PASSWORD),
        }  # fmt: skip
        print(json.dumps(facts), flush=True)
        await asyncio.to_thread(sys.stdin.read)


def measure_installation(given: argparse.Namespace) -> Iterator[Line]:
    """Measure a fresh installation."""
    with stack.kiosk(given.port) as running:
        environment = {**os.environ, "KIOSK_DATA_DIR": str(running.data_dir)}
        create = [*stack.KIOSK, "users", "create", "bench", "--role", "administrator", "--json"]
        made = subprocess.run(create, check=True, capture_output=True, cwd=stack.ROOT, env=environment)
        origin = f"http://127.0.0.1:{running.port}"
        cookies = asyncio.run(sign_in(origin, "bench", str(json.loads(made.stdout)["password"])))
        yield from dict(scenarios.foundation(running, NO_FIGURES, NO_FIGURES))["filling the shop"]()
        running.come_to_rest(limit_s=60)
        yield from compare(running, cookies, rounds=given.rounds, seconds=given.seconds, rate=given.rate)
        if given.pages:
            values = asyncio.run(find_values(origin, "playground", "bench", cookies))
            yield from asyncio.run(walk(origin, values, cookies, rounds=30, bound_ms=100, engine=True))


def main() -> int:
    """Print the figures; return 1 if a bound is missed."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--port", type=int, default=18080)
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--seconds", type=float, default=12.0)
    parser.add_argument("--rate", type=float, default=100.0, help="recommendations per second")
    parser.add_argument("--pages", action="store_true", help="also measure every page of the playground")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--alone", action="store_true", help="without Ray")
    parser.add_argument("--hold", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.serve:
        asyncio.run(serve_alone())
        return 0
    if given.hold:
        plan = json.loads(sys.stdin.readline())
        asyncio.run(hold_consoles(plan["origin"], plan["cookies"], plan["addresses"]))
        return 0
    measure = measure_alone if given.alone else measure_installation
    return print_report(measure(given), out=given.out)


if __name__ == "__main__":
    sys.exit(main())
