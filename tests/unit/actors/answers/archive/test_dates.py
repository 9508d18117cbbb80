from __future__ import annotations

from datetime import date

import pytest

from actors.answers.archive.dates import DateRange, parse_date_range

EPOCH = date(1970, 1, 1).toordinal()


def days(first: str, last: str) -> DateRange:
    return DateRange(
        first=date.fromisoformat(first).toordinal() - EPOCH, last=date.fromisoformat(last).toordinal() - EPOCH
    )


@pytest.mark.parametrize(
    ("question", "period"),
    [
        ("Who won in 2019?", days("2019-01-01", "2019-12-31")),
        ("floods in March 2024", days("2024-03-01", "2024-03-31")),
        ("What happened on 4 January 2019?", days("2019-01-04", "2019-01-04")),
        ("What happened on January 4, 2019?", days("2019-01-04", "2019-01-04")),
        ("2024-02 elections", days("2024-02-01", "2024-02-29")),
        ("Hochwasser im Dezember 2023", days("2023-12-01", "2023-12-31")),
        ("lluvia el 3 de marzo de 2024", days("2024-03-03", "2024-03-03")),
        ("latest news on the mill", DateRange(recent=True)),
        ("aktuelle Lage am Fluss", DateRange(recent=True)),
        ("How deep is the river?", DateRange()),
        ("What may the council decide?", DateRange()),
        ("February 31, 2024", DateRange()),
    ],
)
def test_a_question_tells_when_it_is_about(question: str, period: DateRange) -> None:
    assert parse_date_range(question) == period
