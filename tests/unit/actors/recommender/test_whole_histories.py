"""Profile and exclusion use all events of a user, not only those of the recent list."""

from __future__ import annotations

from typing import Any

import pytest

from actors.models.loading.snapshot_models import LoadedSnapshot
from actors.recommender.messages import UserQuery
from actors.recommender.ranking.pipeline_inputs import UserSignals, build_user_signals
from actors.recommender.ranking.user_profile import parse_recent_events
from actors.recommender.recommender import Recommender
from actors.recommender.state.serving_model import ServingModel
from actors.serving import dispatch
from cluster.clock import iso_ms
from cluster.records.interaction import RecentEvent
from cluster.store.data.change_log import ChangeLogEntry
from tests.fakes.corner_shop import DAY_MS, MINUTE_MS, NOW_MS, interaction_change
from tests.fakes.trained_snapshot import (
    RECIPE,
    RING,
    get_serving_model,
    load_ring_model,
    name,
    open_ring_shop,
)

WITHOUT_REPEATS: dict[str, Any] = {
    "parts": {"rules": RECIPE["parts"]["rules"], "trend": {"learner": "popularity"}},
    "blend": {"weights": {"rules": 1.0, "trend": 0.1}, "weights_new": {"trend": 1.0}},
}


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> LoadedSnapshot:
    return load_ring_model(tmp_path_factory.mktemp("snapshot") / "ring", **WITHOUT_REPEATS)


def _happened(numbers: list[int], kind: str = "like", **who: str) -> list[dict[str, Any]]:
    """Return interactions of a user, oldest first, an hour apart, up to three days ago."""
    return [
        {
            "type": kind,
            **(who or {"user_id": "ada"}),
            "product_ids": [name(number)],
            "timestamp": iso_ms(NOW_MS - 3 * DAY_MS - 60 * MINUTE_MS * (len(numbers) - at)),
        }
        for at, number in enumerate(numbers)
    ]


def _recents(items: list[dict[str, Any]]) -> list[bytes]:
    """Return the recent list of some interactions: the newest first, at most 200."""
    times = [NOW_MS - 3 * DAY_MS - 60 * MINUTE_MS * (len(items) - at) for at in range(len(items))]
    events = [
        RecentEvent(item["type"], tuple(item["product_ids"]), at_ms)
        for item, at_ms in zip(items, times, strict=True)
    ]
    return [event.pack() for event in reversed(events)][:200]


def _open(items: list[dict[str, Any]], model: LoadedSnapshot | None = None) -> Recommender:
    shop = open_ring_shop()
    shop.apply(interaction_change(items, f"{NOW_MS - 900_000}-0"))
    if model is not None:
        shop.set_serving_model("default", ServingModel(model, shop.overlay.catalog.product_ids))
    return shop


def _signals(shop: Recommender, recent: list[bytes], **who: str) -> UserSignals:
    state = shop.default_engine_state
    query = UserQuery("user_to_products", "shop", "default", **(who or {"user_id": "ada"}))  # type: ignore[arg-type]
    events = parse_recent_events(recent)
    return build_user_signals(query, events, state, state.get_item_priors(NOW_MS), NOW_MS)


def _ids(shop: Recommender, recent: list[bytes], **more: Any) -> list[str]:
    query = UserQuery("user_to_products", "shop", "default", user_id="ada", rows=RING, **more)
    return [product["product_id"] for product in dispatch.answer(shop, query, recent, (), NOW_MS).products]


LONG = [number % 3 for number in range(40)] + [5 + number % 2 for number in range(220)]
"The products 0, 1 and 2, and then 5 and 6 for more events than a recent list has."


def test_products_of_the_whole_history_are_left_out(model: LoadedSnapshot) -> None:
    items = _happened(LONG)
    shown = _ids(_open(items, model), _recents(items))
    assert {name(number) for number in (0, 1, 2, 5, 6)}.isdisjoint(shown)
    assert len(shown) == RING - 5


def test_an_explanation_names_an_old_event(model: LoadedSnapshot) -> None:
    items = _happened(LONG)
    query = UserQuery(
        "user_to_products", "shop", "default", user_id="ada", explain=True, explain_missing=(name(1),)
    )
    result = dispatch.answer(_open(items, model), query, _recents(items), (), NOW_MS)
    assert result.explanation is not None
    (missing,) = result.explanation["missing"]
    assert missing["reasons"][0]["reason"] == "seen"
    assert "as" not in missing["reasons"][0]


