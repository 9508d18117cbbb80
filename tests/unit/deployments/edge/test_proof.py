from __future__ import annotations

import hashlib
import hmac

import pytest

from deployments.edge.access.identity_proof import compare_hash, is_ambiguous, sign_user_id

SECRET = b"ksk_dev_secret"


def hash_matches(secrets: list[bytes], given: str, user_id: str, user_type: str = "") -> bool:
    return any(compare_hash(secrets, given, user_id, user_type))


def test_the_digest_is_hmac_sha256_of_the_id_in_hex() -> None:
    expected = hmac.new(SECRET, b"gina-7", hashlib.sha256).hexdigest()
    assert sign_user_id(SECRET, "gina-7") == expected
    assert hash_matches([SECRET], expected, "gina-7")
    assert hash_matches([SECRET], expected.upper(), "gina-7")


def test_the_second_form_counts_only_with_a_user_type() -> None:
    digest = hmac.new(SECRET, b"paid:gina-7", hashlib.sha256).hexdigest()
    assert hash_matches([SECRET], digest, "gina-7", "paid")
    assert not hash_matches([SECRET], digest, "gina-7", "free")
    assert not hash_matches([SECRET], digest, "gina-7")
    assert hash_matches([SECRET], sign_user_id(SECRET, "gina-7"), "gina-7", "paid")


def test_any_live_secret_may_have_signed_and_no_other() -> None:
    digest = sign_user_id(b"old", "gina-7")
    assert hash_matches([b"new", b"old"], digest, "gina-7")
    assert not hash_matches([b"new"], digest, "gina-7")
    assert not hash_matches([], digest, "gina-7")


@pytest.mark.parametrize("given", ["", "0" * 64, "g" * 64, "é" * 64, "\ud800", "a" * 100_000])
def test_anything_else_does_not_match(given: str) -> None:
    assert not hash_matches([SECRET], given, "gina-7")


def test_ids_outside_ascii_are_signed_as_utf8() -> None:
    assert sign_user_id(SECRET, "gína") == hmac.new(SECRET, "gína".encode(), hashlib.sha256).hexdigest()


@pytest.mark.parametrize(
    ("user_id", "ambiguous"),
    [
        ("eyJhbGciOiJIUzI1NiJ9.eyJ1c2VyX2lkIjoidmljdGltIn0", True),
        ("IAp7ImFsZyI6IkhTMjU2In0.e30", True),
        ("e30.e30", True),
        ("paid:bob", True),
        ("anonymous:", True),
        ("gina", False),
        ("gina.holt", False),
        ("eyes.only", False),
        ("eyJhbGciOiJIUzI1NiJ9", False),
        ("eyJhbGciOiJIUzI1NiJ9.e30.sig", False),
        ("prepaid:bob", False),
        ("a.b.c", False),
        (".", False),
        ("e.", False),
        ("a.b\n", False),
    ],
)
def test_an_id_that_could_be_read_as_something_else_is_never_proven(user_id: str, ambiguous: bool) -> None:
    assert is_ambiguous(user_id) == ambiguous
    assert hash_matches([SECRET], sign_user_id(SECRET, user_id), user_id) == (not ambiguous)
