"""`kiosk bench sizes`: the cost of a request as the catalog grows, in this process, on one core.

There are three events for every product at every size. A request may cost at most as many times more as
there are more products; the table gives the time a request takes for every 100,000 products. It begins at 100,000:
smaller catalogs fit the processor's cache and are cheaper than in proportion.
"""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from rich.console import Console
from rich.table import Table

from actors.recommender.messages import UserQuery
from actors.serving import dispatch
from tests.benchmarks.command_line import BenchSizesOptions
from tests.benchmarks.recommender_inprocess import NOW_MS, USERS, Shop, queries
from tests.benchmarks.unmeasured import reason_of

EVENTS_A_PRODUCT = 3
_MEASURED = (
    "user_to_products 10, fl []",
    "user_to_products 10, fq 3 clauses",
    "user_to_trending 5",
    "user_to_categories 10 x 5, fq + boost",
    "product_to_products 10",
)
_TOLERANCE = 1.25
"Caches end somewhere: so many times more than in proportion is still called linear."
_SMALLEST_MS = 0.5
"Below this a request's fixed cost hides what grows."


def print_sizes(options: BenchSizesOptions) -> int:
    """Measure every size and print one table.

    Returns:
        1 when a cost grows faster than the catalog or a size could not be measured, else 0
    """
    costs: dict[int, dict[str, float]] = {}
    reasons: dict[int, str] = {}
    for size in options.sizes:
        try:
            costs[size] = dict(_costs(size))
        except Exception as error:  # noqa: BLE001 - what can't be measured is a line, see `unmeasured`
            reasons[size] = reason_of(error)
            Console(stderr=True).print(f"{size:,} products: not measured, {reasons[size]}", markup=False)
    rows = list(_size_rows(costs))
    document = json.dumps(
        {
            "sizes": list(costs),
            "requests": rows,
            "not_measured": [{"size": size, "reason": reason} for size, reason in reasons.items()],
        },
        indent=2,
    )
    if options.out:
        options.out.write_text(document + "\n")
    if options.as_json:
        print(document)
    elif rows:
        Console(width=140).print(_build_table(list(costs), rows))
    return int(bool(reasons) or not all(row["kept"] for row in rows))


def _size_rows(costs: dict[int, dict[str, float]]) -> Iterator[dict[str, Any]]:
    sizes = list(costs)
    for label in costs[sizes[0]] if sizes else ():
        request, _, state = label.partition("|")
        values = [costs[size][label] for size in sizes]
        slope = (values[-1] - values[0]) / max(sizes[-1] - sizes[0], 1) * 100_000
        yield {
            "request": request,
            "state": state,
            "p50_ms": values,
            "ms_per_100000": slope,
            "kept": is_linear(sizes, values),
        }


def _build_table(sizes: Sequence[int], rows: Sequence[dict[str, Any]]) -> Table:
    headings = [f"{size:,}" for size in sizes]
    table = Table("request", "", *headings, "ms / 100,000", "", title="p50 ms by products")
    for row in rows:
        mark = "[green]kept[/]" if row["kept"] else "[red]missed[/]"
        values = [f"{value:.3f}" for value in row["p50_ms"]]
        table.add_row(row["request"], row["state"], *values, f"{row['ms_per_100000']:.3f}", mark)
    return table


def is_linear(sizes: Sequence[int], values: Sequence[float]) -> bool:
    """Tell whether no step up costs more than in proportion."""
    steps = zip(zip(sizes, values, strict=True), zip(sizes[1:], values[1:], strict=True), strict=False)
    return all(
        later <= _TOLERANCE * more / size * max(value, _SMALLEST_MS) for (size, value), (more, later) in steps
    )


def _costs(size: int) -> Iterator[tuple[str, float]]:
    progress = Console(stderr=True)
    shop = Shop(size, size * EVENTS_A_PRODUCT)
    progress.print(f"{size:,} products: loaded in {shop.load():.0f} s, their events in {shop.learn():.0f} s")
    recents = shop.recents()
    yield from _measure_queries(shop, recents, "live")
    with TemporaryDirectory() as folder:
        shop.train(Path(folder))
        yield from _measure_queries(shop, recents, "with a snapshot")


def _measure_queries(shop: Shop, recents: list[list[bytes]], label: str) -> Iterator[tuple[str, float]]:
    for name, query in queries(shop.size):
        if name in _MEASURED:
            # an anchor everybody knows: the way through the content of all products is asked by `live`
            query = replace(query, anchors=("p7",)) if query.anchors else query
            yield f"{name}|{label}", _p50(shop, query, recents)


def _p50(shop: Shop, query: UserQuery, recents: list[list[bytes]], repeats: int = 60) -> float:
    took = []
    for turn in range(repeats + 5):
        began = time.perf_counter()
        dispatch.answer(shop.recommender, query, recents[turn % USERS], (), NOW_MS)
        took.append((time.perf_counter() - began) * 1000)
    return statistics.median(took[5:])
