from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from actors.recommender.messages import Boost, Circle, DiversityRule, QueryKind, UserQuery
from cluster.errors import FilterSyntax, Unprocessable
from cluster.query.language.tree import Phrase, Term
from deployments.api.resources.recommendation import BODIES
from deployments.api.wire.recommendation import to_query
from deployments.api.wire.validation_errors import unprocessable_from, validate_body
from tests.fakes.request_handler import NOW_MS


def query(kind: QueryKind = "user_to_products", **body: Any) -> UserQuery:
    model = BODIES[kind].model_validate(body)
    return to_query(model, kind, app_id="shop", user_id=model.user_id or "", now_ms=NOW_MS)


def circle(**other: Any) -> dict[str, Any]:
    return {"filter": [{"lat": 0, "lon": 0, "distance": 1, **other}]}


def faults(kind: QueryKind = "user_to_products", **body: Any) -> list[tuple[list[Any], str]]:
    try:
        query(kind, **body)
    except Unprocessable as error:
        refusal = error
    except ValidationError as error:
        refusal = unprocessable_from(error, "body", BODIES[kind])
    else:
        raise AssertionError("nothing was wrong")
    return [(entry["loc"], entry["type"]) for entry in refusal.facts["detail"]]


def test_an_empty_body_has_the_defaults_of_the_specification() -> None:
    assert query() == UserQuery("user_to_products", "shop", "default", rows=5, dedupe=True, dithering=1.0)
    assert query("user_to_categories").group_rows == 5
    assert query("user_to_attributes", field="brand").group_rows == 2
    assert query("product_to_products", product_id="a").rows == 5


def test_null_equals_absence_at_every_level() -> None:
    empty = dict.fromkeys(BODIES["user_to_products"].model_fields)
    assert query(**empty) == query()
    geo = {"filter": [{"lat": 1, "lon": 2, "distance": 3, "distance_unit": None}], "boost": None}
    assert query(geo=geo).circles[0].distance_km == pytest.approx(3 * 1.609344)


def test_every_shared_parameter_arrives() -> None:
    made = query(
        user_id="gina-7", anonymous_id="a-1", user_hash="x", engine_id="big", rows="7", type="tool",
        dedupe_product_group_id=False, fl=["title", "attributes.x"], exclude=["p1"], fq="brand:Alder",
        user_cohort={"country": "GB", "member": True}, custom_context={"a": None, "b": [1, 2.5], "c": ["x"]},
        boosting_tags=["sale"], diversification={"attributes.brand": {"minimum_distance": 2}, "type": {}},
        geo={"filter": [{"lat": 53.8, "lon": -1.5, "distance": 2, "distance_unit": "km", "field": "place"}],
             "boost": [{"lat": 0, "lon": 0, "distance": 1, "boost_positions": [0, 2]}]},
        dithering=1.5, pagination_id="s-1", start=10,
    )  # fmt: skip
    assert made == UserQuery(
        "user_to_products", "shop", "big", user_id="gina-7", anonymous_id="a-1", rows=7, start=10, type="tool",
        dedupe=False, fields=("title", "attributes.x"), exclude=("p1",), filter=Term("brand", "Alder"),
        circles=(Circle(53.8, -1.5, 2.0, "place"),), boost_circles=(Circle(0.0, 0.0, 1.609344, positions=(0, 2)),),
        spacing=(DiversityRule("custom_attributes.brand", 2), DiversityRule("type")),
            dithering=1.5, pagination_id="s-1",
        cohort={"country": "GB", "member": True}, context={"a": None, "b": [1, 2.5], "c": ["x"]},
        boosting_tags=("sale",),
    )  # fmt: skip
    assert made.user_keys == ("u:gina-7", "a:a-1")


def test_boost_rules_come_together_the_single_one_first() -> None:
    made = query(
        boost_fq='brand:"A B"', boost_positions=[0], boost_rule_name="own",
        boost_rules=[{"boost_fq": "type:x", "boost_positions": [1]}, {"boost_fq": "type:y", "boost_rule_name": "n"}],
    )  # fmt: skip
    assert made.boosts == (
        Boost(Phrase("brand", "A B"), (0,), "own"), Boost(Term("type", "x"), (1,)), Boost(Term("type", "y"), None, "n"),
    )  # fmt: skip
    assert [boost.label for boost in made.boosts] == ["boost_fq", "boost_rules[0]", "boost_rules[1]"]
    assert query(boost_fq="brand:A", boost_positions=[]).boosts == (Boost(Term("brand", "A")),)
    assert query(boost_positions=[], boost_rule_name="n").boosts == ()


