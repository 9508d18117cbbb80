"""Whether open consoles slow recommendations down: the 99th percentile with five of them beside the one without.

python -m tests.benchmarks.console_load [--port 18080] [--rounds 6] [--seconds 12] [--rate 100] [--pages]

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
from contextlib import contextmanager
from pathlib import Path

import httpx

from tests.benchmarks import scenarios, stack
from tests.benchmarks.console_pages import FORM_TOKEN, PageWalk, find_values, walk
from tests.benchmarks.load import drive, http_request
from tests.benchmarks.report import print_report
from tests.benchmarks.scenarios import Line
from tests.benchmarks.unmeasured import NO_FIGURES

CONSOLES = 5
MOST_RATIO = 1.1
_POLLS = {"overview": 5.0, "trainings": 3.0, "run": 2.0, "import": 2.0}
"Part of a page -> seconds between two requests of its template; a browser also asks only while something runs."


async def prepare_pages(base: str, person: tuple[str, str], app_id: str) -> dict[str, str]:
    """Upload a file and order a training that is cancelled; return the addresses of the live parts."""
    models = f"/console/apps/{app_id}/models/trainings"
    async with httpx.AsyncClient(base_url=base, timeout=60) as http:
        await PageWalk(http).sign_in(*person)
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
    found = FORM_TOKEN.search((await http.get(path)).text)
    if found is None:
        raise RuntimeError(f"{path} has no form")
    return html.unescape(found[1])


async def hold_consoles(base: str, person: tuple[str, str], addresses: dict[str, str]) -> None:
    """Hold consoles open until this process is ended; print a line when all of them are."""
    polls = []
    for number in range(CONSOLES):
        http = httpx.AsyncClient(base_url=base, timeout=60)
        await PageWalk(http).sign_in(*person)
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
def open_consoles(base: str, person: tuple[str, str], addresses: dict[str, str]) -> Iterator[None]:
    """Hold consoles open in another process.

    Errors:
        RuntimeError: one of them was not answered
    """
    plan = json.dumps({"base": base, "person": person, "addresses": addresses})
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
    running: stack.Stack, person: tuple[str, str], *, rounds: int, seconds: float, rate: float
) -> Iterator[Line]:
    """Measure recommendations without and with open consoles, in turns."""
    base = f"http://127.0.0.1:{running.port}"
    addresses = asyncio.run(prepare_pages(base, person, running.app_id))
    requests = [
        http_request(
            "POST", "/v1/recommendation/user_to_products", body=b'{"user_id":"u%d","rows":10}' % number,
            headers={"X-API-KEY": running.secret_key}, port=running.port,
        )
        for number in range(500)
    ]  # fmt: skip

    def measure() -> float:
        found = drive(requests, port=running.port, connections=16, seconds=seconds, rate=rate)
        if found.failures:
            raise RuntimeError(f"answers failed: {found}")
        return found.p99_ms

    measure()
    alone, beside = [], []
    for _ in range(rounds):
        alone.append(measure())
        with open_consoles(base, person, addresses):
            beside.append(measure())
    without, with_consoles = statistics.median(alone), statistics.median(beside)
    notes = [", ".join(f"{one:.1f}" for one in sorted(times)) for times in (alone, beside)]
    yield Line("recommendations: p99 without a console", without, "ms", note=notes[0])
    yield Line(f"with {CONSOLES} consoles on live pages", with_consoles, "ms", note=notes[1])
    yield Line("with consoles / without", with_consoles / without, "x", MOST_RATIO)


def measure_installation(given: argparse.Namespace) -> Iterator[Line]:
    """Measure a fresh installation."""
    with stack.kiosk(given.port) as running:
        environment = {**os.environ, "KIOSK_DATA_DIR": str(running.data_dir)}
        create = [*stack.KIOSK, "users", "create", "bench", "--role", "administrator", "--json"]
        made = subprocess.run(create, check=True, capture_output=True, cwd=stack.ROOT, env=environment)
        person = ("bench", str(json.loads(made.stdout)["password"]))
        yield from dict(scenarios.foundation(running, NO_FIGURES, NO_FIGURES))["filling the shop"]()
        running.come_to_rest(limit_s=60)
        yield from compare(running, person, rounds=given.rounds, seconds=given.seconds, rate=given.rate)
        if given.pages:
            base = f"http://127.0.0.1:{running.port}"
            values = asyncio.run(find_values(base, "playground", person))
            yield from asyncio.run(walk(base, values, person, rounds=30, bound_ms=100, engine=True))


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
    parser.add_argument("--hold", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.hold:
        plan = json.loads(sys.stdin.readline())
        asyncio.run(hold_consoles(plan["base"], tuple(plan["person"]), plan["addresses"]))
        return 0
    return print_report(measure_installation(given), out=given.out)


if __name__ == "__main__":
    sys.exit(main())
