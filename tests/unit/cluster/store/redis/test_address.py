"""Reading Redis URLs."""

from __future__ import annotations

import pytest

from cluster.errors import Invalid
from cluster.store.redis.address import Address


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("redis://", Address(host="localhost")),
        ("redis://db.example:6380", Address(host="db.example", port=6380)),
        ("redis://db.example/3", Address(host="db.example", db=3)),
        ("redis://db.example?db=4", Address(host="db.example", db=4)),
        ("redis://:p%40ss@db.example", Address(host="db.example", password="p@ss")),
        (
            "redis://ann:pass@db.example:1/0",
            Address(host="db.example", port=1, username="ann", password="pass"),
        ),
        ("redis://[::1]:7000", Address(host="::1", port=7000)),
        ("rediss://db.example", Address(host="db.example", tls=True)),
        ("unix:///run/redis.sock", Address(path="/run/redis.sock")),
        ("unix://:pass@/run/redis.sock?db=2", Address(path="/run/redis.sock", password="pass", db=2)),
        ("unix:///run/a%20b?password=pass", Address(path="/run/a b", password="pass")),
    ],
)
def test_a_url_gives_the_address_of_redis(url: str, address: Address) -> None:
    assert Address.parse(url) == address


@pytest.mark.parametrize(
    "url", ["", "http://x", "redis://x:port", "unix://", "redis://x/one", "redis://:secret@x:99999"]
)
def test_what_is_no_redis_url_is_refused_without_repeating_it(url: str) -> None:
    with pytest.raises(Invalid) as refused:
        Address.parse(url)
    assert "secret" not in str(refused.value)


def test_a_password_never_shows() -> None:
    assert "secret" not in repr(Address.parse("redis://secret:secret@db.example"))
