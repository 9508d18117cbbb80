from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pytest

from actors.language.hashing_embedder import HashingEmbedder
from actors.models.loading.snapshot import Snapshot
from actors.models.loading.snapshot_models import LoadedSnapshot
from actors.models.loading.validation import validate_snapshot
from actors.models.model import Batch
from actors.models.user_histories import UserHistories
from actors.models.user_history import UserHistory
from actors.recommender.messages import QueryKind, RecommendationResult, UserQuery
from actors.recommender.ranking.ranking import Ranking
from actors.recommender.ranking.score import explain_rows, list_sources, personal_scores
from actors.recommender.ranking.user_profile import (
    build_user_profile,
    find_interaction_rows,
    parse_recent_events,
)
from actors.recommender.recommender import Recommender
from actors.recommender.state.interaction_rows import WeightedInteractions
from actors.recommender.state.serving_model import ServingModel
from actors.serving import dispatch
from actors.vectors.snapshot_arrays import ModelState
from cluster.clock import iso_ms
from cluster.errors import Fault
from cluster.query.language.parser import parse as parse_filter
from cluster.records.interaction import RecentEvent
from cluster.store.data.change_log import ChangeLogEntry
from jobs.refresh.build.fit import train_engine
from jobs.refresh.build.model_snapshot import write_model_snapshot
from jobs.refresh.data.profiles import Profiles
from jobs.refresh.recipe import parse_recipe
from tests.fakes.corner_shop import DAY_MS, MINUTE_MS, NOW_MS, interaction_change, product_change, view
from tests.fakes.search_queries import ids
from tests.fakes.trained_snapshot import (
    RECIPE,
    RING,
    get_serving_model,
    load_ring_model,
    name,
    open_ring_shop,
    ring_data,
    ring_products,
    ring_walks,
    serve_snapshot,
)


@pytest.fixture(scope="module")
def ring(tmp_path_factory: pytest.TempPathFactory) -> LoadedSnapshot:
    return load_ring_model(tmp_path_factory.mktemp("snapshots") / "one")


@pytest.fixture
def shop(ring: LoadedSnapshot) -> Recommender:
    return open_ring_shop(ring)


def test_a_history_has_the_weights_of_the_recipe_in_their_range(tmp_path: Path) -> None:
    learned = load_ring_model(tmp_path / "s", events={"weights": {"rate": 1.0, "watch": 0.6}})
    model = ServingModel(learned, [name(number) for number in range(RING)])
    kinds = ["rate", "rate", "watch", "click"]
    steps = WeightedInteractions([0, 1, 2, 3], [NOW_MS] * 4, [1.0, -0.5, 0.4, 0.3], kinds)
    assert model.build_history(steps, NOW_MS).weights.tolist() == pytest.approx([1.0, -1.0, 0.8, 0.3])


def looked_at(*numbers: int) -> list[bytes]:
    """A recent list: these products of the ring, the last one newest."""
    return [
        RecentEvent("click", (name(number),), NOW_MS - MINUTE_MS * (at + 1)).pack()
        for at, number in enumerate(reversed(numbers))
    ]


def ask(
    shop: Recommender, kind: QueryKind = "user_to_products", recent: list[bytes] | None = None, **more: Any
) -> RecommendationResult:
    query = UserQuery(kind, "shop", more.pop("engine_id", "default"), user_id="somebody", **more)
    return dispatch.answer(shop, query, recent or [], (), NOW_MS)


def upload(shop: Recommender, product: dict[str, Any], at: int = 1) -> None:
    shop.apply(product_change([product], f"{NOW_MS + at}-0"))


def test_what_was_learned_is_recommended_though_nothing_happened_since(shop: Recommender) -> None:
    result = ask(shop, recent=looked_at(6, 7), rows=3)
    assert ids(result)[0] == name(8)
    assert result.served_by == "personal"


def test_engines_of_one_app_differ_in_their_snapshots_only(shop: Recommender) -> None:
    other = ask(shop, recent=looked_at(6, 7), rows=RING, engine_id="other")
    assert ids(other)[0] != name(8)
    assert set(ids(other)) == set(ids(ask(shop, recent=looked_at(6, 7), rows=RING)))


def test_users_without_history_get_popular_products_of_the_snapshot(shop: Recommender) -> None:
    priors = shop.default_engine_state.get_item_priors(NOW_MS)
    assert [part.name for part in priors.components if part.weight_new] == ["learned:trend", "live:popular"]
    assert ask(shop, rows=5).served_by in ("trending", "newest")
    assert len(ids(ask(shop, rows=5))) == 5


