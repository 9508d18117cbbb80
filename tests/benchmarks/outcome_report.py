"""Measure the report of outcomes: `python -m tests.benchmarks.outcome_report [--answers N] [--by D] [--folder F]`.

It writes N answers of ten products over 20 days, with outcomes of a tenth of them, and reports them all as the
command does. It prints the wall time, the processor time and the peak of memory. The limit for 10,000,000 answers is
10 s on two cores and 2 GB.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa

from cluster.artifacts.logs.day_files import DAY_MS, MOST_MERGED_ROWS, name_day
from cluster.artifacts.logs.outcomes import COLUMNS as OUTCOME_COLUMNS
from cluster.artifacts.logs.outcomes import OutcomeStore
from cluster.artifacts.logs.served_log import COLUMNS, ServedLogStore
from cluster.artifacts.storage.artifact_store import ArtifactStore
from cluster.records.logged_query import pseudonym
from deployments.operations.insight.outcomes import load_report

APP = "shop"
PRODUCTS, USERS, ROWS, DAYS = 100_000, 500_000, 10, 20
MOST_S, MOST_BYTES = 10.0, 2_000_000_000
"For 10,000,000 answers."
_FIRST_DAY = 20_000
_TYPES = ("click", "click", "click", "add_to_cart", "checkout", "seen")


def make_answers(count: int, begins_ms: int, span_ms: int, random: Any) -> pa.Table:
    """Return answers of a span of time as a table with `COLUMNS`, oldest first."""
    products = pa.array([f"product-{row}" for row in range(PRODUCTS)])
    users = pa.array([pseudonym(b"salt", f"u:user-{user}") for user in range(USERS)])
    shown = (PRODUCTS * random.power(0.35, count * ROWS)).astype(np.int32)
    offsets = pa.array(np.arange(0, count * ROWS + 1, ROWS, dtype=np.int32))
    origins = (random.random(count * ROWS) < 0.03).astype(np.int8) * 3
    lists = {
        "products": pa.ListArray.from_arrays(offsets, products.take(pa.array(shown))),
        "scores": pa.ListArray.from_arrays(
            offsets, pa.array(random.normal(2, 1, count * ROWS).astype(np.float32))
        ),
        "origins": pa.ListArray.from_arrays(offsets, pa.array(origins)),
        "propensities": pa.ListArray.from_arrays(offsets, pa.array(np.ones(count * ROWS, np.float32))),
        "rules": pa.array([["sale"] if at % 7 == 0 else [] for at in range(count)]),
        "experiments": pa.array([[]] * count, COLUMNS.field("experiments").type),
        "sides": pa.array([[]] * count, COLUMNS.field("sides").type),
    }
    digits = pa.py_buffer(random.bytes(16 * count).hex().encode())
    ids = pa.StringArray.from_buffers(
        count, pa.py_buffer(np.arange(0, 32 * count + 1, 32, dtype=np.int32)), digits
    )
    at = np.sort(random.integers(begins_ms, begins_ms + span_ms, count))
    texts: dict[str, Any] = {
        "endpoint": ["user_to_products", "product_to_products", "search"],
        "engine_id": ["default", "home", "basket"],
        "snapshot": ["053040c827b6cf19", "a53040c827b6cf1a"],
        "recipe": ["shop"], "level": ["personal", "popular"], "device": ["phone", "desktop"],
        "session": [""], "request_digest": [""], "state": [""], "request": [""],
    }  # fmt: skip
    columns = {
        **lists,
        "schema": pa.array(np.ones(count, np.int16)),
        "service_id": ids,
        "at": pa.array(at),
        "user": users.take(pa.array(random.integers(0, USERS, count))),
        "start": pa.array(np.zeros(count, np.int32)),
        "rows": pa.array(np.full(count, ROWS, np.int32)),
        "took_ms": pa.array(np.ones(count, np.float32)),
    } | {
        name: pa.array(values).take(pa.array(random.integers(0, len(values), count)))
        for name, values in texts.items()
    }
    return pa.table([columns[field.name].cast(field.type) for field in COLUMNS], schema=COLUMNS)


def make_outcomes(answers: pa.Table, random: Any) -> pa.Table:
    """Return outcomes of a tenth of answers, as a table with columns of outcomes."""
    table = answers.take(pa.array(np.sort(random.choice(answers.num_rows, answers.num_rows // 10, False))))
    count = table.num_rows
    places = random.integers(0, ROWS, count)
    flat = table["products"].combine_chunks().flatten()
    types = pa.array(_TYPES).take(pa.array(random.integers(0, len(_TYPES), count)))
    is_seen = np.array(types) == "seen"
    bought = np.array(types) == "checkout"
    single = pa.array(np.arange(count + 1, dtype=np.int32))
    made = {
        "at": pa.array(np.array(table["at"]) + 60_000),
        "type": types,
        "product": pa.array(
            np.where(is_seen, "", np.array(flat.take(pa.array(np.arange(count) * ROWS + places))))
        ),
        "value": pa.array(np.where(bought, 19.5, 0.0)),
        "matched": pa.array(["id"] * count),
        "answered_at": table["at"],
        "places": pa.ListArray.from_arrays(single, pa.array((places + 1).astype(np.int16))),
        "origins": pa.ListArray.from_arrays(single, pa.array(np.zeros(count, np.int8))),
        "sides": pa.array([[]] * count, OUTCOME_COLUMNS.field("sides").type),
    }
    return pa.table(
        [made.get(field.name, table[field.name] if field.name in table.column_names else None).cast(field.type)
         for field in OUTCOME_COLUMNS],
        schema=OUTCOME_COLUMNS,
    )  # fmt: skip


def fill(folder: Path, count: int) -> None:
    """Write answers and their outcomes into files as large as those that the intake merges."""
    artifacts = ArtifactStore.open(folder)
    served, outcomes = ServedLogStore(artifacts), OutcomeStore(artifacts)
    random = np.random.default_rng(7)
    files = []
    for day in range(_FIRST_DAY, _FIRST_DAY + DAYS):
        followed, rows = [], count // DAYS
        parts = -(-rows // MOST_MERGED_ROWS)
        for part in range(parts):
            table = make_answers(
                rows // parts, day * DAY_MS + part * DAY_MS // parts, DAY_MS // parts - 60_000, random
            )
            files += served._write_days(APP, table)
            followed.append(make_outcomes(table, random))
        outcomes.replace_days(APP, {name_day(day): pa.concat_tables(followed)}, {"counts": {}})
    served._commit(APP, served.commit(APP), files)


def main() -> int:
    """Print the figures; the exit code is 1 if a limit is broken."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--answers", type=int, default=10_000_000)
    parser.add_argument("--by", default="total")
    parser.add_argument("--folder", type=Path)
    given = parser.parse_args()
    with TemporaryDirectory() as scratch:
        folder = given.folder or Path(scratch)
        if not (folder / APP).exists():
            # a process of its own, so that the peak of memory is the report's
            subprocess.run(
                [sys.executable, "-c", f"from tests.benchmarks.outcome_report import *;"
                 f"fill(Path({str(folder)!r}), {given.answers})"], check=True,
            )  # fmt: skip
        begin, begin_s = time.perf_counter(), time.process_time()
        until_ms = (_FIRST_DAY + DAYS) * DAY_MS
        report = load_report(ArtifactStore.open(folder), APP, given.by, until_ms - DAYS * DAY_MS, until_ms)
        wall_s, used_s = time.perf_counter() - begin, time.process_time() - begin_s
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(report.sentence)
    print(
        f"by {given.by}, {given.answers:,} answers: {wall_s:.1f} s, {used_s:.1f} s of processor time, "
        f"{peak / 1e9:.2f} GB"
    )
    scale = given.answers / 10_000_000
    return int(wall_s > MOST_S * max(scale, 0.1) or peak > MOST_BYTES)


if __name__ == "__main__":
    raise SystemExit(main())
