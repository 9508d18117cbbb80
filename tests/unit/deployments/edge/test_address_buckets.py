"""Bounds by client address: fair, and never more memory than two tables."""

from __future__ import annotations

import time

from deployments.edge.limits.token_buckets import AddressBuckets, digest_address, network_from_address
from tests.fakes.request_handler import StillClock


def test_one_address_empties_only_its_bucket() -> None:
    clock = StillClock()
    buckets = AddressBuckets(clock)

    def waits(address: str) -> float:
        return buckets.spend("key", "query", address, 2.0, 4.0)

    assert [waits("192.0.2.1") for _ in range(4)] == [0.0] * 4
    assert waits("192.0.2.1") == 0.5
    assert waits("192.0.2.2") == 0.0
    clock.pass_ms(1_000)
    assert [waits("192.0.2.1") == 0 for _ in range(3)] == [True, True, False]
    clock.pass_ms(3_600_000)
    assert [waits("192.0.2.1") == 0 for _ in range(5)] == [True] * 4 + [False]


def test_whoever_comes_often_stays_and_the_table_never_grows() -> None:
    buckets = AddressBuckets(StillClock(), most=100)
    assert buckets.spend("key", "query", "honest", 0.001, 3.0) == 0
    for n in range(10_000):
        buckets.spend("key", "query", f"x{n}", 0.001, 3.0)
        if n % 50 == 0:
            buckets.spend("key", "query", "greedy", 0.001, 3.0)
    assert len(buckets._young) + len(buckets._old) <= 200
    assert buckets.spend("key", "query", "greedy", 0.001, 3.0) > 0


def test_an_address_of_version_six_is_its_network() -> None:
    assert network_from_address("192.0.2.1") == "192.0.2.1"
    assert network_from_address("2001:db8:1:2::1") == network_from_address("2001:db8:1:2:ffff::9")
    assert network_from_address("2001:db8:1:2::1") != network_from_address("2001:db8:1:3::1")
    assert network_from_address("::ffff:192.0.2.1") == "192.0.2.1"
    assert network_from_address("fe80::1%eth0") == network_from_address("fe80::2")
    assert len(network_from_address("nonsense:" * 100)) <= 64


def test_a_digest_reveals_nothing_without_the_key() -> None:
    digest = digest_address(b"secret", 1, "192.0.2.1")
    assert digest == digest_address(b"secret", 1, "192.0.2.1")
    assert (
        len({digest, digest_address(b"secret", 2, "192.0.2.1"), digest_address(b"other", 1, "192.0.2.1")})
        == 3
    )
    assert digest_address(b"", 1, "\ud800")


def test_an_address_costs_next_to_nothing() -> None:
    buckets = AddressBuckets(StillClock())
    best = 1.0
    for _ in range(5):
        began = time.perf_counter()
        for _ in range(10_000):
            buckets.spend("key", "query", "192.0.2.1", 1e6, 1e6)
        best = min(best, (time.perf_counter() - began) / 10_000)
    print(f"\naddress bucket: {best * 1e6:.2f} us")
    assert best < 20e-6