def test_without_the_snapshot_the_live_parts_serve_as_before(shop: Recommender, ring: LoadedSnapshot) -> None:
    plain = open_ring_shop()
    shop.set_serving_model("default", None)
    assert ids(ask(shop, recent=looked_at(3), rows=9)) == ids(ask(plain, recent=looked_at(3), rows=9))


def test_deleted_and_sold_out_products_never_come_back_with_a_snapshot(shop: Recommender) -> None:
    assert ids(ask(shop, recent=looked_at(6, 7), rows=1)) == [name(8)]
    shop.apply(ChangeLogEntry("product", f"{NOW_MS + 1}-0", "remove", orjson.dumps([name(8)])))
    upload(shop, {**ring_products()[9], "availability": "OUT_OF_STOCK"}, at=2)
    for kind in ("user_to_products", "user_to_trending", "product_to_products"):
        result = ids(ask(shop, kind, recent=looked_at(6, 7), rows=RING, anchors=(name(7),)))
        assert result
        assert not {name(8), name(9)} & set(result)


def test_a_snapshot_of_products_that_are_gone_serves_the_others(ring: LoadedSnapshot) -> None:
    shop = Recommender(HashingEmbedder())
    shop.apply(product_change([ring_products()[number] for number in (2, 4, 5, 20)], f"{NOW_MS}-0"))
    serve_snapshot(shop, ring)
    assert ids(ask(shop, recent=looked_at(3, 4), rows=1)) == [name(5)]
    upload(shop, ring_products()[6])
    assert ids(ask(shop, recent=looked_at(4, 5), rows=1)) == [name(6)], (
        "uploaded after the snapshot was adopted"
    )


def test_clicks_of_a_second_ago_count_before_any_retraining(shop: Recommender) -> None:
    upload(shop, {"product_id": "clasp", "title": "Clasp", "type": "tool", "categories": [["tools"]]})
    before = ids(ask(shop, recent=looked_at(3), rows=RING))
    clicks = [
        view(f"u{n}", product, ago_ms=MINUTE_MS * (2 - at))
        for n in range(6)
        for at, product in enumerate((name(3), "clasp"))
    ]
    shop.apply(interaction_change(clicks, f"{NOW_MS + 5}-0"))
    after = ids(ask(shop, recent=looked_at(3), rows=RING))
    assert after.index("clasp") < 3 < before.index("clasp")


def test_cold_start_products_inherit_scores_of_similar_products(ring: LoadedSnapshot) -> None:
    shop = open_ring_shop(offset=f"{NOW_MS}-0")
    twin = {**ring_products()[8], "product_id": "twin"}
    stranger = {"product_id": "stranger", "title": "Umbrella stand", "type": "x", "categories": [["hall"]]}
    shop.apply(product_change([twin, stranger], f"{NOW_MS + 1}-0"))
    serve_snapshot(shop, ring)
    result = ids(ask(shop, recent=looked_at(6, 7), rows=RING + 2))
    assert result.index("twin") < 8 < result.index("stranger")


def test_similar_products_of_a_new_one_follow_the_catalog_not_the_moments_of_refreshes(
    ring: LoadedSnapshot,
) -> None:
    def change(shop: Recommender, at: int, *products: dict[str, Any]) -> None:
        shop.apply(product_change(list(products), f"{NOW_MS + at}-0"))
        if shop is lived_in:
            shop.default_engine_state.get_item_priors(NOW_MS + at)

    lived_in, renewed = Recommender(HashingEmbedder()), Recommender(HashingEmbedder())
    products = ring_products()
    bead = {"product_id": "bead", "title": "Umbrella stand", "type": "x", "categories": [["hall"]]}
    for shop in (lived_in, renewed):
        shop.apply(product_change(products, f"{NOW_MS}-0"))
        serve_snapshot(shop, ring)
        change(shop, 1, bead)
        # a similar product sells out, another one becomes similar, and the new product itself is another one
        change(shop, 2, {**products[8], "title": bead["title"], "categories": bead["categories"]})
        change(shop, 3, {**products[9], "availability": "OUT_OF_STOCK"})
        change(shop, 4, {**products[11], "product_id": "bead"})
        change(shop, 5, {**products[12], "availability": "OUT_OF_STOCK"})
        change(shop, 6, {**products[9], "availability": "IN_STOCK"})
        change(shop, 7, {**products[20], "title": products[11]["title"], "type": products[11]["type"]})
    items = [shop.default_engine_state.get_item_priors(NOW_MS + 9).cold_start for shop in (lived_in, renewed)]
    assert len(items[0]) == 1
    assert [set(item.neighbours[0].tolist()) for item in items] == [set(items[1].neighbours[0].tolist())] * 2
    assert np.sort(items[0].weights[0]).tolist() == pytest.approx(np.sort(items[1].weights[0]).tolist())


