"""What one app costs an API replica and its neighbours: bombs of a few kilobytes, and ten apps of 50,000 products.

Run with `-m drill -s` for the figures.
"""

from __future__ import annotations

import json
import os
import subprocess
import threading
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import psutil
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cluster.paths import InstallationPaths
from cluster.process.free_ports import free_ports
from cluster.records.field_types.fields import MAX_TITLE
from cluster.runtime.replica_resources import reserved_bytes
from tests.benchmarks.data import interactions, products
from tests.benchmarks.stack import KIOSK, ROOT, Stack, kiosk
from tests.drills.engines import replicas, say, seed
from tests.drills.journal import Load, call, percentile

pytestmark = [pytest.mark.ray, pytest.mark.redis, pytest.mark.timeout(3_600)]
ROWS = 1_000
MOST_MIB = 50
SETTLED_MIB = 10
MOST_CONTROLS = 4
"A young replica grows by itself: files of short texts are imported until one of them costs little, at most so often."
APPS = 10
PRODUCTS = 50_000
BUDGET_MIB = 512
RESERVED_MIB = reserved_bytes(BUDGET_MIB) >> 20
"What Ray reserves for an API replica with the default budget."
IDENTIFIERS = [f"p{number}" for number in range(ROWS)]
SHORT_TEXTS = {"title": "short", "description": "a short text"}
TITLES = {
    "title of 100,000 characters": {"title": "long title " * 9_091},
    "title of the greatest length": {"title": ("long title " * MAX_TITLE)[:MAX_TITLE]},
}
CONTENTS = {
    "description of 100,000 characters": {"title": "short", "description": "long description " * 5_883},
    "html of 100,000 characters": {"title": "short", "html": "<p>long text</p> " * 5_883},
}
"Content may be long, because it is what answers cite: 100 MB of it is data as any other, whatever its file weighs."
ARCHIVE_BUDGET_MIB = 2_048


@dataclass
class MemoryWatch(threading.Thread):
    """Notes the most memory that each API replica had for itself."""

    stack: Stack
    peak_mib: dict[int, float] = field(default_factory=dict)
    "By process id."

    def __post_init__(self) -> None:
        super().__init__(daemon=True)
        self._ended = threading.Event()

    __hash__ = threading.Thread.__hash__

    def run(self) -> None:
        """Measure each second until the end."""
        while not self._ended.wait(1):
            self.measure()

    def measure(self) -> dict[int, float]:
        """Return the unique memory of each API replica in MiB, by process id."""
        sizes = {}
        for process in replicas(self.stack):
            try:
                sizes[process.pid] = process.memory_full_info().uss / 2**20
            except psutil.Error:
                continue
        for pid, size in sizes.items():
            self.peak_mib[pid] = max(size, self.peak_mib.get(pid, 0.0))
        return sizes

    def finish(self) -> None:
        """Stop measuring."""
        self._ended.set()
        self.join(30)


@pytest.fixture
def installation() -> Iterator[Stack]:
    """A fresh installation for each test: memory of an earlier one would hide what this one takes."""
    with kiosk(free_ports(1)[0]) as running:
        yield running


@pytest.fixture
def token(installation: Stack) -> str:
    """A personal token of an editor."""
    say(installation, "users", "create", "eve", "--role", "administrator")
    return str(say(installation, "tokens", "create", "drill", "--user", "eve", "--role", "owner")["token"])


def create_app(stack: Stack, name: str) -> Stack:
    """Make an app whose rate limits are out of the way; return the installation with its key."""
    app = say(stack, "apps", "create", name)
    say(stack, "apps", "limit", name, "--queries", "1000000", "--writes", "1000000")
    return replace(stack, app_id=name, secret_key=str(app["secret_key"]))


def administer(stack: Stack, token: str, method: str, path: str, body: bytes | None = None) -> Any:
    """Call the administration and return `data` of its answer."""
    url = f"http://127.0.0.1:{stack.port}/v1/admin/apps/{stack.app_id}{path}"
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/octet-stream"}
    if path.endswith("/start"):
        headers["Content-Type"] = "application/json"
    request = urllib.request.Request(url, data=body, method=method, headers=headers)
    with urllib.request.urlopen(request, timeout=120) as reply:
        return json.loads(reply.read())["data"]


def import_file(stack: Stack, token: str, file: Path, within_s: float = 300) -> dict[str, Any]:
    """Import a file of products as the console does; return its last state."""
    path = f"/imports?noun=product&file_name={file.name}"
    identifier = administer(stack, token, "POST", path, file.read_bytes())["import_id"]
    administer(stack, token, "POST", f"/imports/{identifier}/start", b"{}")
    until = time.monotonic() + within_s
    while True:
        state = administer(stack, token, "GET", f"/imports/{identifier}")
        if state["status"] in {"finished", "failed", "stopped"}:
            return dict(state)
        assert time.monotonic() < until, state
        time.sleep(0.5)


