"""JSON that stays in memory takes its length, not the buffer it was written into."""

from __future__ import annotations

import tracemalloc

import orjson

from cluster.compact_json import dump_compact

RECORDS = [{"product_id": f"p{n}", "title": "Oak chair", "price": n} for n in range(500)]


def test_the_json_is_the_same_and_takes_no_more_than_its_length() -> None:
    tracemalloc.start()
    try:
        kept = [dump_compact(record) for record in RECORDS]
        allocated, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert kept == [orjson.dumps(record) for record in RECORDS]
    assert allocated < 200 * len(RECORDS)