def test_a_rule_name_without_a_filter_refers_to_a_stored_rule() -> None:
    assert query(boost_rule_name="spring").rule_names == ("spring",)
    assert query(boost_rule_name="spring", boost_fq="brand:A").rule_names == ()


def test_an_explanation_is_requested_with_or_without_products() -> None:
    assert (query().explain, query(explain=False).explain, query(explain=None).explain) == (False,) * 3
    assert (query(explain=True).explain, query(explain=True).explain_missing) == (True, ())
    assert (query(explain=["a"]).explain, query(explain=["a"]).explain_missing) == (True, ("a",))


def test_simulated_interactions_become_events() -> None:
    made = query(
        additional_interactions=[{"type": "click", "product_ids": ["a"]}, {"type": "home_page_view"}]
    )
    assert [(event.type, event.product_ids, event.at_ms) for event in made.simulated] == [
        ("click", ("a",), NOW_MS)
    ]
    assert faults(additional_interactions=[{"type": "zap"}])[0][0][:3] == [
        "body",
        "additional_interactions",
        0,
    ]


def test_each_endpoint_has_specific_fields() -> None:
    categories = query("user_to_categories", root_category=["Garden"], products_per_category=0)
    assert (categories.root_category, categories.group_rows) == (("Garden",), 0)
    assert query("user_to_categories", root_category=[]).root_category is None
    values = query(
        "user_to_attributes", field="attributes.x", boost_attributes=["a"], exclude_attributes=["b"]
    )
    assert (values.field_name, values.boost_values, values.exclude_values) == (
        "custom_attributes.x",
        ("a",),
        ("b",),
    )
    anchored = query(
        "product_to_products",
        product_id="a",
        product_ids=["a", "b"],
        product_group_ids=["g"],
        buy_together=True,
    )
    assert (anchored.anchors, anchored.buy_together) == (("a", "b", "group:g"), True)
    assert query("product_to_products", product_id=["x", "y"]).anchors == ("x", "y")
    assert query("user_to_history", history_type="last_checkout").history_type == "last_checkout"


@pytest.mark.parametrize("kind", ["user_to_categories", "user_to_attributes", "user_to_history"])
@pytest.mark.parametrize("field", ["start", "dithering", "pagination_id"])
def test_paging_belongs_to_lists_only(kind: QueryKind, field: str) -> None:
    more = {"field": "brand"} if kind == "user_to_attributes" else {}
    assert (["body", field], "value_error.extra") in faults(kind, **{field: 1}, **more)


@pytest.mark.parametrize(
    ("body", "loc", "kind"),
    [
        ({"rows": -1}, ["rows"], "value_error.number.not_ge"),
        ({"rows": 1001}, ["rows"], "value_error.number.not_le"),
        ({"rows": "five"}, ["rows"], "type_error.integer"),
        ({"rows": 1.5}, ["rows"], "type_error.integer"),
        ({"rows": True}, ["rows"], "type_error.number"),
        ({"start": -1}, ["start"], "value_error.number.not_ge"),
        ({"dithering": 0.5}, ["dithering"], "value_error.number.not_ge"),
        ({"pagination_id": "a" * 513}, ["pagination_id"], "value_error.any_str.max_length"),
        ({"boost_positions": [0, -1]}, ["boost_positions", 1], "value_error.number.not_ge"),
        ({"fl": "title"}, ["fl"], "type_error.list"),
        ({"fl": [1]}, ["fl", 0], "type_error.str"),
        ({"exclude": {"a": 1}}, ["exclude"], "type_error.list"),
        ({"user_id": 7}, ["user_id"], "type_error.str"),
        ({"dedupe_product_group_id": "yes"}, ["dedupe_product_group_id"], "type_error.bool"),
        ({"custom_context": []}, ["custom_context"], "type_error.dict"),
        ({"custom_context": {"a": {"b": 1}}}, ["custom_context"], "type_error"),
        ({"custom_context": {"a": [1, "x"]}}, ["custom_context"], "type_error"),
        ({"custom_context": {"a": [True]}}, ["custom_context"], "type_error"),
        ({"user_cohort": {"a": [1]}}, ["user_cohort"], "type_error"),
        ({"user_cohort": {"a": None}}, ["user_cohort"], "type_error"),
        ({"colour": "red"}, ["colour"], "value_error.extra"),
        ({"jwt_token": 7}, ["jwt_token"], "type_error.str"),
        ({"jwt_token": "x" * 8193}, ["jwt_token"], "value_error.any_str.max_length"),
        ({"dithering": False}, ["dithering"], "type_error.number"),
        ({"dithering": "no"}, ["dithering"], "type_error.float"),
        ({"user_type": "gold"}, ["user_type"], "value_error.const"),
        ({"geo": circle(lat=91)}, ["geo", "filter", 0, "lat"], "value_error.number.not_le"),
        ({"geo": circle(lat=None)}, ["geo", "filter", 0, "lat"], "value_error.missing"),
        ({"geo": circle(distance=-1)}, ["geo", "filter", 0, "distance"], "value_error.number.not_ge"),
        ({"geo": circle(distance_unit="feet")}, ["geo", "filter", 0], "value_error.const"),
        ({"boost_rules": [{"boost_positions": [1]}]}, ["boost_rules", 0, "boost_fq"], "value_error.missing"),
        ({"boost_rules": [{"boost_fq": "a:("}]}, ["boost_rules", 0, "boost_fq"], "value_error.filter"),
        ({"boost_fq": "("}, ["boost_fq"], "value_error.filter"),
        ({"boost_positions": [3]}, ["boost_positions"], "value_error"),
        ({"boost_positions": [1_000_001]}, ["boost_positions", 0], "value_error.number.not_le"),
        ({"boost_rules": [{"boost_fq": " ", "boost_positions": [1]}]}, ["boost_rules", 0, "boost_positions"],
         "value_error"),
        ({"explain": "p1"}, ["explain"], "type_error"),
        ({"explain": ["p1", 2]}, ["explain"], "type_error.str"),
        ({"explain": ["p"] * 101}, ["explain"], "value_error.list.max_items"),
        ({"fq": "brand:"}, ["fq"], "value_error.filter"),
        ({"diversification": {"a": {"minimum_distance": -1}}}, ["diversification", "a", "minimum_distance"],
         "value_error.number.not_ge"),
    ],
)  # fmt: skip
def test_a_bad_parameter_is_named_in_the_published_words(
    body: dict[str, Any], loc: list[Any], kind: str
) -> None:
    assert (["body", *loc], kind) in faults(**body)


