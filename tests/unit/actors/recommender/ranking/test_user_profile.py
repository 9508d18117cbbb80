from __future__ import annotations

import numpy as np
import pytest

from actors.recommender.ranking.user_profile import (
    UserProfile,
    build_user_profile,
    find_interaction_rows,
    list_recent_rows,
    parse_recent_events,
    select_history,
)
from actors.recommender.recommender import Recommender
from actors.recommender.state.interaction_rows import RecentEventTuple
from cluster.records.interaction import RecentEvent
from tests.fakes.corner_shop import NOW_MS

VIEW = "product_detail_page_view"


def _recent_events(*events: tuple[str, str] | tuple[str, str, float]) -> list[RecentEventTuple]:
    """Newest first."""
    return [
        (event[0], event[1].split(), NOW_MS - number, event[2] if len(event) > 2 else 0.0)
        for number, event in enumerate(events)
    ]


def _ids(shop: Recommender, rows: list[int]) -> list[str]:
    return [shop.overlay.catalog.product_ids[row] for row in rows]


def _profile(shop: Recommender, events: list[RecentEventTuple]) -> UserProfile:
    return build_user_profile(find_interaction_rows(events, shop.overlay.catalog), shop.overlay.index)


def _recent(shop: Recommender, events: list[RecentEventTuple], most: int = 50) -> list[str]:
    return _ids(shop, list_recent_rows(find_interaction_rows(events, shop.overlay.catalog), most))


def _weights(shop: Recommender, events: list[RecentEventTuple]) -> dict[str, float]:
    profile = _profile(shop, events)
    return dict(zip(_ids(shop, profile.rows.tolist()), profile.weights.tolist(), strict=True))


def test_recent_lists_are_read_whole_and_simulated_events_come_first() -> None:
    packed = [RecentEvent("click", (f"p{n}",), NOW_MS - n).pack() for n in range(3)]
    simulated = [RecentEvent("like", ("old",), 5), RecentEvent("like", ("new",), 6)]
    assert [events[1][0] for events in parse_recent_events(packed, simulated)] == [
        "new",
        "old",
        "p0",
        "p1",
        "p2",
    ]
    assert parse_recent_events([]) == []


def test_a_damaged_event_is_skipped() -> None:
    packed = [
        RecentEvent("click", ("p0",), NOW_MS).pack(),
        b"\x00{",
        RecentEvent("click", ("p1",), NOW_MS).pack(),
    ]
    assert [events[1][0] for events in parse_recent_events(packed)] == ["p0", "p1"]


def test_newer_products_weigh_more(shop: Recommender) -> None:
    weights = _weights(shop, _recent_events((VIEW, "draw-hoe"), (VIEW, "bread-knife"), (VIEW, "teapot")))
    assert weights["draw-hoe"] > weights["bread-knife"] > weights["teapot"] > 0


def test_a_purchase_weighs_more_than_a_look(shop: Recommender) -> None:
    weights = _weights(shop, _recent_events((VIEW, "draw-hoe"), ("checkout", "bread-knife")))
    assert weights["bread-knife"] > weights["draw-hoe"]


def test_the_lines_of_one_basket_are_equally_recent(shop: Recommender) -> None:
    weights = _weights(shop, _recent_events(("checkout", "draw-hoe bread-knife teapot")))
    assert len(set(weights.values())) == 1


def test_dislikes_turn_the_vector_away_and_are_no_liked_rows(shop: Recommender) -> None:
    events = _recent_events(("dislike", "bread-knife"))
    profile = _profile(shop, events)
    assert profile.has_signal
    assert len(profile.rows) == 0
    assert profile.vector is not None
    row = shop.overlay.catalog.row_of("carving-knife")
    assert shop.overlay.index.scores(profile.vector)[row] < -0.2


def test_missing_products_and_exposures_give_an_empty_profile(shop: Recommender) -> None:
    events = _recent_events(("click", "nobody"), ("impression", "draw-hoe"), (VIEW, "draw-hoe", 2.0))
    assert not _profile(shop, events).has_signal


def test_the_vector_has_length_one(shop: Recommender) -> None:
    profile = _profile(shop, _recent_events((VIEW, "draw-hoe"), (VIEW, "teapot")))
    assert profile.vector is not None
    assert float(np.linalg.norm(profile.vector)) == pytest.approx(1, abs=1e-5)


def test_recent_products_are_whatever_was_dealt_with_but_not_what_was_shown(shop: Recommender) -> None:
    events = _recent_events(
        ("dislike", "teapot"), ("impression", "hand-fork"), (VIEW, "draw-hoe", 1.0), ("click", "teapot")
    )
    assert _recent(shop, events) == ["teapot", "draw-hoe"]
    assert _recent(shop, events, 1) == ["teapot"]


def test_a_group_in_the_history_stands_for_its_product(shop: Recommender) -> None:
    assert _recent(shop, _recent_events(("click", "group:trowel"))) == ["trowel-green"]


def test_histories_pick_their_kind_of_event() -> None:
    events = _recent_events((VIEW, "a"), ("checkout", "b"), ("read", "c"), ("add_to_cart", "d"))
    picked = {name: [event[1][0] for event in select_history(events, name)] for name in
              ("last_view", "last_checkout", "last_read", "last_add_to_cart", "")}  # fmt: skip
    assert picked == {
        "last_view": ["a"], "last_checkout": ["b"], "last_read": ["c"], "last_add_to_cart": ["d"],
        "": ["a", "b", "c", "d"],
    }  # fmt: skip
