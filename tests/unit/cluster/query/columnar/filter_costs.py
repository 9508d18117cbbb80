"""Prints what the filter language costs: `python -m tests.unit.cluster.query.columnar.filter_costs [rows]`. No
test; run by hand."""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Callable
from itertools import accumulate
from typing import Any

from cluster.query.columnar.column_store import ColumnStore
from cluster.query.columnar.filter_evaluation import evaluate_filter
from cluster.query.field_projection import Projection
from cluster.query.language.parser import parse

_BRANDS = [f"Brand{number}" for number in range(200)]


def made_up_record(
    number: int, rng: random.Random, words: list[str], cumulated: list[float]
) -> dict[str, Any]:
    """Make a product of many fields."""
    return {
        "product_id": f"story_{number:06d}-{rng.choice(['red', 'blue'])}",
        "title": " ".join(rng.choices(words, cum_weights=cumulated, k=6)).title(),
        "description": " ".join(rng.choices(words, cum_weights=cumulated, k=40)),
        "brand": rng.choice(_BRANDS),
        "size": rng.choice("SML"),
        "price": round(rng.random() * 100, 2),
        "rating": rng.randint(0, 10) / 2,
        "tags": rng.sample(_BRANDS, 3),
        "categories": [["A", f"B{rng.randint(0, 50)}", f"C{rng.randint(0, 500)}"]],
        "published_at": f"20{rng.randint(10, 24)}-{rng.randint(1, 12):02d}-{rng.randint(1, 28):02d}T00:00:00Z",
        "custom_attributes": {"year": rng.randint(1950, 2024), "promoted": rng.random() < 0.5},
        "location": {"lat": rng.uniform(-90, 90), "lon": rng.uniform(-180, 180)},
    }


def _ms(run: Callable[[], object], times: int = 5) -> float:
    best = float("inf")
    for _ in range(times):
        before = time.process_time()
        run()
        best = min(best, time.process_time() - before)
    return best * 1_000


def _line(name: str, *figures: float) -> None:
    print(f"{name[:64]:66}" + "".join(f"{figure:10.3f}" for figure in figures))


def _usual(words: list[str]) -> list[str]:
    return [
        'brand:Brand7 AND rating:[4 TO *] AND size:("M" OR "S")',
        "tags:Brand7 AND price:[10 TO 20] AND categories:B3",
        f'title:"{words[1]} {words[5]}" AND NOT size:S',
        "custom_attributes.promoted:true AND published_at:[2020 TO 2021]",
        "product_id:/story_.+/",
        "product_id:*9*red",
        f"title:{words[3][:2]}*",
    ]


def at_the_limits(words: list[str]) -> dict[str, str]:
    """Name the dearest filters that the limits allow."""

    def many(count: int, clause: Callable[[int], str]) -> str:
        return " OR ".join(clause(number) for number in range(count))

    return {
        "512 pairs of values": many(
            512, lambda n: f"(brand:{_BRANDS[n % 200]} AND tags:{_BRANDS[n * 7 % 200]})"
        ),
        "450 negated pairs": many(450, lambda n: f"(NOT tags:{_BRANDS[n % 200]} AND NOT size:M)"),
        "1,024 values of one field": many(1_024, lambda n: f"tags:{_BRANDS[n % 200]}"),
        "256 ranges of numbers": many(256, lambda n: f"price:[{n} TO {n + 1}]"),
        "256 ranges of texts": many(256, lambda n: f"product_id:[story_{n} TO story_{n + 1}]"),
        "256 dates": many(256, lambda n: f"published_at:20{10 + n % 14}-{n % 12 + 1:02d}"),
        "200 common words": many(200, lambda n: f"(description:{words[n % 20]} AND size:S)"),
        "16 regular expressions": many(16, lambda n: f"product_id:/.*{n}[0-9]+-.*d/"),
        "16 wildcards in descriptions": many(16, lambda n: f"description:*{words[n][:2]}*"),
        "some of each": " OR ".join(
            (
                many(250, lambda n: f"(brand:{_BRANDS[n % 200]} AND size:M)"),
                many(32, lambda n: f"price:[{n} TO {n + 1}]"),
                many(32, lambda n: f"description:{words[n % 20]}"),
                many(4, lambda n: f"product_id:/.*{n}[0-9]+-.*d/"),
            )
        ),
        "1,024 unknown fields": many(1_024, lambda n: f"x{n}:{n}"),
    }


def main(rows: int) -> None:
    """Measure and print."""
    rng = random.Random(1)
    words = ["".join(rng.choices("abcdefghijklmnopqrstuvwxyz", k=rng.randint(3, 9))) for _ in range(20_000)]
    cumulated = list(accumulate(1 / (at + 1) for at in range(len(words))))
    records = [made_up_record(number, rng, words, cumulated) for number in range(rows)]
    store = ColumnStore()
    _line(f"append {rows} records", _ms(lambda: [store.append(record) for record in records], 1))
    for field in records[0]:
        _line(f"build {field}", _ms(lambda field=field: store.build_columns([field]), 1))
    print("\nfilter: parse, first run, further runs (ms)")
    for text in _usual(words):
        tree = parse(text)
        first = _ms(lambda tree=tree: evaluate_filter(tree, store), 1)
        _line(
            text,
            _ms(lambda text=text: parse(text)),
            first,
            _ms(lambda tree=tree: evaluate_filter(tree, store)),
        )
    tree = parse(_usual(words)[0])
    store.mask(tree)
    _line("a known filter", _ms(lambda: store.mask(tree)))
    store.within(10, 10, 500)
    _line("a circle", _ms(lambda: store.within(10, 10, 500)))
    _line(
        "1,000 times one row replaced, then the first filter", _ms(lambda: _follow(store, records, 1_000), 1)
    )
    print("\nat the limits: parse, run, both (ms)")
    for name, text in at_the_limits(words).items():
        evaluate_filter(parse(text), store)
        parsed, ran = (
            _ms(lambda text=text: parse(text)),
            _ms(lambda text=text: evaluate_filter(parse(text), store)),
        )
        _line(name, parsed, ran - parsed, ran)
    print("\n1,000 projections (ms)")
    for fl in (
        [],
        ["*"],
        ["title", "brand", "price"],
        ["title", "custom_attributes.*"],
        ["custom_attributes.year", "t*"],
    ):
        projection = Projection.of(fl)
        _line(str(fl), _ms(lambda projection=projection: [projection(record) for record in records[:1_000]]))
    print(f"\ncolumns {store.nbytes / 1e6:.0f} MB")


def _follow(store: ColumnStore, records: list[dict[str, Any]], changes: int) -> None:
    tree = parse('brand:Brand7 AND rating:[4 TO *] AND size:("M" OR "S")')
    for number in range(changes):
        store.replace(number, records[number + 1])
        store.mask(tree)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 100_000)