def write_bomb(file: Path, texts: dict[str, str]) -> None:
    """Write a Parquet file whose columns hold one text a thousand times, as a dictionary of one value."""
    columns = {name: pa.array([text] * ROWS).dictionary_encode() for name, text in texts.items()}
    pq.write_table(
        pa.table({"product_id": IDENTIFIERS, **columns}), file, compression="zstd", compression_level=19
    )


def visit_for(stack: Stack, seconds: float) -> list[int]:
    """Visit an app for some time; return the last statuses."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        statuses = visit(stack)
        time.sleep(1)
    return statuses


def visit(stack: Stack) -> list[int]:
    """Ask every kind of question that builds an index of the app; return the statuses."""
    bodies = {
        "/v1/search/search": {"q": "long title"},
        "/v1/search/autocomplete": {"q": "lon"},
        "/v1/ask/query_suggestion": {"q": "long"},
        "/v1/ask/related_questions": {"q": "long title"},
        "/v1/recommendation/user_to_products": {"user_id": "u1"},
        "/v1/recommendation/product_to_products": {"product_id": "p1"},
    }
    return [call(stack, "POST", path, body, timeout_s=60).status for path, body in bodies.items()]


@pytest.fixture
def neighbour(installation: Stack) -> Stack:
    """An app with products and people that serves beside the others."""
    seed(installation)
    return installation


@pytest.fixture
def neighbour_load(neighbour: Stack) -> Iterator[Load]:
    """Twenty recommendations a second for the neighbour."""
    bodies: list[object] = [{"user_id": f"u{number % 200}"} for number in range(1_000_000)]
    load = Load(neighbour, "POST", "/v1/recommendation/user_to_products", bodies, 20)
    load.start()
    yield load
    load.finish()


@pytest.mark.parametrize("kind", TITLES)
def test_a_small_file_of_long_titles_costs_little_memory(
    installation: Stack, token: str, neighbour_load: Load, tmp_path: Path, kind: str
) -> None:
    growth_mib = import_bomb(installation, token, neighbour_load, tmp_path, kind, TITLES[kind])
    assert growth_mib <= MOST_MIB


@pytest.mark.parametrize("kind", CONTENTS)
def test_a_small_file_of_long_content_costs_no_more_than_the_budgets(
    installation: Stack, token: str, neighbour_load: Load, tmp_path: Path, kind: str
) -> None:
    growth_mib = import_bomb(installation, token, neighbour_load, tmp_path, kind, CONTENTS[kind])
    assert growth_mib <= BUDGET_MIB + ARCHIVE_BUDGET_MIB


def import_bomb(
    stack: Stack, token: str, load: Load, folder: Path, kind: str, texts: dict[str, str]
) -> float:
    """Import a bomb and visit its app for a minute beside a neighbour; return the growth of a replica in MiB."""
    for number in range(1, MOST_CONTROLS + 1):
        control_mib = import_and_visit(stack, token, folder, f"control-{number}", SHORT_TEXTS)
        if control_mib <= SETTLED_MIB:
            break
    growth_mib = import_and_visit(stack, token, folder, "bomb", texts)
    load.finish()
    refused = [answer.status for answer in load.answers if answer.status != 200]
    print(
        f"{kind}: replicas grew by {growth_mib:.0f} MiB, by {control_mib:.0f} for short texts before; neighbour: "
        f"{len(load.answers):,} requests, {len(refused)} refused, p99 {percentile(load.answers, 0.99):.0f} ms"
    )
    assert refused == []
    return growth_mib


def import_and_visit(stack: Stack, token: str, folder: Path, name: str, texts: dict[str, str]) -> float:
    """Import a file into an app of its own and visit the app for a minute; return the growth of a replica in MiB."""
    app = create_app(stack, name)
    file = folder / f"{name}.parquet"
    write_bomb(file, texts)
    watch = MemoryWatch(stack)
    before = watch.measure()
    watch.start()
    state = import_file(app, token, file)
    statuses = visit_for(app, 60)
    watch.finish()
    growth = {pid: watch.peak_mib[pid] - size for pid, size in before.items() if pid in watch.peak_mib}
    print(
        f"\n{name}: {file.stat().st_size:,} bytes, {state['status']}, accepted {state['accepted']:,}, refused "
        f"{state['refused']:,}; growth, MiB: {', '.join(f'{size:.0f}' for size in growth.values())}; "
        f"last statuses {statuses}"
    )
    assert set(growth) == set(before), "a replica ended"
    assert 503 not in statuses
    return max(growth.values())


def test_ten_apps_of_fifty_thousand_products_stay_within_the_budget(
    installation: Stack, neighbour_load: Load, tmp_path: Path
) -> None:
    watch = MemoryWatch(installation)
    before = watch.measure()
    watch.start()
    apps = [create_app(installation, f"shop-{number}") for number in range(APPS)]
    for number, app in enumerate(apps):
        ingest(app, tmp_path, number)
    for round_number in range(1, 3):
        took = [ask_first(app) for app in apps]
        print(f"\nround {round_number}: first list and search, s: {', '.join(f'{s:.1f}' for s in took)}")
        print(f"unique memory, MiB: {', '.join(f'{size:.0f}' for size in watch.measure().values())}")
    fits = _app_memory(installation)
    watch.finish()
    neighbour_load.finish()
    refused = [answer.status for answer in neighbour_load.answers if answer.status != 200]
    print(
        f"peak, MiB: {', '.join(f'{size:.0f}' for size in watch.peak_mib.values())}; before "
        f"{', '.join(f'{size:.0f}' for size in before.values())}; status: {fits}; neighbour: "
        f"{len(neighbour_load.answers):,} requests, {len(refused)} refused, "
        f"p99 {percentile(neighbour_load.answers, 0.99):.0f} ms"
    )
    assert refused == []
    assert max(watch.peak_mib.values()) <= RESERVED_MIB


SMALL_BUDGET_MIB = 64


def test_an_app_that_grows_by_writes_makes_another_one_leave_without_a_load(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The gateway looks at the budget every few seconds: no query loads an app meanwhile."""
    monkeypatch.setenv("KIOSK_MEMORY_MB", str(SMALL_BUDGET_MIB))
    with kiosk(free_ports(1)[0]) as stack:
        resting, growing = (create_app(stack, name) for name in ("resting", "growing"))
        for app in (resting, growing):
            assert call(app, "POST", "/v1/products", {"data": products(500)}).status == 200
            until = time.monotonic() + 60
            while call(app, "POST", "/v1/search/search", {"q": "red"}).status != 200:
                assert time.monotonic() < until
                time.sleep(0.5)
        assert _left(stack, "resting") == 0
        for batch in range(240):
            rows = [
                {**row, "product_id": f"{batch}-{row['product_id']}"} for row in products(1_000, seed=batch)
            ]
            assert call(growing, "POST", "/v1/products", {"data": rows}).status == 200
            if _left(stack, "resting"):
                break
        until = time.monotonic() + 60
        while not _left(stack, "resting"):
            assert time.monotonic() < until, _app_memory(stack)
            time.sleep(1)
        print(f"\nleft beside at most {1_000 * (batch + 1):,} new products: {_app_memory(stack)}")
        assert _left(stack, "growing") == 0
        assert call(growing, "POST", "/v1/search/search", {"q": "red"}).status == 200


