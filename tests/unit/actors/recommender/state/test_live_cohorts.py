"""Cohorts from the first interactions on: twenty users of two countries who take different products."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import polars as pl
import pytest

from actors.models.cohorts import LEAST_PRIOR, MOST_PRIOR, CohortModel, estimate_prior
from actors.models.loading.snapshot import Snapshot
from actors.models.loading.validation import validate_snapshot
from actors.recommender.messages import QueryKind, RecommendationResult, UserQuery
from actors.recommender.recommender import Recommender
from actors.recommender.state.serving_model import ServingModel
from actors.recommender.state.user_attributes import UserAttributes
from actors.serving import dispatch
from actors.vectors.snapshot_arrays import ModelState
from cluster.records.interaction import RecentEvent
from cluster.store.data.change_log import ChangeLogEntry
from jobs.refresh.build.fit import train_engine
from jobs.refresh.build.model_snapshot import write_model_snapshot
from jobs.refresh.data.dataset import FrameColumns, interactions_from_frame
from jobs.refresh.data.profiles import Profiles
from jobs.refresh.recipe import parse_recipe
from tests.fakes.corner_shop import DAY_MS, NOW_MS, interaction_change, open_catalog, view
from tests.fakes.search_queries import ids
from tests.fakes.trained_snapshot import RECIPE

BULBS, TOOLS = [f"b{n:02d}" for n in range(1, 11)], [f"t{n:02d}" for n in range(1, 11)]
PRODUCTS = [
    {
        "product_id": product_id,
        "title": f"Thing {product_id}",
        "type": "product",
        "categories": [["Bulbs" if product_id.startswith("b") else "Tools"]],
        "brand": "Fernhill" if product_id.startswith("b") else "Alder",
    }
    for product_id in (*BULBS, *TOOLS)
]
FR, GB = [f"u{n:02d}" for n in range(1, 9)], [f"u{n:02d}" for n in range(9, 17)]
USERS: list[dict[str, Any]] = [
    *(
        {"user_id": user, "country": "FR", "age": 25 + at, "custom_attributes": {"plan": "pro", "stars": 3}}
        for at, user in enumerate(FR)
    ),
    *(
        {
            "user_id": user,
            "country": "GB",
            "age": 65 + at,
            "custom_attributes": {"plan": "free", "stars": 2.5},
        }
        for at, user in enumerate(GB)
    ),
    *({"user_id": f"u{n:02d}", "country": "DE"} for n in range(17, 21)),
]
EVENTS: list[dict[str, Any]] = [
    view(user, product_id, kind=kind, ago_ms=60_000 * at)
    for users, product_ids in ((FR, ("b07", "b08")), (GB, ("t05", "t10")))
    for user in users
    for at, product_id in enumerate(product_ids)
    for kind in ("product_detail_page_view", "checkout")
]


def put_users(users: list[dict[str, Any]], at: int = 1) -> ChangeLogEntry:
    return ChangeLogEntry("user", f"{NOW_MS + at}-0", "put", orjson.dumps(users))


def events(items: list[dict[str, Any]], at: int = 1) -> ChangeLogEntry:
    return interaction_change(items, f"{NOW_MS + at}-0")


def open_shop() -> Recommender:
    return open_catalog(PRODUCTS, f"{NOW_MS - DAY_MS}-0")


@pytest.fixture
def shop() -> Recommender:
    shop = open_shop()
    shop.apply(put_users(USERS), events(EVENTS))
    return shop


def ask(shop: Recommender, kind: QueryKind = "user_to_products", **more: Any) -> RecommendationResult:
    query = UserQuery(kind, "shop", "default", anonymous_id="cold", rows=more.pop("rows", 20), **more)
    return dispatch.answer(shop, query, [], (), NOW_MS + 1_000)


def prefers(
    shop: Recommender, country: str, first: str, second: str, kind: QueryKind = "user_to_products"
) -> bool:
    result = ids(ask(shop, kind, cohort={"country": country}))
    return result.index(first) < result.index(second)


@pytest.mark.parametrize("kind", ["user_to_products", "user_to_trending"])
def test_a_cohort_sees_first_what_it_takes_before_any_training(shop: Recommender, kind: QueryKind) -> None:
    assert set(ids(ask(shop, kind, cohort={"country": "FR"}))[:2]) == {"b07", "b08"}
    assert set(ids(ask(shop, kind, cohort={"country": "GB"}))[:2]) == {"t05", "t10"}
    assert ask(shop, kind, cohort={"country": "FR"}).served_by == "cohort"


@pytest.mark.parametrize("kind", ["user_to_products", "user_to_trending"])
@pytest.mark.parametrize(
    "cohort", [{"country": "XX"}, {"nobody": "has"}, {"country": "DE"}, {"country": True}]
)
def test_a_cohort_nobody_knows_gets_the_plain_list(
    shop: Recommender, kind: QueryKind, cohort: dict[str, str | bool]
) -> None:
    result = ask(shop, kind, cohort=cohort)
    assert result.products == ask(shop, kind).products
    assert result.served_by == "trending"


def test_categories_and_attributes_follow_the_cohort(shop: Recommender) -> None:
    for country, category, brand in (("FR", "Bulbs", "Fernhill"), ("GB", "Tools", "Alder")):
        cohort = {"country": country}
        categories = ask(shop, "user_to_categories", cohort=cohort, rows=2, group_rows=2)
        assert categories.groups[0].value == (category,)
        assert categories.served_by == "cohort"
        values = ask(shop, "user_to_attributes", cohort=cohort, rows=2, group_rows=2, field_name="brand")
        assert values.groups[0].value == brand


@pytest.mark.parametrize("young", [25, 34, 30.0, "31", "25-34"])
def test_ages_form_cohorts_by_band(shop: Recommender, young: float | str) -> None:
    assert set(ids(ask(shop, cohort={"age": young}))[:2]) == {"b07", "b08"}
    assert set(ids(ask(shop, cohort={"age": 99}))[:2]) == {"t05", "t10"}
    for other in (24, 35, 64, -1, 151, True, "about thirty"):
        assert ask(shop, cohort={"age": other}).served_by == "trending"


@pytest.mark.parametrize("stars", [3, 3.0])
def test_numbers_form_cohorts(shop: Recommender, stars: float) -> None:
    assert set(ids(ask(shop, cohort={"stars": stars}))[:2]) == {"b07", "b08"}
    assert set(ids(ask(shop, cohort={"custom_attributes.stars": 2.5}))[:2]) == {"t05", "t10"}


@pytest.mark.parametrize("key", ["custom_attributes.plan", "attributes.plan", "plan"])
def test_custom_attributes_form_cohorts(shop: Recommender, key: str) -> None:
    assert set(ids(ask(shop, cohort={key: "pro"}))[:2]) == {"b07", "b08"}
    assert set(ids(ask(shop, cohort={key: "free"}))[:2]) == {"t05", "t10"}


def test_users_may_be_uploaded_before_or_after_what_they_do(shop: Recommender) -> None:
    later = open_shop()
    later.apply(events(EVENTS))
    plain = ids(ask(later, cohort={"country": "FR"}))
    assert plain == ids(ask(later))
    later.apply(put_users(USERS))
    assert ids(ask(later, cohort={"country": "FR"})) == ids(ask(shop, cohort={"country": "FR"}))


def test_a_changed_profile_moves_its_user_to_the_other_cohort(shop: Recommender) -> None:
    shop.apply(put_users([{**user, "country": "GB"} for user in USERS[:8]], at=2))
    assert ask(shop, cohort={"country": "FR"}).served_by == "trending"
    result = ids(ask(shop, cohort={"country": "GB"}))
    assert set(result[:4]) == {"b07", "b08", "t05", "t10"}


def test_deleted_and_erased_users_leave_the_cohort(shop: Recommender) -> None:
    shop.apply(ChangeLogEntry("user", f"{NOW_MS + 2}-0", "remove", orjson.dumps(FR[:4])))
    assert len(shop.overlay.users) == 16
    assert ask(shop, cohort={"country": "FR"}).served_by == "trending", "four users are too few"
    shop = open_shop()
    shop.apply(put_users(USERS), events(EVENTS))
    shop.apply(
        ChangeLogEntry("interaction", f"{NOW_MS + 2}-0", "erase", orjson.dumps([f"u:{user}" for user in FR]))
    )
    assert ask(shop, cohort={"country": "FR"}).served_by == "trending"
    shop.apply(events(EVENTS, at=3))
    assert prefers(shop, "FR", "b07", "t05"), "their records are still there"


def test_the_explanation_shows_the_cohort(shop: Recommender) -> None:
    result = ask(shop, cohort={"country": "FR"}, explain=True, rows=4)
    assert result.products[0]["_explain"]["score_parts"]["live:cohort"] > 0.5
    assert "live:cohort" in result.products[0]["_explain"]["came_from"]
    assert all(
        product["_explain"]["score"] == pytest.approx(sum(product["_explain"]["score_parts"].values()))
        for product in result.products
    )
    assert result.explanation is not None
    assert "user_cohort" not in result.explanation


def test_the_explanation_names_what_was_ignored(shop: Recommender) -> None:
    result = ask(
        shop,
        cohort={"country": "XX", "shoe_size": "44", "plan": "pro"},
        fields=("title", "prize", "custom_attributes.grip"),
        explain=True,
    )
    assert result.explanation is not None
    assert result.explanation["user_cohort"] == [
        {"key": "country", "value": "XX", "told": "ignored: no user has this value"},
        {
            "key": "shoe_size",
            "value": "44",
            "told": "ignored: no user has this attribute, or it has too many values",
        },
    ]
    assert [entry["field"] for entry in result.explanation["fl"]] == ["prize", "custom_attributes.grip"]


def test_the_explanation_gives_the_reason_for_an_ignored_value(shop: Recommender) -> None:
    few = ask(shop, cohort={"country": "DE"}, explain=True)
    assert few.explanation is not None
    (entry,) = few.explanation["user_cohort"]
    assert entry["told"] == "ignored: fewer than 5 users with it did something"
    recent = [RecentEvent("checkout", ("b07",), NOW_MS).pack()]
    query = UserQuery(
        "user_to_products", "shop", "default", user_id="u01", cohort={"country": "FR"}, explain=True
    )
    result = dispatch.answer(shop, query, recent, (), NOW_MS + 1_000)
    assert result.explanation is not None
    assert result.explanation["user_cohort"][0]["told"] == "ignored: the user has a history"


def test_a_cohort_of_interactions_of_1970_gets_the_plain_list() -> None:
    shop = open_shop()
    epoch = "1970-01-20T10:00:00Z"
    old = [{**view(user, "b07", kind="checkout"), "timestamp": epoch} for user in FR]
    shop.apply(put_users(USERS), events([*old, view("visitor", "t05")]))
    assert ids(ask(shop, cohort={"country": "FR"})) == ids(ask(shop))


def test_a_user_with_history_keeps_the_personal_list(shop: Recommender) -> None:
    session = UserQuery(
        "user_to_products", "shop", "default", user_id="u01", rows=5, cohort={"country": "GB"}
    )
    recent = [RecentEvent("checkout", ("b07",), NOW_MS).pack()]
    assert dispatch.answer(shop, session, recent, (), NOW_MS + 1_000).served_by == "personal"


def test_equal_cohorts_keep_the_order_of_everybody() -> None:
    """Where users of two countries take the same, small differences by chance turn nothing."""
    rng = np.random.default_rng(3)
    shop = open_shop()
    names = [f"n{n:03d}" for n in range(60)]
    users = [{"user_id": name, "country": "FR" if at % 2 else "GB"} for at, name in enumerate(names)]
    popular = np.geomspace(1, 0.05, 20)
    items = [
        view(name, product, kind="checkout")
        for name in names
        for product in rng.choice([*BULBS, *TOOLS], 3, replace=False, p=popular / popular.sum())
    ]
    shop.apply(put_users(users), events(items))
    everybody = ids(ask(shop))[:6]
    for country in ("FR", "GB"):
        assert len(set(everybody) & set(ids(ask(shop, cohort={"country": country}))[:6])) >= 5


# --- with a snapshot ----------------------------------------------------------------------------------------


def trained_shop(path: Path) -> Recommender:
    """A shop whose engine was trained on the twenty users, without anything said of cohorts."""
    frame = pl.DataFrame(
        {
            "reader": [f"u:{item['user_id']}" for item in EVENTS],
            "item": [item["product_ids"][0] for item in EVENTS],
            "at": [NOW_MS / 1000 - 100 - at for at in range(len(EVENTS))],
            "weight": [1.0 if item["type"] == "checkout" else 0.3 for item in EVENTS],
        }
    )
    data = interactions_from_frame(frame, FrameColumns(weight="weight"))
    profiles = Profiles.from_users([orjson.dumps(user) for user in USERS], data.readers)
    data = replace(data, profiles=profiles)
    manifest = write_model_snapshot(
        train_engine(parse_recipe({**RECIPE, "cohorts": {}}), data), path / "s", written_at_ms=1
    )
    shop = open_shop()
    learned = validate_snapshot(Snapshot.open(path / "s"), str(manifest.facts["version"]))
    shop.set_serving_model("default", ServingModel(learned, shop.overlay.catalog.product_ids))
    return shop


def test_eight_of_eight_against_none_show_after_a_training(tmp_path: Path) -> None:
    shop = trained_shop(tmp_path)
    for kind in ("user_to_products", "user_to_trending"):
        assert prefers(shop, "FR", "b07", "t05", kind)
        assert prefers(shop, "GB", "t05", "b07", kind)
    result = ask(shop, cohort={"country": "FR"}, explain=True)
    assert "learned:cohort" in result.products[0]["_explain"]["came_from"]


def test_what_happened_since_the_snapshot_is_added_to_what_it_learned(tmp_path: Path) -> None:
    shop = trained_shop(tmp_path)
    shop.apply(put_users(USERS))
    before = ids(ask(shop, cohort={"country": "FR"}))
    assert before.index("b07") < before.index("b01")
    shop.apply(events([view(user, "b01", kind="checkout") for user in FR], at=2))
    after = ids(ask(shop, cohort={"country": "FR"}))
    assert after.index("b01") < 3 <= before.index("b01")
    assert prefers(shop, "GB", "t05", "b01")


def test_snapshots_without_the_mass_of_their_cohorts_still_serve() -> None:
    shares = np.array([[0.7, 0.3], [0.2, 0.8]], np.float32)
    everybody, first = np.array([0.5, 0.5], np.float32), np.zeros(1, np.int64)
    facts = {"fields": ["country"], "values": [["FR", "GB"]]}
    cohorts = CohortModel.load(ModelState({"shares": shares, "everybody": everybody, "first": first}, facts))
    assert cohorts.find_row("country", "GB") == 1
    assert cohorts.get_mass(1) == MOST_PRIOR
    again = CohortModel.load(cohorts.save())
    assert again.mass is None


# --- bounds -------------------------------------------------------------------------------------------------


def test_the_prior_follows_how_much_a_cohort_differs() -> None:
    quarter = np.full(4, 0.25)
    clear = estimate_prior(np.array([8.0, 8, 0, 0]), 16.0, quarter)
    assert clear == LEAST_PRIOR
    assert estimate_prior(np.array([4.0, 4, 4, 4]), 16.0, quarter) == MOST_PRIOR
    assert estimate_prior(np.array([1.0, 1, 0, 0]), 2.0, quarter) == MOST_PRIOR, (
        "a single user proves nothing"
    )
    assert estimate_prior(np.zeros(4), 0.0, quarter) == MOST_PRIOR
    some = estimate_prior(np.array([400.0, 350, 150, 100]), 1_000.0, quarter)
    assert LEAST_PRIOR < some < MOST_PRIOR


def test_attributes_of_users_are_bounded() -> None:
    attributes = UserAttributes(most_users=300)
    for number in range(400):
        about = {"mail": f"{number}@example.com", "plan": f"plan-{number % 3}", "long": "x" * 1_000}
        user = {"user_id": str(number), "country": f"C{number % 5}", "custom_attributes": about}
        slot, _ = attributes.put(-1, user)
        assert (slot >= 0) == (number < 300)
    assert attributes.find("custom_attributes.mail", "7@example.com") is None, "describes single users"
    assert attributes.find("custom_attributes.long", "x" * 1_000) is None
    assert attributes.find("custom_attributes.plan", "plan-2") is not None
    attributes.remove(0)
    assert attributes.put(-1, {"user_id": "new", "country": "C1"}) == (0, True)
    assert attributes.put(0, {"user_id": "new", "country": "C1"}) == (0, False)
    assert attributes.put(0, {"user_id": "new"}) == (-1, True)
    for number in range(50):
        attributes.put(1, {"country": "C1", "custom_attributes": {f"name-{number}": "yes"}})
    assert attributes.has_values("custom_attributes.name-0")
    assert not attributes.has_values("custom_attributes.name-49")
