"""Do comparisons of secrets take the same time for near misses and far ones?

Two classes of input in random order, times above a cut-off thrown away, Welch's t between the classes: the method
of "dude, is my code constant time?" (Reparaz, Balasch, Verbauwhede 2017).
"""

from __future__ import annotations

import gc
import random
import statistics
import time
from collections.abc import Callable, Sequence

import pytest

from cluster.crypto import Vault
from cluster.errors import Unauthenticated
from cluster.records.api_keys import issue_key
from cluster.records.apps import App
from deployments.edge.access.identity_proof import compare_hash, sign_user_id
from deployments.edge.access.keyring import Keyring
from deployments.edge.access.tokens import verify_token
from tests.fakes.request_handler import MASTER
from tests.fakes.stores.memory import memory_stores
from tests.fakes.tokens import token_of

pytestmark = pytest.mark.drill

PAIRS = 100_000
LIMIT = 4.5
_WRONG = 6
_POOL = 20_000
_BATCH = 500
HEX = "0123456789abcdef"
LETTERS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
SECRET = "ksk_dev_" + "s" * 32 + "_000000"


def welch_t(run: Callable[[str], object], near: Sequence[str], far: Sequence[str], seed: int) -> float:
    """Compare the times of two classes; each has many members, so that no member's place in memory counts."""
    chance = random.Random(seed)
    pools = (near, far)
    times: tuple[list[int], list[int]] = ([], [])
    gc.disable()
    try:
        for _ in range(0, 2 * PAIRS, _BATCH):
            sides = chance.choices((0, 1), k=_BATCH)
            # Fresh copies, made well before the clock starts: work on them must not reach into what is timed.
            batch = [(side, "".join(list(chance.choice(pools[side])))) for side in sides]
            for side, value in batch:
                begin = time.perf_counter_ns()
                run(value)
                times[side].append(time.perf_counter_ns() - begin)
    finally:
        gc.enable()
    cut = sorted(times[0] + times[1])[int(1.8 * PAIRS)]
    left, right = ([took for took in side if took <= cut] for side in times)
    spread = statistics.variance(left) / len(left) + statistics.variance(right) / len(right)
    return (statistics.fmean(left) - statistics.fmean(right)) / spread**0.5


def steady(run: Callable[[str], object], good: str, alphabet: str, first: int = 0) -> float:
    """Compare texts that are wrong at their end with texts that are wrong at their beginning.

    The smallest of four measurements counts: a real leak shows in all of them, a busy machine in some.
    """
    chance = random.Random(5)
    noise = ["".join(chance.choices(alphabet, k=_WRONG)) for _ in range(2 * _POOL)]
    near, far = [], []
    for letters in noise:
        # Made in random turns, so that both classes lie in the same places of memory.
        if chance.random() < 0.5:
            near.append(good[:-_WRONG] + letters)
        else:
            far.append(good[:first] + letters + good[first + _WRONG :])
    return min(abs(welch_t(run, near, far, seed)) for seed in range(4))


def test_the_method_finds_a_leak() -> None:
    good = sign_user_id(SECRET.encode(), "gina-7") * 20

    def letter_by_letter(text: str) -> bool:
        return all(letter == other for letter, other in zip(text, good, strict=True))

    assert steady(letter_by_letter, good, HEX) > LIMIT


def test_user_hash_takes_the_same_time_however_much_of_it_is_right() -> None:
    good = sign_user_id(SECRET.encode(), "gina-7")
    t = steady(lambda text: compare_hash((SECRET.encode(),), text, "gina-7"), good, HEX)
    print(f"\nR38 user_hash: |t| = {t:.2f}")
    assert t < LIMIT


def test_a_token_signature_takes_the_same_time_however_much_of_it_is_right() -> None:
    head, _, signature = token_of({"user_id": "gina-7"}, SECRET).rpartition(".")

    def read(text: str) -> None:
        try:
            verify_token(f"{head}.{text}", (SECRET.encode(),), now_s=0.0)
        except Unauthenticated:
            return
        raise AssertionError

    t = steady(read, signature, LETTERS)
    print(f"\nR38 token: |t| = {t:.2f}")
    assert t < LIMIT


async def test_looking_a_key_up_takes_the_same_time_however_much_of_it_is_right() -> None:
    stores, vault = memory_stores(), Vault(MASTER)
    app = App(app_id="shop", environment="development", created_at=0)
    await stores.access.put_app(app)
    issued = [issue_key(vault, app, "secret", now_ms=at) for at in range(100)]
    for key in issued:
        await stores.access.put_key(key.record)
    ring = Keyring(stores.access, vault)
    await ring.refresh()
    assert ring.find(issued[0].text) is not None
    t = steady(ring.find, issued[0].text, LETTERS, first=8)
    print(f"\nR38 key: |t| = {t:.2f}")
    assert t < LIMIT
