from __future__ import annotations

import hashlib
import hmac

import pytest

from deployments.edge.signatures import hash_matches, sign_reader

SECRET = b"ksk_dev_secret"


def test_the_digest_is_hmac_sha256_of_the_id_in_hex() -> None:
    expected = hmac.new(SECRET, b"gina-7", hashlib.sha256).hexdigest()
    assert sign_reader(SECRET, "gina-7") == expected
    assert hash_matches([SECRET], expected, "gina-7")
    assert hash_matches([SECRET], expected.upper(), "gina-7")


def test_the_second_form_counts_only_with_a_user_type() -> None:
    digest = hmac.new(SECRET, b"paid:gina-7", hashlib.sha256).hexdigest()
    assert hash_matches([SECRET], digest, "gina-7", "paid")
    assert not hash_matches([SECRET], digest, "gina-7", "free")
    assert not hash_matches([SECRET], digest, "gina-7")
    assert hash_matches([SECRET], sign_reader(SECRET, "gina-7"), "gina-7", "paid")


def test_any_live_secret_may_have_signed_and_no_other() -> None:
    digest = sign_reader(b"old", "gina-7")
    assert hash_matches([b"new", b"old"], digest, "gina-7")
    assert not hash_matches([b"new"], digest, "gina-7")
    assert not hash_matches([], digest, "gina-7")


@pytest.mark.parametrize("given", ["", "0" * 64, "g" * 64, "é" * 64, "\ud800", "a" * 100_000])
def test_anything_else_does_not_match(given: str) -> None:
    assert not hash_matches([SECRET], given, "gina-7")


def test_ids_outside_ascii_are_signed_as_utf8() -> None:
    assert sign_reader(SECRET, "gína") == hmac.new(SECRET, "gína".encode(), hashlib.sha256).hexdigest()