def test_parts_of_a_score_sum_to_it_and_name_where_it_comes_from(shop: Recommender) -> None:
    upload(shop, {"product_id": "clasp", "title": "Clasp", "type": "tool", "categories": [["tools"]]})
    shop.apply(
        interaction_change([view("u1", name(7), ago_ms=9_000), view("u1", "clasp")], f"{NOW_MS + 5}-0")
    )
    state, priors = shop.default_engine_state, shop.default_engine_state.get_item_priors(NOW_MS)
    catalog = shop.overlay.catalog
    profile = build_user_profile(
        find_interaction_rows(parse_recent_events(looked_at(6, 7)), catalog), shop.overlay.index
    )
    scores = Ranking(priors.prior, personal_scores(profile, state, priors), None).scores
    rows = list(range(len(priors)))
    explained = explain_rows(rows, profile, state, priors)
    for row, parts in zip(rows, explained, strict=True):
        assert sum(parts.values()) == pytest.approx(float(scores[row]), abs=1e-3)
    some = [catalog.row_of("clasp"), catalog.row_of(name(8)), catalog.row_of(name(20))]
    personal = personal_scores(profile, state, priors).get_scores(np.array(some))
    assert (personal + priors.prior.scores[some]).tolist() == pytest.approx(scores[some].tolist(), abs=1e-4)
    assert len(priors.cold_start), "one of them is new"
    assert list_sources(explained[catalog.row_of(name(8))])[0].startswith("learned:")
    assert "live:together" in list_sources(explained[catalog.row_of("clasp")])


def test_what_goes_with_a_product_follows_the_ring_and_the_session(shop: Recommender) -> None:
    result = ask(shop, "product_to_products", anchors=(name(12),), rows=3)
    assert ids(result)[0] == name(13)
    assert result.served_by == "similar"
    bought = ask(shop, "product_to_products", anchors=(name(12),), rows=2, buy_together=True)
    assert set(ids(bought)) == {name(11), name(13)}
    assert bought.served_by == "baskets"


def test_seen_products_come_again_only_when_nothing_else_is_left(shop: Recommender) -> None:
    seen = looked_at(*range(RING - 1))
    result = ask(shop, recent=seen, rows=5)
    assert name(RING - 1) in ids(result)
    again = ask(shop, recent=looked_at(*range(RING)), rows=5)
    assert again.served_by == "seen_again"
    assert len(again.products) == 5


def test_without_repeat_consumption_all_seen_products_are_excluded(shop: Recommender) -> None:
    for number in range(150):
        upload(
            shop, {"product_id": f"more-{number}", "title": f"Bead {number}", "type": "other"}, at=number + 1
        )
    taken = [f"more-{number}" for number in range(140)]
    recent = [
        RecentEvent("click", (name(0),), NOW_MS - MINUTE_MS).pack(),
        RecentEvent("checkout", tuple(taken[:90]), NOW_MS - 2 * MINUTE_MS).pack(),
        RecentEvent("checkout", tuple(taken[90:]), NOW_MS - 3 * MINUTE_MS).pack(),
    ]
    result = ids(ask(shop, recent=recent, rows=20, type="other"))
    assert sorted(result) == sorted(f"more-{number}" for number in range(140, 150))


def test_where_readers_return_only_the_running_session_is_left_out(tmp_path: Path) -> None:
    recipe = {"repeats": {"learner": "repeats"}, "rules": {"learner": "rules"}}
    snapshot = load_ring_model(
        tmp_path / "s", parts=recipe, blend={"weights": {"repeats": 1.0, "rules": 1.0}, "weights_new": {}}
    )
    shop = open_ring_shop(snapshot, f"{NOW_MS}-0")
    yesterday = [RecentEvent("checkout", (name(3),), NOW_MS - 86_400_000).pack()]
    result = ids(ask(shop, recent=[*looked_at(20), *yesterday], rows=4))
    assert name(3) in result
    assert name(20) not in result