@pytest.mark.parametrize(
    ("kind", "body", "loc", "fault_type"),
    [
        ("user_to_attributes", {}, ["field"], "value_error.missing"),
        ("user_to_attributes", {"field": None}, ["field"], "value_error.missing"),
        ("user_to_attributes", {"field": "colour"}, ["field"], "value_error"),
        ("user_to_attributes", {"field": "custom_attributes"}, ["field"], "value_error"),
        ("user_to_attributes", {"field": "i18n_french.brand"}, ["field"], "value_error"),
        (
            "user_to_attributes",
            {"field": "brand", "boost_attributes": ["A", "B"], "exclude_attributes": ["C", "B"]},
            ["boost_attributes", 1],
            "value_error",
        ),
        ("product_to_products", {}, [], "value_error"),
        ("product_to_products", {"product_ids": []}, ["product_ids"], "value_error.list.min_items"),
        ("product_to_products", {"product_id": 7}, ["product_id"], "type_error.list"),
        ("user_to_history", {"history_type": "last_dance"}, ["history_type"], "value_error.const"),
        (
            "user_to_categories",
            {"products_per_category": -1},
            ["products_per_category"],
            "value_error.number.not_ge",
        ),
    ],
)
def test_specific_fields_have_specific_bounds(
    kind: QueryKind, body: dict[str, Any], loc: list[Any], fault_type: str
) -> None:
    assert (["body", *loc], fault_type) in faults(kind, **body)


@pytest.mark.parametrize(
    "field", ["brand", "color", "i18n_fr.brand", "attributes.x", "custom_attributes.a.b"]
)
def test_a_field_that_products_may_have_is_taken_even_when_none_has_it(field: str) -> None:
    assert query("user_to_attributes", field=field).field_name.removeprefix("custom_") == field.removeprefix(
        "custom_"
    )


def test_faults_repeat_no_value_and_cut_names_short() -> None:
    with pytest.raises(Unprocessable) as raised:
        validate_body(BODIES["user_to_products"], {"rows": "CANARY", "x" * 5000: 1, "fl": "CANARY"})
    detail = raised.value.facts["detail"]
    assert "CANARY" not in str(detail)
    assert max(len(part) for entry in detail for part in entry["loc"]) == 128


def test_a_filter_fault_keeps_its_kind_and_position() -> None:
    with pytest.raises(FilterSyntax) as raised:
        query(fq="brand:(a OR")
    assert raised.value.facts["position"] >= 0
    assert raised.value.facts["detail"][0]["loc"] == ["body", "fq"]


def test_a_body_that_is_no_object_is_refused() -> None:
    for body in ([], "x", 7):
        with pytest.raises(Unprocessable) as raised:
            validate_body(BODIES["user_to_products"], body)
        assert raised.value.facts["detail"] == [
            {"loc": ["body"], "msg": "value is not a valid dict", "type": "type_error.dict"}
        ]