def test_a_profile_has_the_old_events_behind_the_new_ones(model: LoadedSnapshot) -> None:
    items = _happened(LONG)
    signals = _signals(_open(items, model), _recents(items))
    row_of = _open(items).overlay.catalog.row_by_id
    assert signals.profile.rows[:2].tolist() == [row_of[name(6)], row_of[name(5)]]
    assert set(signals.profile.rows.tolist()) == {row_of[name(number)] for number in (0, 1, 2, 5, 6)}
    times = signals.profile.interactions.at_ms
    assert list(times) == sorted(times, reverse=True)
    assert len(times) == len(LONG), "each event once"


def test_a_short_history_needs_only_the_recent_list(model: LoadedSnapshot) -> None:
    items = _happened([3, 4, 5])
    assert _signals(_open(items, model), _recents(items)).older is None


def test_a_list_that_expired_leaves_the_history(model: LoadedSnapshot) -> None:
    items = _happened([3, 4, 5])
    signals = _signals(_open(items, model), _recents(items)[:1])
    assert signals.older is not None
    assert signals.older.rows.tolist() == [4, 3]
    assert _signals(_open(items, model), []).history_profile.has_signal


def test_a_visitor_has_the_recent_list_alone(model: LoadedSnapshot) -> None:
    items = _happened([3, 4, 5], anonymous_id="ada")
    assert _signals(_open(items, model), [], anonymous_id="ada").older is None
    assert _signals(_open(items, model), [], user_id="ada").older is None


def test_simulated_events_hide_no_old_ones(model: LoadedSnapshot) -> None:
    items = _happened([3, 4, 5])
    shop = _open(items, model)
    simulated = tuple(RecentEvent("like", (name(9),), NOW_MS - at) for at in range(5))
    assert {name(3), name(4), name(5), name(9)}.isdisjoint(_ids(shop, [], simulated=simulated))


def test_late_imports_are_put_in_order(model: LoadedSnapshot) -> None:
    items = _happened([3, 4, 5])
    signals = _signals(_open([items[2], items[0], items[1]], model), [])
    assert signals.older is not None
    assert signals.older.rows.tolist() == [5, 4, 3]


def test_an_erasure_reaches_the_whole_history(model: LoadedSnapshot) -> None:
    items = _happened(LONG)
    shop = _open(items, model)
    shop.apply(ChangeLogEntry("interaction", f"{NOW_MS}-0", "erase", b'["u:ada"]'))
    signals = _signals(shop, [])
    assert signals.older is None
    assert not signals.history_profile.has_signal


def test_purchases_count_where_other_events_lead_to_them(model: LoadedSnapshot) -> None:
    items = [*_happened([1, 2], "checkout"), *_happened([3, 4] * 120)]
    shop = _open(items, model)
    serving = get_serving_model(shop)
    serving.allows_repeats, serving.consumed_kinds = True, frozenset({"checkout"})
    shown = _ids(shop, _recents(items))
    assert {name(1), name(2)}.isdisjoint(shown)
    assert {name(3), name(4)} <= set(shown)


@pytest.mark.parametrize(
    ("pauses", "hidden"),
    [
        ((("like", 0),), set()),
        ((("*", 0),), set()),
        ((("click", 0),), {0, 1, 2, 5, 6}),
        ((("like", 4 * DAY_MS),), {5, 6}),
        ((("*", 3 * DAY_MS + 2 * 60 * MINUTE_MS),), {6}),
        ((("*", 0), ("like", 30 * DAY_MS)), {0, 1, 2, 5, 6}),
    ],
)
def test_a_pause_by_type_replaces_what_the_snapshot_leaves_out(
    model: LoadedSnapshot, pauses: tuple[tuple[str, int], ...], hidden: set[int]
) -> None:
    items = _happened(LONG)
    shown = _ids(_open(items, model), _recents(items), repeat_after_ms=pauses)
    assert set(shown) == {name(number) for number in range(RING) if number not in hidden}


def test_a_snapshot_with_pauses_hides_what_has_none(model: LoadedSnapshot) -> None:
    """Its repeats have weight for products whose pause ended; other types stay hidden."""
    items = [*_happened([1, 2], "checkout"), *_happened([3, 4])]
    shop = _open(items, model)
    serving = get_serving_model(shop)
    assert serving.allows_repeats is False
    shown = set(_ids(shop, _recents(items), repeat_after_ms=(("checkout", 0),)))
    assert {name(1), name(2)} <= shown
    assert {name(3), name(4)}.isdisjoint(shown)


def test_pauses_hold_without_a_snapshot() -> None:
    items = _happened([3, 4, 5])
    shown = _ids(_open(items), _recents(items), repeat_after_ms=(("like", 3 * DAY_MS + 90 * MINUTE_MS),))
    assert name(5) not in shown
    assert {name(3), name(4)} <= set(shown)
