"""Do comparisons of secrets take the same time for near misses and far ones? (fault R38)

Two classes of input in random order, times above a cut-off thrown away, Welch's t between the classes: the method
of "dude, is my code constant time?" (Reparaz, Balasch, Verbauwhede 2017).
"""

from __future__ import annotations

import gc
import random
import statistics
import time
from collections.abc import Callable

import pytest

from cluster.errors import Unauthenticated
from cluster.records.access import App
from cluster.records.issue import issue_key
from cluster.secrecy import Vault, recognise_key
from cluster.store.memory import memory_stores
from deployments.edge.keyring import Keyring
from deployments.edge.signatures import hash_matches, sign_reader
from deployments.edge.tokens import read_token
from tests.fakes.door import MASTER
from tests.fakes.tokens import token_of

pytestmark = pytest.mark.drill

PAIRS = 100_000
LIMIT = 4.5
SECRET = "ksk_dev_" + "s" * 32 + "_000000"


def welch_t(near: Callable[[], object], far: Callable[[], object]) -> float:
    """Compare the times of two classes."""
    chance = random.Random(11)
    times: tuple[list[int], list[int]] = ([], [])
    gc.disable()
    try:
        for _ in range(2 * PAIRS):
            side = chance.random() < 0.5
            run = near if side else far
            begin = time.perf_counter_ns()
            run()
            times[side].append(time.perf_counter_ns() - begin)
    finally:
        gc.enable()
    cut = sorted(times[0] + times[1])[int(1.8 * PAIRS)]
    one, other = ([took for took in side if took <= cut] for side in times)
    spread = statistics.variance(one) / len(one) + statistics.variance(other) / len(other)
    return (statistics.fmean(one) - statistics.fmean(other)) / spread**0.5


def steady(near: Callable[[], object], far: Callable[[], object]) -> float:
    """The smallest of three measurements: a real leak shows in all of them, a busy machine in some."""
    return min(abs(welch_t(near, far)) for _ in range(3))


def test_user_hash_takes_the_same_time_however_much_of_it_is_right() -> None:
    good = sign_reader(SECRET.encode(), "gina-7")
    near = good[:-1] + ("0" if good[-1] != "0" else "1")
    far = ("0" if good[0] != "0" else "1") + good[1:]
    t = steady(
        lambda: hash_matches((SECRET.encode(),), near, "gina-7"),
        lambda: hash_matches((SECRET.encode(),), far, "gina-7"),
    )
    print(f"\nR38 user_hash: |t| = {t:.2f}")
    assert t < LIMIT


def test_a_token_signature_takes_the_same_time_however_much_of_it_is_right() -> None:
    head, _, signature = token_of({"user_id": "gina-7"}, SECRET).rpartition(".")
    wrong = {"near": signature[:-2] + "AA", "far": "AA" + signature[2:]}

    def read(which: str) -> Callable[[], None]:
        token = f"{head}.{wrong[which]}"

        def run() -> None:
            try:
                read_token(token, (SECRET.encode(),), now_s=0.0)
            except Unauthenticated:
                return
            raise AssertionError

        return run

    t = steady(read("near"), read("far"))
    print(f"\nR38 token: |t| = {t:.2f}")
    assert t < LIMIT


async def test_looking_a_key_up_takes_the_same_time_however_much_of_it_is_right() -> None:
    stores, vault = memory_stores(), Vault(MASTER)
    app = App(app_id="shop", environment="development", created_at=0)
    await stores.access.put_app(app)
    issued = [issue_key(vault, app, "secret", now_ms=at) for at in range(100)]
    for one in issued:
        await stores.access.put_key(one.record)
    ring = Keyring(stores.access, vault)
    await ring.refresh()
    good = issued[0].text
    near = good[:-1] + ("a" if good[-1] != "a" else "b")
    far = good[:8] + ("a" if good[8] != "a" else "b") + good[9:]
    assert ring.find(near) is None
    assert ring.find(far) is None
    t = steady(lambda: ring.find(near), lambda: ring.find(far))
    print(f"\nR38 key: |t| = {t:.2f}")
    assert t < LIMIT
    assert recognise_key(near) is None
