"""Passwords rest as slow hashes."""

from __future__ import annotations

import pytest

from cluster.errors import Invalid
from cluster.records.account import LONGEST, SHORTEST, check_password, hash_password, new_password

KEPT = hash_password("correct horse battery", b"s" * 16)


def test_the_right_password_fits_and_others_do_not() -> None:
    assert check_password("correct horse battery", KEPT)
    for other in ("", "correct horse batter", "correct horse battery ", "Correct horse battery", "x" * 300):
        assert not check_password(other, KEPT)


def test_a_hash_carries_its_parameters_and_no_password() -> None:
    assert KEPT.startswith("scrypt$15$8$3$")
    assert "horse" not in KEPT
    assert hash_password("correct horse battery") != KEPT
    assert check_password("correct horse battery", hash_password("correct horse battery"))


@pytest.mark.parametrize(
    "kept", [None, "", "scrypt", "scrypt$15$8$3$x", "md5$15$8$3$AAAA$AAAA", "scrypt$a$8$3$AA==$AA=="]
)
def test_nothing_fits_where_nothing_or_nonsense_is_kept(kept: str | None) -> None:
    assert not check_password("", kept)
    assert not check_password("correct horse battery", kept)


def test_parameters_of_older_hashes_are_taken_from_the_hash() -> None:
    import base64
    import hashlib

    digest = hashlib.scrypt(b"an older password", salt=b"salt", n=1 << 10, r=8, p=1, dklen=32)
    kept = f"scrypt$10$8$1${base64.b64encode(b'salt').decode()}${base64.b64encode(digest).decode()}"
    assert check_password("an older password", kept)


def test_lengths_are_bounded_and_text_of_any_kind_is_taken() -> None:
    for bad in ("x" * (SHORTEST - 1), "x" * (LONGEST + 1)):
        with pytest.raises(Invalid):
            hash_password(bad)
    strange = "пароль \udcff 密码密码"
    assert check_password(strange, hash_password(strange))
    assert len({new_password() for _ in range(50)}) == 50
