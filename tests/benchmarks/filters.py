"""`python -m tests.benchmarks.filters [products]`: compare filters over our columns with polars expressions.

Both hold the same generated products. A filter is timed from its parsed form to a mask of all rows, one thread, as
processor time: ours with its columns in place and without its cache of masks, polars on a frame in memory. A change
replaces one product: ours in place, polars by a new frame, because a frame never changes.
"""

from __future__ import annotations

import os

os.environ["POLARS_MAX_THREADS"] = "1"

import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import polars as pl

from actors.recommender.state.catalog import Catalog
from cluster.query.columnar.filter_evaluation import evaluate_filter
from cluster.query.language.parser import parse
from tests.benchmarks.recommender_inprocess import Shop

PRODUCTS = 100_000
REPEATS = 51
FIELDS = ("product_id", "title", "brand", "tags", "price", "rating")
FILTERS: dict[str, tuple[str, Any]] = {
    "a range of numbers": ("price:[10 TO 20]", pl.col("price").is_between(10, 20)),
    "one text": ("brand:brand-3", pl.col("brand") == "brand-3"),
    "one value of a list": ("tags:tag-3", pl.col("tags").list.contains("tag-3")),
    "three clauses": (
        "brand:brand-3 AND tags:tag-3 AND rating:[1 TO *]",
        (pl.col("brand") == "brand-3") & pl.col("tags").list.contains("tag-3") & (pl.col("rating") >= 1),
    ),
    "a word of a title": ("title:4711", pl.col("title").str.contains(r"(?:^|\W)4711(?:\W|$)")),
}


def main(arguments: list[str]) -> None:
    """Print processor time in milliseconds, the median of many."""
    count = int(arguments[0]) if arguments else PRODUCTS
    shop = Shop(count)
    products = [shop.product(number) for number in range(count)]
    catalog = Catalog()
    for product in products:
        catalog.put(product)
    frame = pl.DataFrame([{name: product[name] for name in FIELDS} for product in products])
    print(f"{'filter':24}{'ours ms':>10}{'polars ms':>12}{'rows':>10}")
    for name, (text, expression) in FILTERS.items():
        node = parse(text)
        mask = catalog.filter_mask(node)
        matches = frame.select(expression).to_series()
        assert mask.tolist() == matches.to_list(), name
        ours = measure(lambda node=node: evaluate_filter(node, catalog.columns))  # type: ignore[misc]
        other = measure(lambda compared=expression: frame.select(compared).to_series().to_numpy())  # type: ignore[misc]
        print(f"{name:24}{ours:10.3f}{other:12.3f}{int(mask.sum()):10}")
    changed = {**products[7], "price": 7.5}
    node = parse("price:[10 TO 20]")

    def change_ours() -> None:
        catalog.put(changed)
        catalog.filter_mask(node)

    def change_polars() -> None:
        row = pl.DataFrame([{name: changed[name] for name in FIELDS}])
        frame.update(row, on="product_id").select(FILTERS["a range of numbers"][1])

    print(f"{'a change, then a filter':24}{measure(change_ours):10.3f}{measure(change_polars):12.3f}")


def measure(act: Callable[[], object]) -> float:
    """Take the median processor time in milliseconds."""
    act()
    times_s = []
    for _ in range(REPEATS):
        started = time.process_time()
        act()
        times_s.append(time.process_time() - started)
    return statistics.median(times_s) * 1000


if __name__ == "__main__":
    main(sys.argv[1:])
