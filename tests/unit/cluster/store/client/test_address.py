"""Reading Redis URLs."""

from __future__ import annotations

from pathlib import Path

import pytest

from cluster.addresses.redis_url import add_options
from cluster.errors import Invalid, Unavailable
from cluster.store.client.address import Address, Credentials, ServerAddress, Tls


def at(host: str, port: int = 6379) -> tuple[ServerAddress, ...]:
    return (ServerAddress(host=host, port=port),)


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("redis://", Address()),
        ("redis://db.example:6380", Address(endpoints=at("db.example", 6380))),
        ("redis://db.example/3", Address(endpoints=at("db.example"), db=3)),
        ("redis://db.example?db=4", Address(endpoints=at("db.example"), db=4)),
        (
            "redis://:p%40ss@db.example",
            Address(endpoints=at("db.example"), credentials=Credentials(password="p@ss")),
        ),
        (
            "redis://ann:pass@db.example:1/0",
            Address(endpoints=at("db.example", 1), credentials=Credentials("ann", "pass")),
        ),
        ("redis://[::1]:7000", Address(endpoints=at("::1", 7000))),
        ("rediss://db.example", Address(endpoints=at("db.example"), tls=Tls())),
        (
            "rediss://db.example?ssl_ca_certs=/ca.pem&ssl_certfile=/c.pem&ssl_keyfile=/k.pem&ssl_check_hostname=false",
            Address(endpoints=at("db.example"), tls=Tls("/ca.pem", "/c.pem", "/k.pem", False)),
        ),
        ("unix:///run/redis.sock", Address(endpoints=(ServerAddress(path="/run/redis.sock"),))),
        (
            "unix://:pass@/run/redis.sock?db=2",
            Address(
                endpoints=(ServerAddress(path="/run/redis.sock"),),
                db=2,
                credentials=Credentials(password="pass"),
            ),
        ),
        (
            "unix:///run/a%20b?password=pass",
            Address(endpoints=(ServerAddress(path="/run/a b"),), credentials=Credentials(password="pass")),
        ),
        (
            "redis+sentinel://ann:pass@s1:5,s2/shop/3?sentinel_password=other&wait_replicas=1",
            Address(
                "sentinel",
                (*at("s1", 5), *at("s2", 26379)),
                "shop",
                3,
                Credentials("ann", "pass"),
                Credentials(password="other"),
                wait_replicas=1,
            ),
        ),
        ("redis+sentinel://s1", Address("sentinel", at("s1", 26379), "mymaster")),
        ("rediss+cluster://a:1,[::1]:2", Address("cluster", (*at("a", 1), *at("::1", 2)), tls=Tls())),
    ],
)
def test_a_url_gives_the_address_of_redis(url: str, address: Address) -> None:
    assert Address.parse(url) == address


@pytest.mark.parametrize(
    "url",
    [
        "", "http://x", "redis://x:port", "unix://", "redis://x/one", "redis://:secret@x:99999", "redis://a,b",
        "redis+other://x", "redis+://x", "redis+cluster://x/1", "redis+sentinel://x/shop/0/more", "http+sentinel://x",
    ],
)  # fmt: skip
def test_what_is_no_redis_url_is_refused_without_repeating_it(url: str) -> None:
    with pytest.raises(Invalid) as refused:
        Address.parse(url)
    assert "secret" not in str(refused.value)


def test_a_password_never_shows() -> None:
    assert "secret" not in repr(Address.parse("redis://secret:secret@db.example?sentinel_password=secret"))


def test_a_replaced_password_file_counts_from_the_next_connection_on(tmp_path: Path) -> None:
    file = tmp_path / "password"
    file.write_text("first\n")
    credentials = Address.parse(f"redis://ann@db.example?password_file={file}").credentials
    assert credentials.read() == ("ann", "first")
    file.write_text("second\n")
    assert credentials.read() == ("ann", "second")
    file.unlink()
    with pytest.raises(Unavailable, match="password file"):
        credentials.read()


def test_a_missing_certificate_is_named_as_such() -> None:
    with pytest.raises(Unavailable, match="certificate"):
        Tls(ca="/nowhere/ca.pem").open_context()


def test_options_are_added_behind_a_url_and_change_nothing_in_it() -> None:
    url = "redis://db.example?db=4&wait_replicas=2"
    assert (
        add_options(url, {"wait_replicas": "1", "password": "p&=", "ssl_ca_certs": ""})
        == f"{url}&password=p%26%3D"
    )
    assert add_options("unix:///s", {"password_file": "/run/a b"}) == "unix:///s?password_file=/run/a%20b"
    assert add_options("unix:///s", {"password_file": ""}) == "unix:///s"
