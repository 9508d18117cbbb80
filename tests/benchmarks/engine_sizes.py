"""`kiosk bench sizes [sizes...]`: what a request costs as the catalog grows, in this process, on one core.

There are three events for every product at every size. A request may cost at most as many times more as
there are more products; the table gives the time a request takes for every 100,000 products. It begins at 100,000:
smaller catalogs fit the processor's cache and are cheaper than in proportion.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from rich.console import Console
from rich.table import Table

from actors.recommender.messages import UserQuery
from actors.serving import dispatch
from tests.benchmarks.recommender_inprocess import NOW_MS, READERS, Shop, queries
from tests.benchmarks.unmeasured import reason_of

SIZES = (100_000, 300_000, 1_000_000)
EVENTS_A_PRODUCT = 3
_ASKED = (
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


def main(arguments: Sequence[str]) -> int:
    """Measure every size and print one table; 1 when something grows faster than the catalog, 2 when a size could not
    be measured."""
    missing = False
    parser = argparse.ArgumentParser(prog="kiosk bench sizes", description=__doc__)
    parser.add_argument("sizes", nargs="*", type=int, default=list(SIZES), help="products, several numbers")
    costs: dict[int, dict[str, float]] = {}
    for size in parser.parse_args(arguments).sizes:
        try:
            costs[size] = dict(_costs(size))
        except Exception as error:  # noqa: BLE001 - what can't be measured is a line, see `unmeasured`
            Console(stderr=True).print(f"{size:,} products: not measured, {reason_of(error)}", markup=False)
            missing = True
    sizes = list(costs)
    if not sizes:
        return 2
    table = Table(
        "request", "", *[f"{size:,}" for size in sizes], "ms / 100,000", "", title="p50 ms by products"
    )
    missed = 0
    for name in costs[sizes[0]]:
        values = [costs[size][name] for size in sizes]
        linear = is_linear(sizes, values)
        missed += not linear
        slope = (values[-1] - values[0]) / max(sizes[-1] - sizes[0], 1) * 100_000
        table.add_row(
            *name.split("|"), *[f"{value:.3f}" for value in values], f"{slope:.3f}",
            "[green]kept[/]" if linear else "[red]missed[/]",
        )  # fmt: skip
    Console(width=140).print(table)
    return 1 if missed else 2 if missing else 0


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
        if name in _ASKED:
            # an anchor everybody knows: the way through the content of all products is asked by `live`
            query = replace(query, anchors=("p7",)) if query.anchors else query
            yield f"{name}|{label}", _p50(shop, query, recents)


def _p50(shop: Shop, query: UserQuery, recents: list[list[bytes]], repeats: int = 60) -> float:
    took = []
    for turn in range(repeats + 5):
        began = time.perf_counter()
        dispatch.answer(shop.recommender, query, recents[turn % READERS], (), NOW_MS)
        took.append((time.perf_counter() - began) * 1000)
    return statistics.median(took[5:])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
