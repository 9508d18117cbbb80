"""Token buckets by name: fair, and never more memory than two tables."""

from __future__ import annotations

import time

from deployments.edge.limits.token_buckets import BucketRate, TokenBuckets
from tests.fakes.request_handler import StillClock


def test_one_address_empties_only_its_bucket() -> None:
    clock = StillClock()
    buckets = TokenBuckets(clock)

    def waits(address: str) -> float:
        return buckets.spend(("key", "query", address), 2.0, 4.0)

    assert [waits("192.0.2.1") for _ in range(4)] == [0.0] * 4
    assert waits("192.0.2.1") == 0.5
    assert waits("192.0.2.2") == 0.0
    clock.pass_ms(1_000)
    assert [waits("192.0.2.1") == 0 for _ in range(3)] == [True, True, False]
    clock.pass_ms(3_600_000)
    assert [waits("192.0.2.1") == 0 for _ in range(5)] == [True] * 4 + [False]


def test_whoever_comes_often_stays_and_the_table_never_grows() -> None:
    buckets = TokenBuckets(StillClock(), most=100)
    assert buckets.spend(("key", "query", "honest"), 0.001, 3.0) == 0
    for n in range(10_000):
        buckets.spend(("key", "query", f"x{n}"), 0.001, 3.0)
        if n % 50 == 0:
            buckets.spend(("key", "query", "greedy"), 0.001, 3.0)
    assert len(buckets) <= 200
    assert buckets.spend(("key", "query", "greedy"), 0.001, 3.0) > 0


def test_a_wait_is_in_whole_seconds() -> None:
    buckets = TokenBuckets(StillClock())
    rate = BucketRate(0.4, 2)
    assert [buckets.wait_s("pages", "192.0.2.1", rate) for _ in range(3)] == [0, 0, 3]
    assert buckets.wait_s("token calls", "192.0.2.1", rate) == 0


def test_an_address_costs_next_to_nothing() -> None:
    buckets = TokenBuckets(StillClock())
    best = 1.0
    for _ in range(5):
        began = time.perf_counter()
        for _ in range(10_000):
            buckets.spend(("key", "query", "192.0.2.1"), 1e6, 1e6)
        best = min(best, (time.perf_counter() - began) / 10_000)
    print(f"\naddress bucket: {best * 1e6:.2f} us")
    assert best < 20e-6
