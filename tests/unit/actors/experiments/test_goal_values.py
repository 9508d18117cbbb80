"""Figures of people from real segments and a real log of answers."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import orjson
import pytest

from actors.experiments.report import ExperimentReport
from actors.experiments.report_data import load_people_figures, load_report
from actors.intake.segment_rows import build_compaction_batch
from cluster.artifacts.logs.day_files import DAY_MS
from cluster.artifacts.logs.served_log import ServedLogStore
from cluster.artifacts.segments import SegmentStore
from cluster.artifacts.storage.artifact_store import ArtifactStore
from cluster.clock import SystemClock, iso_ms
from cluster.errors import Fault
from cluster.records.experiment import Experiment, ExperimentGoal, Exposure
from cluster.records.logged_query import pseudonym
from cluster.records.served_list import ServedAnswer
from cluster.store.data.change_log import ChangeLogEntry
from cluster.store.data.intake import RecordPut
from cluster.store.stores import Stores
from tests.fakes.stores.memory import memory_stores
from tests.fakes.stores.records import MemoryRecords
from tests.suites.doing import APP, put
from tests.suites.test_experiments import an_experiment

AT = 1_700_000_000_000
MARGIN = {"name": "margin", "types": ["checkout"], "value": "custom_context.margin"}
GOALS = ["revenue", "order-value", "quantities", "clicks-per-list", "reading-time", MARGIN]


def happened(user_id: str, kind: str, after_ms: int, **fields: Any) -> dict[str, Any]:
    who = {"anonymous_id": user_id[2:]} if user_id.startswith("a:") else {"user_id": user_id}
    return {"type": kind, **who, "timestamp": iso_ms(AT + after_ms), "product_ids": ["p"], **fields}


class Place:
    def __init__(self, folder: Path) -> None:
        self.stores: Stores = memory_stores()
        self.artifacts = ArtifactStore.open(folder)
        self._offset = AT

    async def meet(self, experiment: Experiment, variants: dict[str, str], **fields: Any) -> None:
        for user_key, variant_id in variants.items():
            exposure = Exposure(variant_id, AT, **fields)
            await self.stores.experiments.assign(experiment, [user_key], exposure, "take")

    def sell(self, **products: dict[str, float]) -> None:
        """Store products with their prices."""
        stored = cast(MemoryRecords, self.stores.records)._apps[APP].records["product"]
        stored.update(
            {name: orjson.dumps({"product_id": name, **prices}) for name, prices in products.items()}
        )

    def compact(self, *items: dict[str, Any]) -> None:
        """Write interactions into one segment."""
        self._offset += 100 * DAY_MS
        offset = f"{self._offset}-0"
        batch = build_compaction_batch(
            "interaction", [ChangeLogEntry("interaction", offset, "put", orjson.dumps(list(items)))]
        )
        SegmentStore(self.artifacts).append(APP, "interaction", batch.table, first=offset, last=offset)

    def lose_file(self, folder: str) -> None:
        """Remove the newest Parquet file of a folder, which its manifest still names."""
        paths = [stored.path for stored in self.artifacts.entries(f"{APP}/{folder}")]
        self.artifacts.remove(max(path for path in paths if path.endswith(".parquet")))

    async def values(self, experiment: Experiment) -> dict[str, tuple[list[float], Any, list[float]]]:
        _, figures = await load_people_figures(self.stores, self.artifacts, experiment)
        return {
            goal.goal.name: (
                goal.value.tolist(),
                None if goal.per is None else goal.per.tolist(),
                goal.before.tolist(),
            )
            for goal in figures.goals
        }

    async def report(self, experiment: Experiment) -> ExperimentReport:
        return await load_report(self.stores, self.artifacts, experiment)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


async def test_values_are_summed_after_the_exposure_and_in_the_28_days_before(place: Place) -> None:
    experiment = an_experiment(goals=GOALS)
    await place.meet(experiment, {"u:ada": "a", "u:bob": "b", "a:x": "b"})
    context = {"custom_context": {"margin": 2.5}}
    place.compact(
        happened("ada", "checkout", -30 * DAY_MS, revenue=1_000),
        happened("ada", "checkout", -DAY_MS, revenue=7.5),
        happened(
            "ada", "checkout", 1, revenue=10, quantities=[2, 3], product_ids=["p", "q"], context=context
        ),
    )
    place.compact(
        happened("ada", "checkout", DAY_MS, revenue=20, quantities=4, product_ids=["p", "q"]),
        happened("bob", "read", 5, duration=90),
        happened("a:x", "checkout", 5, revenue="7"),
        happened("bob", "click", 5),
        happened("bob", "click", 5 + 2 * 3_600_000),
        happened("zoe", "checkout", 5, revenue=99),
    )
    values = await place.values(experiment)
    assert values["conversion"] == ([1, 0, 1], None, [1, 0, 0])
    assert values["revenue"] == ([30, 0, 7], None, [7.5, 0, 0])
    assert values["order-value"][:2] == ([30, 0, 7], [2, 0, 1])
    assert values["quantities"][0] == [5 + 8, 0, 1]
    assert values["reading-time"][0] == [0, 90, 0]
    assert values["margin"][0] == [2.5, 0, 0]
    assert values["clicks-per-list"][0] == [0, 2, 0]


async def test_a_goal_counts_interactions_with_the_values_of_its_fields_only(place: Place) -> None:
    conditions = {
        "letters": (["custom"], {"custom_action_name": "newsletter"}),
        "answers": (["feedback"], {"result_type": "answer", "value": "helpful"}),
        "kitchen": (["category_page_view"], {"category": "Küche"}),
        "red": (["search"], {"search.filters.color": "red", "search.keywords": "fork"}),
        "spring": (["checkout"], {"context.campaign.name": "spring"}),
        "swiss": (["checkout"], {"context.locale": "de-CH", "context.region": "Bern"}),
        "home": (["checkout"], {"context.page.url": "https://shop.example/"}),
        "club": (["checkout"], {"context.custom_context.club": "true"}),
    }
    goals = [
        {"name": name, "types": kinds, "value": "count", "where": where}
        for name, (kinds, where) in conditions.items()
    ]
    ratio = {"name": "spring-order", "types": ["checkout"], "value": "revenue", "per": ["checkout"]}
    experiment = an_experiment(goals=[*goals, {**ratio, "where": conditions["spring"][1]}, "orders"])
    await place.meet(experiment, {"u:ada": "a", "u:bob": "b"})
    context = {
        "campaign": {"name": "spring"}, "locale": "de-CH", "region": "Bern",
        "page": {"url": "https://shop.example/"}, "custom_context": {"club": True},
    }  # fmt: skip
    place.compact(
        happened("ada", "custom", 1, custom_action_name="newsletter"),
        happened("bob", "custom", 1, custom_action_name="Newsletter"),
        happened("ada", "feedback", 1, result_type="answer", value="helpful"),
        happened("bob", "feedback", 1, result_type="source", value="helpful"),
        happened("ada", "category_page_view", 1, category=["Haus", "Küche"]),
        happened("bob", "category_page_view", 1, category=["Haus", "Küchentücher"]),
        happened("ada", "search", 1, search={"keywords": "fork", "filters": {"color": ["blue", "red"]}}),
        happened("bob", "search", 1, search={"keywords": "fork"}),
        happened("ada", "checkout", 1, revenue=30, context=context),
        happened("ada", "checkout", 9_000, revenue=10, context={"locale": "de-CH"}),
        happened("bob", "checkout", 1, revenue=5, context="odd"),
    )
    values = await place.values(experiment)
    assert {name: values[name][0] for name in conditions} == {name: [1, 0] for name in conditions}
    assert values["spring-order"][:2] == ([30, 0], [1, 0])
    assert values["orders"][0] == [2, 1]


@pytest.mark.parametrize(
    "name", ["revenue", "context", "context.a.b.c.d", "user_id", "$.a", "context.a-b", ""]
)
def test_a_condition_on_another_field_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="where"):
        ExperimentGoal(name="x", types=("custom",), where={name: "a"})


async def test_lists_are_those_of_the_log_of_answers(place: Place) -> None:
    experiment = an_experiment(goals=["clicks-per-list"])
    await place.meet(experiment, {"u:ada": "a", "u:bob": "b"})
    salt = await place.stores.served.salt(APP)
    rows = [
        ServedAnswer(f"{number:032x}", at, endpoint, "default", user=pseudonym(salt, user_key))
        for number, (user_key, at, endpoint) in enumerate(
            [
                ("u:ada", AT - 1, "search"), ("u:ada", AT, "search"), ("u:ada", AT + 9, "user_to_products"),
                ("u:ada", AT + 9, "autocomplete"), ("u:zoe", AT + 9, "search"),
            ]
        )
    ]  # fmt: skip
    ServedLogStore(place.artifacts, SystemClock()).append(APP, rows, "1-0")
    assert (await place.values(experiment))["clicks-per-list"][1] == [2, 0]


async def test_a_beacon_sent_ten_times_counts_once(place: Place) -> None:
    experiment = an_experiment(goals=["revenue", "orders"])
    await place.meet(experiment, {"u:ada": "a"})
    again = [happened("ada", "checkout", 5_000 * number, revenue=10, event_id="e-1") for number in range(10)]
    double = [happened("ada", "checkout", 900_000 + 300 * number, revenue=10) for number in range(2)]
    place.compact(*again[:5])
    place.compact(*again[5:], *double)
    values = await place.values(experiment)
    assert (values["revenue"][0], values["orders"][0]) == ([20], [2])


async def test_a_refund_takes_the_revenue_of_its_product_from_the_newest_purchase(place: Place) -> None:
    experiment = an_experiment(goals=["revenue", "order-value", "quantities"])
    users = ("whole", "part", "twice", "later", "old", "other", "before", "across")
    await place.meet(experiment, {f"u:{user}": "a" for user in users})
    basket = {"product_ids": ["p", "q", "group:g"], "quantities": [1, 3, 1]}
    place.compact(
        happened("whole", "checkout", 5, revenue=10),
        happened("whole", "refund", 9_000),
        happened("part", "checkout", 5, revenue=10, **basket),
        happened("part", "refund", 9_000, product_ids=["q"]),
        happened("twice", "checkout", 5, revenue=10),
        happened("twice", "checkout", 9_000, revenue=4),
        happened("twice", "refund", 20_000),
        happened("twice", "refund", 40_000),
        happened("later", "refund", 5),
        happened("later", "checkout", 9_000, revenue=10),
        happened("old", "checkout", 5, revenue=10),
        happened("old", "refund", 31 * DAY_MS),
        happened("other", "checkout", 5, revenue=10),
        happened("other", "refund", 9_000, product_ids=["q"]),
        happened("before", "checkout", -9_000, revenue=10),
        happened("before", "refund", -5),
        happened("across", "checkout", -5, revenue=10),
        happened("across", "refund", 5),
    )
    values = await place.values(experiment)
    assert dict(zip(users, values["revenue"][0], strict=True)) == {
        "whole": 0, "part": 5, "twice": 10, "later": 10, "old": 10, "other": 10, "before": 0, "across": 0,
    }  # fmt: skip
    earlier = dict(zip(users, values["revenue"][2], strict=True))
    assert (earlier["before"], earlier["across"]) == (0, 10)
    assert values["order-value"][0] == values["revenue"][0]
    assert sum(values["order-value"][1]) == 7
    assert sum(values["quantities"][0]) == 6 + 5


async def test_prices_and_quantities_split_what_a_refund_takes_as_outcomes_do(place: Place) -> None:
    experiment = an_experiment(goals=["revenue"])
    users = ("priced", "single", "unpriced", "free")
    await place.meet(experiment, {f"u:{user}": "a" for user in users})
    place.sell(p={"price": 2.0}, q={"price": 9.0, "sale_price": 1.0}, f={"price": 0.0}, g={"price": 0.0})
    basket = {"product_ids": ["p", "q"], "quantities": [1, 3]}
    place.compact(
        happened("priced", "checkout", 5, revenue=10, **basket),
        happened("priced", "refund", 9_000, product_ids=["q"]),
        happened("single", "checkout", 5, revenue=10, product_ids=["p", "q"], quantities=[2]),
        happened("single", "refund", 9_000, product_ids=["q"]),
        happened("unpriced", "checkout", 5, revenue=10, product_ids=["p", "other"], quantities=[1, 3]),
        happened("unpriced", "refund", 9_000, product_ids=["p"]),
        happened("free", "checkout", 5, revenue=10, product_ids=["f", "g"]),
        happened("free", "refund", 9_000, product_ids=["f"]),
    )
    values = await place.values(experiment)
    assert values["revenue"][0] == pytest.approx([10 - 10 * 3 / 5, 10 - 10 * 2 / 6, 5, 5])


async def test_an_address_with_many_unverified_visitors_counts_for_few(place: Place) -> None:
    experiment = an_experiment(goals=["orders"])
    await place.meet(experiment, {f"a:{number}": "b" for number in range(60)})
    place.compact(*(happened(f"a:{number}", "checkout", 5, _origin="0" * 16) for number in range(60)))
    assert sum((await place.values(experiment))["orders"][0]) == 20


async def test_hostile_numbers_count_as_nothing_or_as_the_largest(place: Place) -> None:
    experiment = an_experiment(goals=["revenue", {**MARGIN, "cap": 5}])
    await place.meet(experiment, {"u:ada": "a"})
    place.compact(
        happened("ada", "checkout", 1, revenue=1e300, context={"custom_context": {"margin": 1e9}}),
        happened("ada", "checkout", 10_000, context={"custom_context": {"margin": {"deep": []}}}),
        happened("ada", "checkout", 20_000, revenue=None, context="odd"),
    )
    values = await place.values(experiment)
    assert (values["revenue"][0], values["margin"][0]) == ([1e12], [5])


async def test_people_of_several_ids_and_before_new_weights(place: Place) -> None:
    experiment = an_experiment(goals=["orders"], weights_at=AT)
    await place.stores.experiments.assign(experiment, ["u:ada", "a:x"], Exposure("b", AT), "take")
    await place.meet(experiment, {"u:old": "a"}, forced=True)
    await place.stores.experiments.assign(experiment, ["u:early"], Exposure("a", AT - 1), "take")
    place.compact(
        happened("a:x", "checkout", 5), happened("ada", "checkout", 9_000), happened("old", "checkout", 5)
    )
    assert (await place.values(experiment))["orders"][0] == [2]


async def test_the_primary_goal_comes_first_and_segments_have_its_figures(place: Place) -> None:
    experiment = an_experiment(
        goals=["revenue"], primary="revenue", segments=["history", "device", "user.tier", "user.created_at"]
    )
    people = {f"u:{number}": "ab"[number % 2] for number in range(400)}
    await place.meet(experiment, people, device="phone")
    for number, day in (("1", "2025-03-09"), ("2", "2025-03-31T08:00:00Z"), ("3", "2025-04-01")):
        user = {
            "user_id": number,
            "created_at": day,
            "custom_attributes": {"tier": "gold"} if day[6] == "3" else {},
        }
        await put(place.stores, RecordPut(number, orjson.dumps(user)), noun="user")
    place.compact(
        *(happened(f"{number}", "like", -5) for number in range(0, 400, 4)),
        *(happened(f"{number}", "checkout", 5, revenue=10 + 10 * (number % 2)) for number in range(400)),
    )
    report = await place.report(experiment)
    primary, conversion = report.goals
    assert (primary.goal.name, primary.is_primary, primary.variants[1].mean) == ("revenue", True, 20)
    assert conversion.variants[1].adjusted_p_value is not None
    parts = {(part.segment, part.part): [side.people for side in part.variants] for part in report.segments}
    assert parts["history", "returning"] == [100, 0]
    assert parts["history", "new"] == [100, 200]
    assert parts["device", "phone"] == [200, 200]
    assert parts["user.tier", "gold"] == [1, 1]
    assert (parts["user.created_at", "2025-03"], parts["user.created_at", "2025-04"]) == ([1, 1], [0, 1])
    shown = orjson.loads(orjson.dumps(report.to_dict()))
    assert [goal["name"] for goal in shown["goals"]] == ["revenue", "conversion"]
    assert shown["segments"][0]["segment"] == "history"


async def test_an_experiment_that_counts_conversions_reads_no_values(place: Place) -> None:
    experiment = an_experiment()
    await place.meet(experiment, {"u:ada": "a"})
    report = await place.report(experiment)
    assert (report.goals, report.segments) == ((), ())


async def test_an_experiment_without_people_reads_no_segment(place: Place) -> None:
    experiment = an_experiment(goals=["revenue", "clicks-per-list"])
    place.compact(happened("ada", "checkout", -40 * DAY_MS, revenue=5))
    place.lose_file("segments")
    values = await place.values(experiment)
    assert values["revenue"] == ([], None, [])
    assert values["clicks-per-list"] == ([], [], [])


async def test_lists_are_counted_whole_or_not_at_all(place: Place) -> None:
    experiment = an_experiment(goals=["clicks-per-list"])
    await place.meet(experiment, {"u:ada": "a"})
    user = pseudonym(await place.stores.served.salt(APP), "u:ada")
    rows = [
        ServedAnswer(f"{day:032x}", AT + day * DAY_MS, "user_to_products", "default", user=user)
        for day in (1, 2)
    ]
    ServedLogStore(place.artifacts, SystemClock()).append(APP, rows, "1-0")
    assert (await place.values(experiment))["clicks-per-list"][1] == [2]
    place.lose_file(ServedLogStore.kind)
    with pytest.raises(Fault, match="keep changing"):
        await place.values(experiment)
