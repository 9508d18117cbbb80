"""Redirect addresses, for whatever text there is."""

from __future__ import annotations

from urllib.parse import parse_qsl, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deployments.archive.oauth.redirects import add_answer, describe_target, find_fault, fingerprint

PIECES = st.sampled_from(
    [
        "http:", "https:", "//", "/", "\\", "@", ":", "#", "?", "localhost", "127.0.0.1", "[::1]", "evil.example",
        ":80", ":8080", "javascript:", "a", ".", "..", "%2f", "*", "app:", "é", "\n", "[", "]",
        "[zz]", "?code=", "&iss",
    ]
)  # fmt: skip
ADDRESSES = st.lists(PIECES, max_size=8).map("".join)


@given(ADDRESSES)
def test_an_accepted_redirect_uri_leads_to_its_visible_host(uri: str) -> None:
    if find_fault(uri):
        return
    parts = urlsplit(uri)
    assert "@" not in parts.netloc
    assert not parts.fragment
    assert uri.isascii()
    assert uri.isprintable()
    if parts.scheme == "http":
        assert parts.hostname in ("localhost", "127.0.0.1", "::1")
    if parts.scheme == "https":
        assert parts.hostname
    assert parts.scheme not in ("javascript", "data")
    assert describe_target(uri)


@given(ADDRESSES, ADDRESSES)
def test_two_addresses_match_when_equal_or_alike_but_for_a_loopback_port(first: str, second: str) -> None:
    if find_fault(first) or find_fault(second):
        return
    left, right = urlsplit(first), urlsplit(second)
    loopback = first.startswith("http:") and second.startswith("http:")
    same_but_port = loopback and (left.hostname, left.path, left.query) == (
        right.hostname,
        right.path,
        right.query,
    )
    if fingerprint(first) == fingerprint(second):
        assert first == second or same_but_port
    if first == second:
        assert fingerprint(first) == fingerprint(second)


@given(
    st.text(max_size=40),
    st.sampled_from(["https://h/cb", "https://h/cb?", "https://h/cb?a=b", "app:/x?y=%20&"]),
)
def test_an_answer_reads_back_and_what_stood_there_stays(value: str, uri: str) -> None:
    try:
        value.encode()
    except UnicodeEncodeError:
        return
    extended = add_answer(uri, {"state": value, "iss": "https://h"})
    assert extended.startswith(uri)
    pairs = parse_qsl(urlsplit(extended).query, keep_blank_values=True)
    assert pairs[-2:] == [("state", value), ("iss", "https://h")]


@pytest.mark.parametrize(
    ("first", "second", "same"),
    [
        ("http://localhost:1/a", "http://localhost/a", True),
        ("http://localhost:1/a", "http://localhost:2/a", True),
        ("http://[::1]:1/", "http://[::1]:2/", True),
        ("http://localhost:1/a", "http://localhost:1/b", False),
        ("http://localhost:1/a", "http://127.0.0.1:1/a", False),
        ("http://localhost", "http://localhost/", False),
        ("https://h:1/a", "https://h:2/a", False),
        ("http://localhost:*/a", "http://localhost:1/a", True),
    ],
)
def test_ports_of_loopback_are_free_and_nothing_else_is(first: str, second: str, same: bool) -> None:
    if ":*" in first:
        # What a mark is made of can't itself be registered.
        assert find_fault(first)
        return
    assert (fingerprint(first) == fingerprint(second)) is same
