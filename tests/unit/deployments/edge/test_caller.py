from __future__ import annotations

import pytest

from cluster.errors import Malformed
from deployments.edge.http.credentials import check_single_key, find_key, parse_query


def test_the_header_wins_over_the_query() -> None:
    assert find_key(b"from-header", b"api_key=from-query") == "from-header"
    assert find_key(b" from-header ", b"") == "from-header"
    assert find_key(None, b"x=1&api_key=from-query") == "from-query"
    assert find_key(b"", b"api_key=from-query") == "from-query"


def test_a_request_without_a_key_or_with_an_absurd_one_has_none() -> None:
    assert find_key(None, b"") == ""
    assert find_key(None, b"api_key") == ""
    assert find_key(None, b"my_api_keys=1") == ""
    assert find_key(b"k" * 257, b"api_key=x") == ""
    assert find_key(None, b"api_key=" + b"k" * 257) == ""


def test_the_first_of_repeated_parameters_counts() -> None:
    assert find_key(None, b"api_key=a&api_key=b") == "a"
    assert parse_query(b"a=1&b=&a=2&c=%20x+y") == {"a": "1", "b": "", "c": " x y"}


@pytest.mark.parametrize(
    ("query", "key"),
    [
        (b"api_key=%6bpk_a", "%6bpk_a"),
        (b"%61pi_key=kpk_a&api_key=forged", "forged"),
        (b"my_api_key=kpk_a&api_key=forged;y=1", "forged"),
        (b"api_key=forged;x=1&api_key=forged", "forged"),
    ],
)
def test_a_key_is_read_from_a_query_as_haproxy_reads_it(query: bytes, key: str) -> None:
    check_single_key(query)
    assert find_key(None, query) == key


@pytest.mark.parametrize("separator", ["&", ";", "?"])
def test_two_keys_are_refused_whatever_stands_between_them(separator: str) -> None:
    with pytest.raises(Malformed):
        check_single_key(f"x=1{separator}api_key=forged&api_key=kpk_a".encode())


def test_a_query_with_very_many_fields_or_broken_bytes_hurts_nobody() -> None:
    assert parse_query(b"a=1&" * 5000) == {}
    assert parse_query(b"a=%FF%ZZ&\xff=1")["a"] == "\ufffd%ZZ"
