"""Training at full tilt beside serving, on the same machine.

`KIOSK_DRILL_S` says how long the API replicas are asked, once without and once with trainings one after the other.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator

import pytest

from tests.benchmarks.stack import Stack
from tests.drills.engines import APP, asking, in_turn, installed, say, seed
from tests.drills.storm import Fates, calm, storm

pytestmark = [pytest.mark.ray, pytest.mark.redis, pytest.mark.timeout(900)]
SECONDS = float(os.environ.get("KIOSK_DRILL_S", "60"))
SHARE = 0.3
"Of what can be carried: a core and a half stay for the training."


@pytest.fixture(scope="module")
def stack() -> Iterator[Stack]:
    """Fifteen thousand products and sixty thousand events."""
    with installed(KIOSK_REPLICAS_MAX="1") as running:
        seed(running, 15_000, 60_000)
        yield running


@pytest.mark.parametrize("place", ["door", "own"])
def test_answers_are_hardly_later_while_a_training_runs(stack: Stack, place: str) -> None:
    say(stack, "engines", "place", APP, "default", place)
    requests, port = in_turn(asking(stack), asking(stack, kind="user_to_trending")), stack.port
    calm(requests, port=port, seconds=3, connections=16)
    rate = SHARE * calm(requests, port=port, seconds=5, connections=16).per_second()
    before = calm(requests, port=port, rate=rate, seconds=SECONDS)
    trained, during = _with_trainings(stack, requests, rate)
    print(
        f"\nR27 ({place}): {trained} trainings during {SECONDS:.0f} s at {rate:.0f}/s: p50 {before.p(0.5):.2f} -> "
        f"{during.p(0.5):.2f} ms, p99 {before.p(0.99):.1f} -> {during.p(0.99):.1f} ms "
        f"({during.p(0.99) / before.p(0.99):.2f}x); {during.statuses()}"
    )
    assert trained >= 1
    assert during.statuses().keys() == {200}
    assert during.p(0.99) <= 2 * before.p(0.99)


def _with_trainings(stack: Stack, requests: list[bytes], rate: float) -> tuple[int, Fates]:
    """Ask while one training follows another; return how many ended well."""
    over, outcomes = threading.Event(), []

    def train() -> None:
        while not over.is_set():
            outcomes.append(say(stack, "train", APP, "--recipe", "default")["status"])

    training = threading.Thread(target=train)
    with storm(requests, port=stack.port, rate=rate, seconds=SECONDS) as running:
        training.start()
        try:
            fates = running.fates()
        finally:
            over.set()
            training.join()
    assert set(outcomes) == {"finished"}
    return len(outcomes), fates
