from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actors.models.loading.snapshot_models import LoadedSnapshot
from actors.models.model import AccumulatingModel, SharedScoresModel, SingleUserModel
from actors.models.standardized_scores import StandardizedScores
from actors.models.user_histories import TimeDecay, apply_time_decay
from actors.models.user_history import UserHistory, compute_dense_scale, compute_sparse_scale
from tests.fakes.trained_snapshot import RING, load_ring_model


@pytest.fixture(scope="module")
def ring(tmp_path_factory: pytest.TempPathFactory) -> LoadedSnapshot:
    return load_ring_model(tmp_path_factory.mktemp("snapshots") / "one")


EVENTS = st.lists(
    st.tuples(st.integers(-1, RING - 1), st.integers(0, 4), st.sampled_from([1.0, 0.3, -0.5])), max_size=20
)


def _past(events: list[tuple[int, int, float]]) -> UserHistory:
    """Make a past of events whose second part says how long before the next newer one they were."""
    ages = np.cumsum([age for _, age, _ in events])
    return UserHistory.of(
        [item for item, _, _ in events],
        [float(1_000_000 - 10_000 * age) for age in ages],
        [weight for _, _, weight in events],
        1_000_000.0,
    )


@given(EVENTS, st.booleans(), st.sampled_from([None, 1.0, 7.0]), st.sampled_from([None, 1.0]))
def test_a_past_fades_as_histories_do(
    events: list[tuple[int, int, float]], ordered: bool, by_items: float | None, by_days: float | None
) -> None:
    fading = TimeDecay(half_life_items=by_items, half_life_days=by_days, ordered=ordered, newest=5)
    past = _past(events)
    items, weights = past.apply_time_decay(fading)
    alone = np.bincount(items, weights, RING)
    np.testing.assert_allclose(
        alone, apply_time_decay(past.to_histories(RING), fading).toarray()[0], atol=2e-3
    )


@settings(max_examples=60)
@given(EVENTS)
def test_one_history_scores_as_a_batch_of_histories(
    ring: LoadedSnapshot, events: list[tuple[int, int, float]]
) -> None:
    past = _past(events)
    histories = past.to_histories(RING)
    total = np.zeros(RING, np.float32)
    for part in ring.blend.parts:
        if isinstance(part.model, SharedScoresModel):
            StandardizedScores.of(part.model, histories).add_to(
                total[None], np.array([part.weight], np.float32)
            )
            continue
        assert isinstance(part.model, SingleUserModel)
        items, values = part.model.quick(past)
        if isinstance(part.model, AccumulatingModel):
            alone = np.zeros(RING + 3, np.float32)
            assert part.model.add_to(alone, past) == len(items)
            np.testing.assert_allclose(alone[:RING], np.bincount(items, values, RING), rtol=1e-4, atol=1e-5)
            assert compute_dense_scale(alone, RING) == pytest.approx(
                compute_sparse_scale(items, values, RING), rel=1e-3
            )
        np.add.at(total, items, values * np.float32(part.weight * compute_sparse_scale(items, values, RING)))
    if len(past):
        np.testing.assert_allclose(total, ring.blend.score(histories)[0], atol=2e-2)


@pytest.mark.parametrize("many", [1, 300, 2_000])
def test_distinct_items_have_the_scale_that_a_look_at_all_of_them_gives(many: int) -> None:
    random = np.random.default_rng(many)
    rows = random.permutation(5_000)[:many]
    values = random.random(many).astype(np.float32)
    assert compute_sparse_scale(rows, values, 5_000, distinct=True) == pytest.approx(
        compute_sparse_scale(rows, values, 5_000), rel=1e-5
    )


def test_what_is_alike_everywhere_has_no_scale() -> None:
    rows = np.arange(4)
    assert compute_sparse_scale(rows, np.ones(4, np.float32), 4) == 0.0
    assert compute_sparse_scale(rows[:0], np.zeros(0, np.float32), 4) == 0.0
    assert compute_dense_scale(np.ones(1_000, np.float32), 1_000) == 0.0
    values = np.arange(2_000, dtype=np.float32)
    assert compute_dense_scale(values, 2_000) == pytest.approx(1 / values.std(), rel=1e-5)
    assert compute_sparse_scale(np.arange(2_000), values, 2_000) == pytest.approx(1 / values.std(), rel=1e-5)
    assert compute_sparse_scale(np.array([0, 0]), np.array([1.0, 1.0], np.float32), 4) == pytest.approx(
        1 / np.std([2, 0, 0, 0])
    )
