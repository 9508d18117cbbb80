"""Rows of one order joined to baskets: in any sequence, within bounds, and the same after an interruption."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from jobs.ingest.files.sources import SourceFile
from jobs.ingest.files.unreadable_row import Row, UnreadableRow
from jobs.ingest.mappings import row_baskets
from jobs.ingest.mappings.mapping import FieldMap
from jobs.ingest.mappings.row_baskets import BasketFiles

RULES = ("type:=checkout", "order_id=order", "user_id=user", "product_ids=item", "timestamp=at")
SOURCE = SourceFile("orders.csv", "csv", 0, 0, None)


class ListedRows:
    """Rows of a list as a file."""

    def __init__(self, rows: Sequence[Row]) -> None:
        self._rows = rows

    def find(self, address: str) -> list[SourceFile]:
        return [SOURCE]

    def chunks(self, source: SourceFile, size: int, skip: int = 0) -> Iterator[tuple[int, Sequence[Row]]]:
        for first in range(skip, len(self._rows), size):
            yield first, self._rows[first : first + size]


def line(
    order: Any, item: str, user: str = "u", at: str = "2010-12-09T19:23:00Z", **more: Any
) -> dict[str, Any]:
    return {"order": order, "user": user, "item": item, "at": at, **more}


def join(
    rows: Sequence[Row], *rules: str, most_open: int = 1_000, size: int = 100, skip: int = 0
) -> list[Row]:
    files = BasketFiles(ListedRows(rows), FieldMap.parse(rules or RULES, "interaction"), most_open=most_open)
    return [row for _, chunk in files.chunks(SOURCE, size, skip) for row in chunk]


def products(rows: Sequence[Row]) -> list[list[str]]:
    return [row["product_ids"] for row in rows if not isinstance(row, UnreadableRow)]


def test_lines_of_an_order_become_one_purchase() -> None:
    rules = (*RULES, "quantities=n", "revenue=sum:number(,)")
    rows = [
        line("a", "p1", n="2", sum="1,50", at="2010-12-09T19:24:00Z"),
        line("a", "p2", n="1", sum="2,25"),
        line("b", "p1", n="1", sum="0,75"),
        line("a", "p1", n="3", sum="2,25"),
    ]
    first, second = join(rows, *rules)
    assert first == {
        "type": "checkout", "user_id": "u", "product_ids": ["p1", "p2"], "quantities": [5, 1], "revenue": 6.0,
        "timestamp": "2010-12-09T19:23:00.000Z",
    }  # fmt: skip
    assert second["product_ids"] == ["p1"]  # type: ignore[index]


def test_without_order_numbers_user_and_time_decide() -> None:
    rules = (
        "type:=checkout",
        "order_id:=same user and time",
        "user_id=user",
        "product_ids=item",
        "timestamp=at",
    )
    rows = [line("", "a"), line("", "b", user="v"), line("", "c"), line("", "d", at="2010-12-09T19:23:01Z")]
    assert products(join(rows, *rules)) == [["a", "c"], ["b"], ["d"]]
    assert products(join([{"user": "u", "item": "x"}] * 2, *rules[:-1])) == [["x"], ["x"]], (
        "without a time nothing joins"
    )


def test_an_unsorted_file_gives_the_orders_of_the_sorted_one() -> None:
    rows = [line(f"o{at // 4}", f"p{at}", user=f"u{at // 4 % 7}") for at in range(2_000)]
    mixed = random.Random(5).sample(rows, len(rows))
    expected = {tuple(sorted(basket)) for basket in products(join(rows))}
    assert len(expected) == 500
    assert {tuple(sorted(basket)) for basket in products(join(mixed))} == expected


def test_the_number_of_open_orders_is_bounded_and_split_orders_are_counted() -> None:
    rows = [line(f"o{at % 50}", f"p{at}") for at in range(100)]
    assert len(join(rows, most_open=50)) == 50
    files = BasketFiles(ListedRows(rows), FieldMap.parse(RULES, "interaction"), most_open=10)
    assert sum(len(chunk) for _, chunk in files.chunks(SOURCE, 7)) == 100
    assert files.report.reopened == 50
    assert any("sort the file by order" in text for text in files.report.warnings())


def test_long_orders_and_long_texts_do_not_fill_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_baskets, "MOST_OPEN_ROWS", 20)
    monkeypatch.setattr(row_baskets, "MOST_PRODUCTS", 6)
    assert [len(basket) for basket in products(join([line("a", f"p{at}") for at in range(15)]))] == [6, 6, 3]
    rules = (*RULES, "context=more")
    rows = [line(f"o{at % 5}", f"p{at}", more={"page": "x" * 5_000}) for at in range(10)]
    assert len(join(rows, *rules)) > 5, "orders with long texts close early"


@pytest.mark.parametrize(
    "broken",
    [
        {"user": ""}, {"item": ""}, {"at": "soon"}, {"n": "-1"}, {"n": "x"}, {"order": ""}, {"n": "nan"},
        {"item": None},
    ],
)  # fmt: skip
def test_a_broken_line_affects_no_other(broken: dict[str, Any]) -> None:
    rules = (*RULES, "quantities=n")
    rows: list[Row] = [line("a", "p1", n="1"), {**line("a", "p2", n="1"), **broken}, line("a", "p3", n="1")]
    rows.append(UnreadableRow("not UTF-8", "x"))
    basket = join(rows, *rules)
    assert ["p1", "p3"] in [row.get("product_ids") for row in basket if isinstance(row, dict)]
    assert len(basket) == 3


def test_a_continued_ingest_finds_the_same_orders_at_the_same_places() -> None:
    rows = [line(f"o{random.Random(at).randrange(60)}", f"p{at}") for at in range(400)]
    whole = join(rows, most_open=20, size=10)
    assert [join(rows, most_open=20, size=10, skip=skip) for skip in (0, 10, 30)] == [
        whole,
        whole[10:],
        whole[30:],
    ]


def test_chunks_of_large_orders_end_by_bytes_and_are_the_same_after_an_interruption() -> None:
    rows = [line(f"o{at % 40}", f"product-{at:06}", user=f"u{at % 40}") for at in range(8_000)]
    files = BasketFiles(ListedRows(rows), FieldMap.parse(RULES, "interaction"), chunk_bytes=20_000)
    whole = list(files.chunks(SOURCE, 2_000))
    assert len(whole) > 5
    assert max(len(str(list(chunk))) for _, chunk in whole) < 30_000
    assert sum(len(chunk) for _, chunk in whole) == 40
    for first, _ in whole:
        assert list(files.chunks(SOURCE, 2_000, first)) == [
            rows_of_chunk for rows_of_chunk in whole if rows_of_chunk[0] >= first
        ]


def test_the_number_of_a_row_is_that_of_its_first_line(tmp_path: Path) -> None:
    rows = [line("a", "p"), line("b", "p"), line("a", "q"), line("c", "p")]
    files = BasketFiles(ListedRows(rows), FieldMap.parse(RULES, "interaction"))
    ((_, chunk),) = files.chunks(SOURCE, 100)
    assert (chunk.numbers, chunk.lines) == ((0, 1, 3), 4)