def test_readers_nobody_knows_get_what_their_kind_takes(tmp_path: Path) -> None:
    data = ring_data()
    kinds = {0: "AT", 1: "CH"}
    first = np.zeros(data.n_readers, np.int64)
    first[data.reader[::-1]] = data.item[::-1]
    codes = (first >= RING // 2).astype(np.int32)[:, None]
    data = replace(data, profiles=Profiles(("country",), (tuple(kinds.values()),), codes))
    recipe = parse_recipe({**RECIPE, "cohorts": {"prior": 10.0, "half_life_days": None}})
    manifest = write_model_snapshot(train_engine(recipe, data), tmp_path / "s", written_at_ms=1)
    learned = validate_snapshot(Snapshot.open(tmp_path / "s"), str(manifest.facts["version"]))
    shop = open_ring_shop(learned, f"{NOW_MS}-0")
    plain = ask(shop, rows=10)
    for country, numbers in (("AT", range(RING // 2 + 4)), ("CH", range(RING // 2, RING + 4))):
        result = ask(shop, rows=8, cohort={"country": country})
        assert result.served_by == "cohort"
        assert set(ids(result)) <= {name(number) for number in numbers}
    assert plain.served_by == "trending"
    assert ids(ask(shop, rows=10, cohort={"country": "XX"})) == ids(plain)
    assert ask(shop, recent=looked_at(3), cohort={"country": "AT"}).served_by == "personal"


def test_every_new_product_is_tried_on_some_readers_and_on_nobody_first(shop: Recommender) -> None:
    new = [{"product_id": f"odd-{n}", "title": f"Umbrella {n}", "type": "x"} for n in range(6)]
    shop.apply(product_change(new, f"{NOW_MS + 1}-0"))
    seen: Counter[str] = Counter()
    for number in range(200):
        query = UserQuery("user_to_products", "shop", "default", user_id=f"reader {number}", rows=10)
        result = ids(dispatch.answer(shop, query, looked_at(3, 4), (), NOW_MS))
        assert result == ids(dispatch.answer(shop, query, looked_at(3, 4), (), NOW_MS)), "the same all day"
        assert len(result) == len(set(result)) == 10
        odd = [product_id for product_id in result if product_id.startswith("odd")]
        assert len(odd) <= 1
        assert not result[0].startswith("odd")
        seen.update(odd)
    assert set(seen) == {product["product_id"] for product in new}
    assert 50 < seen.total() < 150, "half of the places of a stretch are on the page"
    none = ask(shop, recent=looked_at(3, 4), rows=10, filter=parse_filter("type:bead"))
    assert not [product_id for product_id in ids(none) if product_id.startswith("odd")]


def test_session_context_counts_beside_a_snapshot(shop: Recommender) -> None:
    result = ask(shop, rows=5, context={"brand": "maker-1"})
    assert result.served_by == "context"
    assert ids(result)[0] in {name(number) for number in range(1, RING, 3)}


def test_votes_that_fade_are_taken_from_the_live_counters_as_soon_as_they_hold_enough(
    shop: Recommender,
) -> None:
    def trend() -> dict[str, float]:
        priors = shop.default_engine_state.get_item_priors(NOW_MS + 2_000 * shop.overlay.events_version)
        (part,) = (part for part in priors.components if part.name == "learned:trend")
        return dict(zip(shop.overlay.catalog.product_ids, part.values.tolist(), strict=True))

    learned_only = trend()
    few = [view("u1", name(3)), view("u2", name(3))]
    shop.apply(interaction_change(few, f"{NOW_MS + 1}-0"))
    both = trend()
    assert both[name(3)] > learned_only[name(3)]
    others = [name(number) for number in range(RING) if number != 3]
    assert sorted(others, key=both.__getitem__) == sorted(others, key=learned_only.__getitem__)
    many = [view(f"v{n}", name(5)) for n in range(4_000)]
    shop.apply(interaction_change(many, f"{NOW_MS + 2}-0"))
    live = trend()
    assert max(live, key=live.__getitem__) == name(5)
    assert len({live[name(number)] for number in range(RING) if number not in (3, 5)}) == 1, (
        "only live votes count"
    )


@pytest.mark.parametrize("years", [1, 2, 4, 30])
def test_a_trend_of_a_day_survives_a_snapshot_of_data_from_years_ago(tmp_path: Path, years: int) -> None:
    parts = {**RECIPE["parts"], "trend": {"learner": "popularity", "half_life_days": 1.0}}
    shop = open_ring_shop(load_ring_model(tmp_path / "old", parts=parts))
    later_ms = NOW_MS + years * 365 * DAY_MS
    clicks = [{**view(f"v{n}", name(n % 2)), "timestamp": iso_ms(later_ms)} for n in range(3)]
    shop.apply(interaction_change(clicks, f"{later_ms + 1}-0"))
    priors = shop.default_engine_state.get_item_priors(later_ms + 2)
    (trend,) = (part for part in priors.components if part.name == "learned:trend")
    order = sorted(zip(trend.values.tolist(), shop.overlay.catalog.product_ids, strict=True), reverse=True)
    assert [product for _, product in order[:2]] == [name(0), name(1)]
    assert order[1][0] > order[2][0] + 1
    assert ids(ask(shop, rows=2)) == [name(0), name(1)]


def test_where_carts_lead_to_purchases_only_what_was_bought_and_the_session_are_left_out(
    tmp_path: Path,
) -> None:
    snapshot = load_ring_model(tmp_path / "s", validation={"seen": "other_kinds", "kinds": ["checkout"]})
    shop = open_ring_shop(snapshot, f"{NOW_MS}-0")
    recent = [
        RecentEvent("click", (name(2),), NOW_MS - MINUTE_MS).pack(),
        RecentEvent("add_to_cart", (name(3),), NOW_MS - 86_400_000).pack(),
        RecentEvent("checkout", (name(4),), NOW_MS - 86_400_000).pack(),
    ]
    result = ids(ask(shop, recent=recent, rows=RING))
    assert name(3) in result, "it lay in the cart and was not bought"
    assert not {name(2), name(4)} & set(result)


def test_what_a_snapshot_knows_is_not_counted_again(ring: LoadedSnapshot) -> None:
    shop = open_ring_shop(offset=f"{NOW_MS - 90 * DAY_MS}-0")
    walked = [
        view(user_key.removeprefix("u:"), product_id, ago_ms=int(NOW_MS - at_s * 1_000))
        for user_key, product_id, at_s, _ in sorted(ring_walks(), key=lambda walk: walk[2])
    ]
    shop.apply(interaction_change(walked, f"{NOW_MS}-0"))
    serve_snapshot(shop, ring)
    state, priors = shop.default_engine_state, shop.default_engine_state.get_item_priors(NOW_MS)
    model = state.serving_model
    assert model is not None
    assert model.fresh.max() < 1e-6, "all votes are from before it was made"
    profile = build_user_profile(
        find_interaction_rows(parse_recent_events(looked_at(6, 7)), shop.overlay.catalog), shop.overlay.index
    )
    parts = explain_rows(list(range(RING)), profile, state, priors)
    assert not any("live:together" in score_parts for score_parts in parts)
    shop.apply(interaction_change([view(f"n{n}", name(7)) for n in range(50)], f"{NOW_MS + 9}-0"))
    shop.default_engine_state.get_item_priors(NOW_MS + 10)
    assert model.fresh[shop.overlay.catalog.row_of(name(7))] > 0.05


class Moody:
    """A learner of somebody else, whose model answers only those without a history."""

    def train(self, data: Any, rng: Any) -> Moody:
        return self

    def load(self, parts: ModelState) -> Moody:
        return self

    def save(self) -> ModelState:
        return ModelState({})

    def score(self, histories: UserHistories) -> Batch:
        if histories.lengths.any():
            raise RuntimeError("not today")
        return np.zeros((len(histories), histories.n_items), np.float32)


def test_a_part_of_somebody_else_that_fails_is_silenced_and_the_others_answer(
    tmp_path: Path, allow_learners: Callable[..., None]
) -> None:
    allow_learners(f"{__name__}:Moody")
    parts = {**RECIPE["parts"], "moody": {"learner": f"{__name__}:Moody"}}
    weights = {**RECIPE["blend"], "weights": {"rules": 1.0, "moody": 1.0}}
    shop = open_ring_shop(load_ring_model(tmp_path / "s", parts=parts, blend=weights), f"{NOW_MS}-0")
    for _ in range(2):
        assert ids(ask(shop, recent=looked_at(6, 7), rows=1)) == [name(8)]
    model = get_serving_model(shop)
    assert model.disabled_parts == {"learned:moody": "RuntimeError('not today')"}


class Dizzy(Moody):
    """A part of somebody else that answers with what is no number."""

    def train(self, data: Any, rng: Any) -> Dizzy:
        return Dizzy()

    def load(self, parts: ModelState) -> Dizzy:
        return Dizzy()

    def score(self, histories: UserHistories) -> Any:
        value = np.nan if histories.lengths.any() else 0.0
        return np.full((len(histories), histories.n_items), value, np.float32)


class Astray(Moody):
    """A part of somebody else that is quick, and speaks of items there are not."""

    def __init__(self, item: int) -> None:
        self.item = item

    def quick(self, past: UserHistory) -> Any:
        return np.array([3, self.item]), np.ones(2, np.float32)


class Fickle(Moody):
    """A part of somebody else that says the same to everybody, a few times."""

    def __init__(self, times: int) -> None:
        self.times = times

    def train(self, data: Any, rng: Any) -> Fickle:
        return Fickle(self.times)

    def load(self, parts: ModelState) -> Fickle:
        return Fickle(self.times)

    def score(self, histories: UserHistories) -> Any:
        return np.zeros((len(histories), histories.n_items), np.float32)

    def common(self) -> Any:
        self.times -= 1
        if self.times < 0:
            raise RuntimeError("not today")
        return np.zeros(RING, np.float32)


@pytest.mark.parametrize(
    ("learner", "config"), [("Dizzy", {}), ("Astray", {"item": -1}), ("Astray", {"item": RING})]
)
def test_a_part_of_somebody_else_that_answers_nonsense_spoils_no_list(
    tmp_path: Path, learner: str, config: dict[str, int], allow_learners: Callable[..., None]
) -> None:
    allow_learners(f"{__name__}:{learner}")
    parts = {**RECIPE["parts"], "odd": {"learner": f"{__name__}:{learner}", "config": config}}
    weights = {**RECIPE["blend"], "weights": {"rules": 1.0, "odd": 1.0}}
    shop = open_ring_shop(load_ring_model(tmp_path / "s", parts=parts, blend=weights), f"{NOW_MS}-0")
    assert ids(ask(shop, recent=looked_at(6, 7), rows=1)) == [name(8)]
    model = get_serving_model(shop)
    assert list(model.disabled_parts) == ["learned:odd"]


def test_a_custom_shared_scores_model_that_fails_is_disabled(
    tmp_path: Path, allow_learners: Callable[..., None]
) -> None:
    allow_learners(f"{__name__}:Fickle")

    def trained(times: int) -> LoadedSnapshot:
        fickle = {"learner": f"{__name__}:Fickle", "config": {"times": times}}
        weights = {**RECIPE["blend"], "weights": {"rules": 1.0, "fickle": 1.0}}
        return load_ring_model(
            tmp_path / str(times), parts={**RECIPE["parts"], "fickle": fickle}, blend=weights
        )

    shop = open_ring_shop(trained(1), f"{NOW_MS}-0")  # which is asked once before it serves
    assert ids(ask(shop, recent=looked_at(6, 7), rows=1)) == [name(8)]
    model = get_serving_model(shop)
    assert model.disabled_parts == {"learned:fickle": "RuntimeError('not today')"}
    with pytest.raises(Fault, match="not today"):
        trained(0)


def test_only_what_takes_long_needs_a_thread(shop: Recommender, monkeypatch: pytest.MonkeyPatch) -> None:
    query = UserQuery("user_to_products", "shop", "default")
    assert dispatch.is_light(shop, query)
    monkeypatch.setattr(dispatch, "_FEW_PRODUCTS", 0)
    assert dispatch.is_light(shop, query)
    assert not dispatch.is_light(shop, replace(query, engine_id="untrained"))
    filtered = replace(query, filter=parse_filter("brand:maker-1"))
    assert not dispatch.is_light(shop, filtered), "the first filter on a field reads every record"
    dispatch.answer(shop, filtered, (), (), NOW_MS)
    assert dispatch.is_light(shop, filtered)
    grouped = replace(query, kind="user_to_attributes", field_name="brand")
    assert not dispatch.is_light(shop, grouped)
    dispatch.answer(shop, grouped, (), (), NOW_MS)
    assert dispatch.is_light(shop, grouped)
    monkeypatch.setattr(dispatch, "_MANY_PRODUCTS", 1)
    assert not dispatch.is_light(shop, query)
