"""Measure the log of answers: `python -m tests.benchmarks.served_log [--answers N]`.

It prints the bytes of the files for N answers of ten products (the limit is 150 MB for a million), the time that a row
costs a request (the limit is 20 microseconds), the time of a row off the request path, and that of its compaction with
half an hour of earlier rows. The answers have 100,000 products, 50,000 users and scores of a model; the rows go through
the code that serves, without Redis.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import time
import uuid
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from actors.recommender.messages import Placements, RecommendationResult, UserQuery
from cluster.artifacts.logs.day_files import DAY_MS
from cluster.artifacts.logs.served_log import ServedLogStore
from cluster.artifacts.storage.artifact_store import ArtifactStore
from cluster.clock import SystemClock
from cluster.records.logged_query import pseudonym
from cluster.records.served_list import ServedAnswer
from deployments.api.http.served_log_writer import ServedLogWriter
from deployments.edge.http.request import ApiRequest
from tests.fakes.request_handler import open_corner

PRODUCTS, USERS, ROWS = 100_000, 50_000, 10
MOST_BYTES = 150_000_000
"For a million answers."
MOST_US = 20.0
_BATCH = 50_000
_ROUNDS, _CALLS = 9, 2_000
_START_MS = 1_790_000_000_000


def make_answers(count: int, seed: int = 7) -> Sequence[ServedAnswer]:
    """Return answers of one hour, oldest first; popular products are shown more often."""
    random = np.random.default_rng(seed)
    products = (PRODUCTS * random.power(0.35, (count, ROWS))).astype(int)
    scores = np.sort(random.normal(2.0, 1.0, (count, ROWS)).astype(np.float32))[:, ::-1]
    users = [pseudonym(b"salt", f"u:user-{user}") for user in range(USERS)]
    return [
        ServedAnswer(
            str(uuid.UUID(bytes=random.bytes(16), version=4)),
            _START_MS + at * 3_600_000 // count,
            ("user_to_products", "product_to_products", "search")[at % 3],
            "default",
            snapshot="053040c827b6cf19",
            recipe="shop",
            level="personal",
            user=users[user],
            device="phone" if at % 2 else "desktop",
            request_digest=f"{int(product):016x}" if at % 3 else "",
            rows=ROWS,
            took_ms=round(0.3 + at % 97 / 50, 2),
            products=tuple(f"product-{row}" for row in shown),
            scores=tuple(ranked),
            origins=(0,) * ROWS,
            propensities=(1.0,) * ROWS,
        )
        for at, (user, product, shown, ranked) in enumerate(
            zip(
                random.integers(0, USERS, count).tolist(),
                random.integers(0, PRODUCTS, count).tolist(),
                products.tolist(),
                scores.tolist(),
                strict=True,
            )
        )
    ]


def measure_bytes(count: int) -> int:
    """Write answers as the intake does, merge them, and return the bytes of all files."""
    with TemporaryDirectory() as folder:
        log = ServedLogStore(ArtifactStore.open(Path(folder)))
        for batch in range(0, count, _BATCH):
            log.append("shop", make_answers(min(_BATCH, count - batch), batch), f"{batch + 1}-0")
            log.expire_and_compact("shop", _START_MS - DAY_MS)
        return sum(path.stat().st_size for path in Path(folder).rglob("*.parquet"))


async def measure_row() -> tuple[float, float]:
    """Return microseconds for a row in the request, and off the request path, medians of alternating rounds."""
    corner = await open_corner()
    writer = ServedLogWriter(corner.stores.served, SystemClock())

    async def receive() -> Any:
        raise AssertionError

    agent = b"Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 Chrome/126.0 Safari/537.36"
    scope = {"method": "POST", "headers": [(b"user-agent", agent)], "client": ("198.51.100.7", 1)}
    request = ApiRequest(scope, receive, SystemClock())
    credential = corner.keyring.find(corner.secret("shop"))
    assert credential is not None
    request.credential = credential
    request.payload = {"user_id": "gina-7", "rows": 10, "fq": "brand:Alder"}
    products = [{"product_id": f"product-{row}", "_personalization_score": 0.5} for row in range(ROWS)]
    placements = Placements(
        tuple(np.linspace(2.0, 1.0, ROWS).tolist()),
        (0,) * ROWS,
        (1.0,) * ROWS,
        "053040c827b6cf19",
        "shop",
        state=f"{_START_MS}-0 {_START_MS}-3",
    )
    answered = RecommendationResult(products=products, served_by="personal", placements=placements)
    query = UserQuery("user_to_products", "shop", "default", user_id="gina-7", rows=ROWS)
    request.parsed = query
    inside, outside = [], []
    for _ in range(_ROUNDS):
        begin = time.process_time()
        for _ in range(_CALLS):
            writer.record(request, "9a3c4f1e-6f5a-4c2b-9d3e-8b7a6c5d4e3f", query, answered, ())
        middle = time.process_time()
        await writer.write()
        inside.append((middle - begin) * 1e6 / _CALLS)
        outside.append((time.process_time() - middle) * 1e6 / _CALLS)
    return statistics.median(inside), statistics.median(outside)


def measure_compaction(count: int) -> float:
    """Return microseconds of a row of the last minute, with half an hour of answers in the log."""
    answers = make_answers(count, 3)
    first_ms = _START_MS + 1_800_000
    newest = [row for row in answers if first_ms <= row.at < first_ms + 60_000]
    with TemporaryDirectory() as folder:
        log = ServedLogStore(ArtifactStore.open(Path(folder)))
        log.append("shop", [row for row in answers if row.at < first_ms], "1-0")
        begin = time.process_time()
        log.append("shop", newest, "2-0")
        return (time.process_time() - begin) * 1e6 / len(newest)


def main() -> int:
    """Print the figures; the exit code is 1 if a limit is broken."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--answers", type=int, default=1_000_000)
    count = parser.parse_args().answers
    inside, outside = asyncio.run(measure_row())
    print(f"a row: {inside:.1f} us in the request (limit {MOST_US:.0f}), {outside:.1f} us off its path")
    compaction = measure_compaction(count)
    print(f"its compaction after {count // 2:,} rows of half an hour: {compaction:.1f} us")
    size = measure_bytes(count)
    print(f"{count:,} answers of {ROWS} products: {size / 1e6:.1f} MB, {size / count:.0f} bytes each")
    return int(inside > MOST_US or size * 1_000_000 / count > MOST_BYTES)


if __name__ == "__main__":
    raise SystemExit(main())
