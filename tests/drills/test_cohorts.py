"""What live cohorts cost: counting, the first answer to a cohort, later ones, and requests without a cohort."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
import pytest

from actors.language.hashing_embedder import HashingEmbedder
from actors.recommender.state.engine_state import EngineState
from actors.recommender.state.events import EventArrays
from actors.recommender.state.live_cohorts import LiveCohorts
from actors.recommender.state.overlay import Overlay
from tests.fakes.corner_shop import DAY_MS, NOW_MS

pytestmark = pytest.mark.drill

PRODUCTS, USERS, EVENTS = 10_000, 20_000, 60_000


def best_ms(act: Callable[[], object], times: int = 7) -> float:
    """Measure processor time of this thread, the best of several runs: neighbours on the machine do not count."""
    took_ms = []
    for _ in range(times):
        began_s = time.thread_time()
        act()
        took_ms.append((time.thread_time() - began_s) * 1_000)
    return min(took_ms)


def test_cohorts_cost_little() -> None:
    rng = np.random.default_rng(1)
    overlay = Overlay(HashingEmbedder())
    overlay.put_products(
        [{"product_id": f"p{n}", "title": f"Thing {n}", "type": "x"} for n in range(PRODUCTS)], None
    )
    overlay.put_users(
        [{"user_id": str(n), "country": f"C{n % 30}", "gender": "mf"[n % 2]} for n in range(USERS)]
    )
    codes = np.array([overlay.get_user_code(f"u:{n}") for n in range(USERS)])
    at_ms = np.sort(NOW_MS - rng.integers(0, 30 * DAY_MS, EVENTS))
    rows = rng.zipf(1.3, EVENTS) % PRODUCTS
    worth, bought = np.ones(EVENTS), np.zeros(EVENTS, np.bool_)
    overlay.add_events(EventArrays(codes[rng.integers(0, USERS, EVENTS)], rows, at_ms, worth, bought))
    cohorts = LiveCohorts(overlay)
    holdings = EngineState(overlay, cohorts=cohorts)
    priors = holdings.get_item_priors(NOW_MS)
    cohort = {"country": "C3", "gender": "m"}

    def count() -> None:
        overlay.events_version += 1
        cohorts.count_votes(NOW_MS)

    def first() -> None:
        holdings._cohort_cache.clear()
        assert holdings.get_cohort_scores(cohort, priors, NOW_MS) is not None

    def again() -> None:
        for _ in range(1_000):
            holdings.get_cohort_scores(cohort, priors, NOW_MS)

    def without() -> None:
        for _ in range(1_000):
            holdings.get_cohort_scores({"device": "mobile"}, priors, NOW_MS)

    assert best_ms(count) < 25
    assert best_ms(first) < 15
    assert best_ms(again) < 15, "microseconds a request"
    assert best_ms(without) < 8, "microseconds a request"
    assert overlay.users.nbytes < 20_000_000
