"""Dates as people write them, in seven languages."""

from __future__ import annotations

import pytest

from jobs.ingest.mappings.dates import detect_date_orders, parse_date, parse_written_date


@pytest.mark.parametrize(
    "text",
    [
        "Friday, January 4, 2019", "January 4th, 2019", "4 Jan. 2019", "Freitag, 4. Januar 2019", "4 janvier 2019",
        "4 de enero de 2019", "4 gennaio 2019", "4 januari 2019", "4 de janeiro de 2019",
    ],
)  # fmt: skip
def test_written_dates(text: str) -> None:
    at = parse_written_date(text)
    assert at is not None
    assert at.isoformat() == "2019-01-04T00:00:00+00:00"


@pytest.mark.parametrize(
    "text", ["", "January", "Smarch 4, 2019", "99 January 2019", "4 Jan 19", "x" * 10_000]
)
def test_other_texts_are_no_dates(text: str) -> None:
    assert parse_written_date(text) is None
    assert parse_date(text, "day-first") is None


def test_the_order_of_day_and_month_counts() -> None:
    for order, day in (("day-first", "2010-12-09"), ("month-first", "2010-09-12")):
        at = parse_date("09/12/2010 7:23 PM", order)  # type: ignore[arg-type]
        assert at is not None
        assert at.isoformat() == f"{day}T19:23:00+00:00"
    assert parse_date("31.02.2010", "day-first") is None
    assert parse_date("1.2.2010 24:00", "day-first") is None


@pytest.mark.parametrize(
    ("texts", "orders"),
    [
        (["01/02/2010", "13/02/2010"], ("day-first",)),
        (["01/02/2010", "02/13/2010"], ("month-first",)),
        (["01.02.2010"], ("day-first",)),
        (["01/02/2010"], ("day-first", "month-first")),
        (["01/02/2010", "soon"], ()),
        (["13/13/2010"], ()),
        ([], ()),
    ],
)
def test_the_values_decide_the_order(texts: list[str], orders: tuple[str, ...]) -> None:
    assert detect_date_orders(texts) == orders
