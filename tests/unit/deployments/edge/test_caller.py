from __future__ import annotations

from deployments.edge.http.caller import find_key, parse_query


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


def test_a_query_with_very_many_fields_or_broken_bytes_hurts_nobody() -> None:
    assert parse_query(b"a=1&" * 5000) == {}
    assert parse_query(b"a=%FF%ZZ&\xff=1")["a"] == "\ufffd%ZZ"
