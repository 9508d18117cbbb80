"""Extracts of wiki articles in rows: marks of bold and italic text, and dates as people write them."""

from __future__ import annotations

import gzip
import json

import pytest

from jobs.articles.tables import article_from_row
from jobs.ingest.mappings.dates import parse_written_date
from tests.benchmarks.quality_sets import data_folder


def test_marks_of_wiki_text_are_removed_and_apostrophes_stay() -> None:
    story = article_from_row(
        {
            "id": "1", "title": "''BBC jam'' ends", "summary": "The '''last''' day",
            "text": "The shops' own '''''jam'''''\n\nIt's ''BBC jam'', rock 'n' roll.",
        }
    )  # fmt: skip
    assert (story.title, story.summary) == ("BBC jam ends", "The last day")
    assert story.parts[0].text == "The shops' own jam\n\nIt's BBC jam, rock 'n' roll."


@pytest.mark.parametrize(
    ("more", "published"),
    [
        ({}, "2019-01-04T00:00:00.000Z"),
        ({"date": "2019-01-05"}, "2019-01-05"),
        ({"date": "Saturday, January 5, 2019"}, "2019-01-05T00:00:00.000Z"),
        ({"timestamp": 1546646400}, "2019-01-05T00:00:00.000Z"),
    ],
)
def test_a_dateline_is_a_date_and_no_text(more: dict[str, object], published: str) -> None:
    story = article_from_row(
        {"id": "1", "title": "x", "text": "Friday, January 4, 2019\n\nA bridge fell.", **more}
    )
    assert story.published == published
    assert story.parts[0].text == "A bridge fell."


def test_a_text_that_begins_with_a_sentence_stays_whole() -> None:
    text = "On Friday, January 4, 2019 a bridge fell.\n\nNobody was hurt."
    assert article_from_row({"id": "1", "title": "x", "text": text}).parts[0].text == text
    assert article_from_row({"id": "1", "title": "x", "text": "January 4, 2019"}).parts == ()


def test_wikinews_has_no_datelines_and_no_marks_in_its_texts() -> None:
    paths = [data_folder() / "wikinews" / name for name in ("articles.jsonl.gz", "old_50.jsonl.gz")]
    if not all(path.exists() for path in paths):
        pytest.skip(f"public data set wikinews is not in {data_folder()} (set KIOSK_TEST_DATA)")
    rows = [json.loads(line) for path in paths for line in gzip.decompress(path.read_bytes()).splitlines()]
    assert sum("''" in row["text"] for row in rows) > 10
    stories = [article_from_row(row) for row in rows]
    assert not [story.id for story in stories for part in story.parts if "''" in part.text]
    firsts = [part.text.partition("\n")[0] for story in stories for part in story.parts]
    assert not list(filter(parse_written_date, firsts))
    assert sum(parse_written_date(row["text"].partition("\n")[0]) is not None for row in rows) > 100
