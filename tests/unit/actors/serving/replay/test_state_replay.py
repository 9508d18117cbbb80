"""A recommender that moves through the past of an app has what was written by then, and nothing later."""

from __future__ import annotations

from typing import Any

import orjson
import pyarrow as pa
import pytest

from actors.language.hashing_embedder import HashingEmbedder
from actors.recommender.messages import UserQuery
from actors.serving.replay.state_replay import (
    MOST_RECENT,
    SEQUENCE_BITS,
    PastHistories,
    StateReplay,
    list_first_times,
    list_links,
    list_products_by_sign,
    product_id_of,
)
from cluster.artifacts.compacted_state import CompactedProducts, CompactedState
from cluster.artifacts.segment_format import INTERACTIONS, LOADED_INTERACTIONS

BEGIN_MS = 1_772_452_800_000


def event(at: int, user_key: str, *products: str, kind: str = "click", **more: Any) -> dict[str, Any]:
    """Return an interaction that was written `at` seconds after the beginning."""
    at_ms = BEGIN_MS + 1_000 * at
    row = (user_key, kind, at_ms, list(products), None, f"{at_ms}-0", orjson.dumps(more))
    return dict(zip(INTERACTIONS.names, row, strict=True))


def interactions(*events: dict[str, Any]) -> Any:
    return pa.Table.from_pylist(list(events), schema=INTERACTIONS)


def products(*names: str) -> CompactedProducts:
    bodies = [orjson.dumps({"product_id": name, "title": f"Thing {name}", "type": "thing"}) for name in names]
    table = pa.table(
        {"json": bodies, "embedder": [""] * len(names), "vector": pa.nulls(len(names), pa.binary())}
    )
    return CompactedProducts("", (table,))


def open_replay(*events: dict[str, Any], first_ms: dict[str, int] | None = None) -> StateReplay:
    table = interactions(*events).select(LOADED_INTERACTIONS.names)
    state = CompactedState({}, products(*"abcd"), table)
    past = list_products_by_sign(state.products, first_ms or {}, BEGIN_MS)
    reserved = map(product_id_of, state.products)
    return StateReplay(state, (), past, HashingEmbedder(), BEGIN_MS << SEQUENCE_BITS, reserved=reserved)


def trend(replayed: StateReplay, at: int) -> list[str]:
    query = UserQuery("user_to_trending", "shop", "default", rows=4)
    result = replayed.answer(query, (), BEGIN_MS + 1_000 * at)
    return [product["product_id"] for product in result.products]


def test_interactions_count_once_they_are_written() -> None:
    clicks = [event(10 + number, f"u:{number}", "c") for number in range(5)]
    replayed = open_replay(event(-5, "u:x", "b"), *clicks)
    assert trend(replayed, 0)[0] == "b"
    replayed.advance(BEGIN_MS + 10_000)
    assert trend(replayed, 10)[0] == "b"
    replayed.advance(BEGIN_MS + 20_000)
    assert trend(replayed, 20)[:2] == ["c", "b"]


def test_products_exist_from_their_first_sign_on() -> None:
    replayed = open_replay(event(-5, "u:x", "b"), first_ms={"d": BEGIN_MS + 5_000})
    assert sorted(trend(replayed, 0)) == ["a", "b", "c"]
    replayed.advance(BEGIN_MS + 6_000)
    assert sorted(trend(replayed, 6)) == ["a", "b", "c", "d"]


def test_the_first_sign_is_a_record_a_date_or_an_interaction() -> None:
    bodies = [b'{"published_at":"2026-01-05"}', b"{}", b'{"created_at":"no date"}']
    records = pa.table({"id": ["a", "b", "c"], "offset": [f"{BEGIN_MS}-0"] * 3, "json": bodies})
    first_ms = list_first_times([records], interactions(event(-9, "u:x", "b", "gone")))
    assert first_ms == {"a": 1_767_571_200_000, "b": BEGIN_MS - 9_000, "c": BEGIN_MS}


@pytest.mark.parametrize(("at", "names"), [(0, []), (2, ["a"]), (4, ["c", "a"]), (9, ["d", "c", "a"])])
def test_a_history_has_what_was_written_before_newest_first(at: int, names: list[str]) -> None:
    events = (
        event(1, "u:ada", "a"), event(2, "u:bob", "b"), event(3, "u:ada", "c"),
        event(4, "u:ada", "b", kind="impression"), event(5, "u:ada", "d"),
    )  # fmt: skip
    histories = PastHistories(interactions(*events), {})
    packed = histories.read("u:ada", BEGIN_MS + 1_000 * at)
    assert [orjson.loads(entry)[1] for entry in packed] == [[name] for name in names]
    assert histories.read("u:nobody", BEGIN_MS + 9_000) == []


def test_a_history_is_as_long_as_a_recent_list() -> None:
    events = [event(number, "u:ada", f"p{number}") for number in range(MOST_RECENT + 30)]
    packed = PastHistories(interactions(*events), {}).read("u:ada", BEGIN_MS + 10**9)
    assert len(packed) == MOST_RECENT
    assert orjson.loads(packed[0])[1] == [f"p{MOST_RECENT + 29}"]


def test_a_visitor_is_a_user_from_the_first_interaction_with_both_ids() -> None:
    events = (event(1, "a:v1", "a"), event(5, "u:ada", "b", anonymous_id="v1"), event(6, "u:ada", "c"))
    table = interactions(*events)
    links = list_links([table])
    assert links == {"u:ada": [("a:v1", BEGIN_MS + 5_000)], "a:v1": [("u:ada", BEGIN_MS + 5_000)]}
    histories = PastHistories(table, links)
    assert len(histories.read("u:ada", BEGIN_MS + 7_000)) == 3
    assert len(histories.read("a:v1", BEGIN_MS + 4_000)) == 1
