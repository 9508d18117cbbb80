from __future__ import annotations

import re

import pytest

from cluster.records.field_types.fields import PRODUCT_ID
from jobs.feeds.article_addresses import article_id, canonical_address, is_same_host
from jobs.feeds.polite_fetcher import read_retry_after

PLACE = "https://news.example.com/feed/rss.xml"


@pytest.mark.parametrize(
    ("address", "canonical"),
    [
        ("http://News.Example.com:80/a?utm_source=rss&id=7#top", "https://news.example.com/a?id=7"),
        ("/a b/ü", "https://news.example.com/a%20b/%C3%BC"),
        ("/a%20b", "https://news.example.com/a%20b"),
        ("../a", "https://news.example.com/a"),
        ("?p=1", "https://news.example.com/feed/rss.xml?p=1"),
        ("//bücher.example/", "https://xn--bcher-kva.example/"),
        ("https://news.example.com", "https://news.example.com/"),
        ("https://ada@news.example.com/", ""),
        ("https://[::1", ""),
        ("https://x:99999/", ""),
        ("javascript:alert(1)", ""),
        ("mailto:a@b", ""),
        ("https://" + "ü" * 300 + ".example/", ""),
    ],
)  # fmt: skip
def test_equal_addresses_have_one_form(address: str, canonical: str) -> None:
    assert canonical_address(address, PLACE) == canonical
    assert not canonical or canonical_address(canonical) == canonical


@pytest.mark.parametrize(
    "name", ["tag:a,2026:1", "_x:y", "a:\x00\n", "urn:" + "ü" * 900, "7", "http://x/\u2028"]
)
def test_ids_are_valid_and_differ(name: str) -> None:
    first, second = article_id(name, "", "feed"), article_id(name + "1", "", "feed")
    assert re.fullmatch(PRODUCT_ID, first)
    assert len(first) <= 512
    assert first != second


def test_only_a_uri_is_unique_beyond_its_feed() -> None:
    assert article_id("7", "https://x.example/a", "feed") == "https://x.example/a"
    assert article_id("7", "", "feed") != article_id("7", "", "other")
    assert article_id("tag:x:7", "https://x.example/a", "feed") == "tag:x:7"


def test_hosts_with_and_without_www() -> None:
    assert is_same_host("https://www.x.example/a", "https://x.example/b")
    assert not is_same_host("https://y.x.example/a", "https://x.example/b")


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("120", 120), ("Wed, 15 Nov 2023 00:00:00 GMT", 6_400), ("Tue, 14 Nov 2023 00:00:00 GMT", 1), ("", 60),
        ("soon", 60), ("9" * 400, 604_800), ("-5", 60), ("Wed, 15 Nov 99999 00:00:00 GMT", 60),
    ],
)  # fmt: skip
def test_how_long_a_host_wants_to_rest(text: str, seconds: float) -> None:
    assert read_retry_after(text, 1_700_000_000_000) == seconds
