"""The checksum around stored records."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster.store.seals.seal import WIDTH, salt_from_key, seal, unseal


@given(st.binary(max_size=300), st.binary(max_size=30))
def test_a_sealed_body_opens_with_its_salt(body: bytes, salt: bytes) -> None:
    sealed = seal(body, salt)
    assert len(sealed) == WIDTH + len(body)
    assert unseal(sealed, salt) == body


@pytest.mark.parametrize("body", [b"", b"{}", b'{"user_id":"gina-7","age":41}', bytes(range(256))])
def test_every_single_flipped_bit_is_noticed(body: bytes) -> None:
    sealed = seal(body, b"key")
    for place in range(len(sealed)):
        for bit in range(8):
            broken = bytearray(sealed)
            broken[place] ^= 1 << bit
            assert unseal(bytes(broken), b"key") is None, (place, bit)


def test_a_record_under_a_wrong_key_is_broken() -> None:
    assert unseal(seal(b"{}", salt_from_key("{a}:user:1")), salt_from_key("{a}:user:2")) is None
    assert unseal(seal(b"{}", salt_from_key("h", "1")), salt_from_key("h", "2")) is None


@given(st.binary(max_size=20))
def test_anything_else_reads_as_broken_not_as_an_error(junk: bytes) -> None:
    assert unseal(junk) is None or junk == seal(junk[WIDTH:])


def test_truncation_is_noticed_at_every_length() -> None:
    sealed = seal(b'{"user_id":"gina-7"}')
    assert [n for n in range(len(sealed)) if unseal(sealed[:n]) is not None] == []


def test_a_salt_takes_any_text() -> None:
    assert salt_from_key("\ud800") != salt_from_key("\ud801")
