"""`kiosk bench completions`: completions of many titles, in process and through HAProxy beside the echo.

Titles are crossed from public ones where those are at hand (`KIOSK_TEST_DATA`), else made of syllables. What is typed
are the first 60 % of titles with 0, 1 and 2 typos in equal parts, every request another one. Over HTTP the catalog is
trained and promoted before, so that completions come from the snapshot.

`python -m tests.benchmarks.completions` compares success and speed with other libraries.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import orjson

from actors.language.folding import fold_typed
from actors.retrieval.autocomplete.lookup import CompletionIndex
from actors.retrieval.autocomplete.snapshot_format import arrays_from_index
from tests.benchmarks import bulk, stack
from tests.benchmarks.command_line import BenchCompletionsOptions
from tests.benchmarks.load import Figures, drive, http_request
from tests.benchmarks.quality_sets import data_folder
from tests.benchmarks.scenarios import Line, echo_lines
from tests.benchmarks.typos import Titles, generate, load, with_typos
from tests.benchmarks.unmeasured import NO_FIGURES, guarded

_CASES = 300
_REQUESTS = 2_000
_ROWS = 10
_EVENTS = 100_000
_SETTLE_S = 35
_LIMIT_S = 120
_SEEDS = ("goodbooks", "wikipedia_movies", "world_cities")


def titles_of(count: int) -> Titles:
    """Make titles."""
    try:
        return generate(count, [load(data_folder(), name) for name in _SEEDS])
    except (OSError, LookupError):
        rng = random.Random(count)
        syllables = ["".join(pair) for pair in zip("bcdfghklmnprstvz" * 5, "aeiou" * 16, strict=True)]
        words = ["".join(rng.choices(syllables, k=rng.randint(1, 4))) for _ in range(20_000)]
        texts = list({" ".join(rng.choices(words, k=rng.randint(2, 6))): None for _ in range(2 * count)})[
            :count
        ]
        return Titles(f"made of syllables {count:,}", texts, [1e6 / rank for rank in range(1, count + 1)])


def in_process(titles: Titles) -> Iterator[Line]:
    """Measure only the index: one thread, no API replica, no products."""
    count = len(titles.texts)
    began = time.perf_counter()
    index = CompletionIndex.of(titles.texts, np.array(titles.popularity))
    yield Line(f"index of {count:,} titles: built in", time.perf_counter() - began, "s")
    size = sum(array.nbytes for array in arrays_from_index(index).values())
    yield Line("index: memory per million titles, shared by replicas", size / count, "MB")
    limit = 2.0 if count <= 100_000 else 8.0
    for typos in range(5):
        typed = [fold_typed(case.typed) for case in with_typos(titles, typos, _CASES)]
        p50, p99 = _looked_up(index, typed)
        bound = {2: limit, 4: 3 * limit}.get(typos)
        yield Line(f"look-up, {typos} typos: p50", p50, "ms", bound, note=f"p99 {p99:.1f} ms")


def served(running: stack.Stack, titles: Titles, load_of_echo: Figures, recipe: str) -> Iterator[Line]:
    """Measure completions over HTTP."""
    count = len(titles.texts)
    with tempfile.TemporaryDirectory(prefix="kiosk-titles-") as folder:
        files = Path(folder)
        _write(files / "products.jsonl", titles)
        bulk.write_interactions(files / "events.parquet", _EVENTS, count, int(time.time() * 1000) - 60_000)
        bulk.ingest(running, files / "products.jsonl", "product")
        bulk.ingest(running, files / "events.parquet", "interaction")
    if recipe:
        time.sleep(_SETTLE_S)
        yield from _trained(running, recipe)
    requests = _requests(running, titles)
    yield Line("first completion after", _first(running, titles.texts[-1]), "s", note="loading, mapping")
    drive(requests, port=running.port, connections=4, seconds=2)
    rest = drive(requests, port=running.port, connections=1, seconds=4)
    loaded = drive(requests, port=running.port, connections=32, seconds=5)
    if rest.failures or loaded.failures:
        raise RuntimeError(f"answers failed: {rest} {loaded}")
    bounded = count <= 100_000
    note = f"p99 {loaded.p99_ms:.1f} ms"
    yield Line(
        "completions: p50 at rest",
        rest.p50_ms,
        "ms",
        3.0 if bounded else None,
        note=f"p99 {rest.p99_ms:.1f} ms",
    )
    yield Line(
        "completions: throughput",
        loaded.per_second,
        "/s",
        1_000 if bounded else None,
        at_most=False,
        note=note,
    )
    yield Line("completions: throughput / echo", loaded.per_second / load_of_echo.per_second, "x")
    yield Line("new title completed after", _new_title(running), "s", 1.0)
    yield Line("whole stack with this data, PSS", running.pss_mb() / 1024, "GiB")


def completion_lines(options: BenchCompletionsOptions) -> Iterator[Line]:
    """Measure the index in this process, then completions over HTTP beside the echo."""
    titles, beside = titles_of(options.titles), [NO_FIGURES]

    def echo() -> Iterator[Line]:
        with stack.bare_echo(options.port) as port:
            _, beside[0], measured = echo_lines(port, "bare echo")
        yield from measured

    def over_http() -> Iterator[Line]:
        with stack.kiosk(options.port) as running:
            yield from served(running, titles, beside[0], options.recipe)

    yield from guarded("index in process", partial(in_process, titles))
    if options.in_process:
        return
    yield from guarded("bare echo", echo)
    yield from guarded("completions over HTTP", over_http)


def _looked_up(index: CompletionIndex, typed: Sequence[str]) -> tuple[float, float]:
    for query in typed[:30]:
        index.look_up(query, _ROWS)
    took = []
    for query in typed:
        began = time.perf_counter()
        index.look_up(query, _ROWS)
        took.append((time.perf_counter() - began) * 1e3)
    return float(np.percentile(took, 50)), float(np.percentile(took, 99))


def _write(path: Path, titles: Titles) -> None:
    with path.open("wb") as stream:
        for number, text in enumerate(titles.texts):
            product = {
                "product_id": f"p{number}",
                "title": text,
                "url": f"https://shop.example/p/{number}",
                "price": number % 200 + 0.5,
                "type": "ware",
            }
            stream.write(orjson.dumps(product) + b"\n")


def _requests(running: stack.Stack, titles: Titles) -> list[bytes]:
    share = _REQUESTS // 3
    cases = [case.typed for typos in range(3) for case in with_typos(titles, typos, share)]
    random.Random(5).shuffle(cases)
    return [
        http_request(
            "POST",
            "/v1/search/autocomplete",
            body=json.dumps({"q": typed, "fl": ["url"]}).encode(),
            headers={"X-API-KEY": running.secret_key},
            port=running.port,
        )
        for typed in cases
    ]


def _trained(running: stack.Stack, recipe: str) -> Iterator[Line]:
    began = time.monotonic()
    done = subprocess.run(
        [*stack.KIOSK, "train", "development", "--recipe", recipe, "--promote", "--json"],
        cwd=stack.ROOT,
        env={**os.environ, "KIOSK_DATA_DIR": str(running.data_dir)},
        capture_output=True,
        timeout=600,
    )
    if done.returncode:
        raise RuntimeError(f"kiosk train failed: {(done.stderr or done.stdout).decode()[-1500:]}")
    yield Line(f"kiosk train --recipe {recipe} --promote", time.monotonic() - began, "s")
    time.sleep(5)


def _first(running: stack.Stack, title: str) -> float:
    began = time.monotonic()
    while not _completed(running, title):
        if time.monotonic() - began > _LIMIT_S:
            raise RuntimeError(f"the engine did not know all titles within {_LIMIT_S} s")
        time.sleep(0.2)
    return time.monotonic() - began


def _new_title(running: stack.Stack) -> float:
    product = {"product_id": "new-1", "title": "Zephyr quince lantern"}
    began = time.monotonic()
    running.call("POST", "/v1/products", {"data": [product]})
    while not _completed(running, product["title"]):
        if time.monotonic() - began > _LIMIT_S:
            raise RuntimeError("a new title was never completed")
        time.sleep(0.01)
    return time.monotonic() - began


def _completed(running: stack.Stack, title: str) -> bool:
    try:
        reply: Any = running.call("POST", "/v1/search/autocomplete", {"q": title})
    except OSError:  # still loading: 503
        return False
    return title in {entry["text"] for entry in reply["data"]["completions"]["title"]}