def _app_memory(stack: Stack) -> str:
    parts = say(stack, "status", check=False)["parts"]
    return str(next(part["detail"] for part in parts if part["part"] == "app memory"))


def _left(stack: Stack, app_id: str) -> int:
    """Return how often an API replica unloaded an app for lack of memory."""
    logs = InstallationPaths.from_data_dir(stack.data_dir).ray_dir / "session_latest" / "logs"
    lines = (
        line for path in logs.glob("worker-*.err") for line in path.read_text("utf-8", "replace").splitlines()
    )
    return sum('"recommender_left"' in line and f'"{app_id}"' in line for line in lines)


def ingest(app: Stack, folder: Path, number: int) -> None:
    """Ingest products and interactions by files."""
    for noun, rows in (
        ("product", products(PRODUCTS, seed=number)),
        ("interaction", interactions(5_000, 500, PRODUCTS)),
    ):
        file = folder / f"{noun}.jsonl"
        file.write_text("".join(json.dumps(row) + "\n" for row in rows))
        command = [*KIOSK, "ingest", str(file), "--noun", noun, "--app", app.app_id]
        done = subprocess.run(
            command,
            env={**os.environ, "KIOSK_DATA_DIR": str(app.data_dir)},
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )
        assert done.returncode == 0, done.stderr[-2_000:]


def ask_first(app: Stack) -> float:
    """Ask for a list and a search; return the seconds of both, the load of the app included."""
    lists = call(app, "POST", "/v1/recommendation/user_to_products", {"user_id": "u1"}, timeout_s=60)
    search = call(app, "POST", "/v1/search/search", {"q": "red"}, timeout_s=60)
    assert (lists.status, search.status) == (200, 200)
    return lists.took_s + search.took_s
