from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from cluster.artifacts.logs.outcomes import COLUMNS as OUTCOMES
from cluster.artifacts.logs.outcomes import OutcomeStore
from cluster.artifacts.logs.served_log import ServedLogStore
from cluster.artifacts.segment_format import INTERACTIONS
from cluster.artifacts.segments import SegmentStore
from cluster.records.apps import AppSettings, new_app_settings
from cluster.records.engine import Engine
from cluster.records.run import DAY_MS, Schedule
from cluster.records.served_list import ServedAnswer
from jobs.refresh.automation.first_training import (
    choose_first_recipe,
    has_enough_data,
)
from jobs.refresh.automation.supervisor import COOLDOWN_MS, EVERY_S, HOUR_MS, REST_MS, ModelSupervisor
from jobs.refresh.runs.estimate import DryRunEstimate
from jobs.refresh.runs.run_commands import create_run
from tests.fakes import generated_market
from tests.fakes.supervised_shop import APP, NOON_MS, SupervisedShop


class Shop(SupervisedShop):
    """The app with logs of what people did."""

    def settle(self, people: int = 200, each: int = 6, products: int = 60) -> None:
        """Compact products, and interactions of people with each of them."""
        segments = SegmentStore(self.artifacts)
        generated_market.settle_products(segments, generated_market.products(products, width=8))
        pairs = [(person, number) for person in range(people) for number in range(each)]
        offsets = [f"{NOON_MS}-{at}" for at in range(len(pairs))]
        columns = [
            [f"u:{person}" for person, _ in pairs], ["click"] * len(pairs),
            [NOON_MS - 1_000 * number for _, number in pairs],
            [[f"p{(person + number) % products}"] for person, number in pairs],
            [0.0] * len(pairs), offsets, [b"{}"] * len(pairs),
        ]  # fmt: skip
        arrays = [pa.array(column, field.type) for column, field in zip(columns, INTERACTIONS, strict=True)]
        table = pa.Table.from_arrays(arrays, schema=INTERACTIONS)
        segments.append(APP, "interaction", table, first=offsets[0], last=offsets[-1])

    async def look_again(self) -> int:
        """Let the supervisor look twice with its pause between, and return the trainings of the second look."""
        await self.supervisor.run_once()
        self.clock.advance(int(EVERY_S * 1000) + 1_000)
        return await self.supervisor.run_once()

    def log_lists(self, at_ms: int, lists: int, clicked: int) -> None:
        """Write lists of a window, of which some were clicked."""
        answers = [
            ServedAnswer(f"{at_ms}-{n}", at_ms + n, "search", "default", user=f"p{n}", products=("p1", "p2"))
            for n in range(lists)
        ]
        served = ServedLogStore(self.artifacts, self.clock)
        served.append(APP, answers, f"{at_ms}-0")

    def log_clicks(self, clicks: list[tuple[int, int]]) -> None:
        """Write clicks: (time of the window, number of its list)."""
        rows = [{"at": at_ms + n + 5, "type": "click", "service_id": f"{at_ms}-{n}"} for at_ms, n in clicks]
        days: dict[str, list[dict[str, Any]]] = {}
        for row in rows:
            days.setdefault(str(pa.scalar(row["at"], pa.timestamp("ms")).as_py().date()), []).append(row)
        tables = {day: pa.Table.from_pylist(its, schema=OUTCOMES) for day, its in days.items()}
        OutcomeStore(self.artifacts, self.clock).replace_days(APP, tables, {})


@pytest.fixture
async def shop(tmp_path: Path) -> Shop:
    shop = Shop(tmp_path)
    await generated_market.open_market(shop.stores)
    return shop


def test_new_apps_in_production_are_looked_after_and_older_ones_are_not() -> None:
    assert new_app_settings("production").automatic_models
    assert not new_app_settings("development").automatic_models
    assert not new_app_settings("playground").automatic_models
    assert not AppSettings().automatic_models


@pytest.mark.parametrize(
    ("counts", "enough"),
    [((1_000, 100, 50), True), ((999, 100, 50), False), ((1_000, 99, 50), False), ((1_000, 100, 49), False)],
)
def test_a_first_training_needs_events_people_and_products(
    counts: tuple[int, int, int], enough: bool
) -> None:
    assert has_enough_data(*counts) is enough


def test_the_first_recipe_is_the_best_that_fits() -> None:
    def choose(default: tuple[int, float], fast: tuple[int, float]) -> str | None:
        costs = {"default": default, "fast": fast}
        return choose_first_recipe(
            {name: DryRunEstimate({}, [], memory, seconds, 100) for name, (memory, seconds) in costs.items()}
        )

    assert choose((100, 60), (100, 6)) == "default"
    assert choose((101, 60), (100, 6)) == "fast"
    assert choose((100, 9_000), (100, 6)) == "fast"
    assert choose((100, 9_000), (101, 6)) is None


async def test_enough_data_get_a_training_and_a_nightly_schedule_once(shop: Shop) -> None:
    await shop.set_switch(True)
    shop.settle()
    assert await shop.supervisor.run_once() == 0  # an import may be under way
    assert await shop.look_again() == 1
    (run,) = await shop.stores.runs.list_open(APP)
    assert (run.run_id, run.promote, run.by) == ("first-training", True, "automatic_models")
    (schedule,) = await shop.stores.schedules.all(APP)
    assert (schedule.name, schedule.when, schedule.recipe["name"]) == ("nightly", "nightly", "default")
    assert await shop.look_again() == 0
    await shop.stores.schedules.remove(APP, "nightly")
    assert await shop.look_again() == 0
    assert await shop.stores.schedules.all(APP) == []


@pytest.mark.parametrize(
    ("is_on", "environment"),
    [(True, "development"), (True, "playground"), (False, "production")],
)
async def test_nothing_is_ordered_where_the_switch_is_off_or_in_development(
    shop: Shop, is_on: bool, environment: str
) -> None:
    await shop.set_switch(is_on, environment)
    shop.settle()
    assert await shop.look_again() == 0
    assert await shop.stores.schedules.all(APP) == []


async def test_little_data_wait(shop: Shop) -> None:
    await shop.set_switch(True)
    assert await shop.look_again() == 0
    shop.settle(people=1_200, each=1)
    assert await shop.look_again() == 0


async def test_a_schedule_or_a_training_by_hand_stays_alone(shop: Shop) -> None:
    await shop.set_switch(True)
    shop.settle()
    mine = Schedule(app_id=APP, name="mine", engine_id="default", when="every 6h", recipe={"name": "fast"})
    await shop.stores.schedules.add(mine)
    assert await shop.look_again() == 0
    assert await shop.stores.schedules.all(APP) == [mine]
    await shop.stores.schedules.remove(APP, "mine")
    await create_run(shop.stores, APP, "default", {"name": "fast"}, now_ms=NOON_MS, by="ada")
    assert await shop.look_again() == 0


async def test_a_first_training_replaces_no_schedule_of_another_engine(shop: Shop) -> None:
    await shop.set_switch(True)
    shop.settle()
    news = Schedule(app_id=APP, name="nightly", engine_id="news", when="every 6h", recipe={"name": "fast"})
    await shop.stores.schedules.add(news)
    assert await shop.look_again() == 1
    mine, made = await shop.stores.schedules.all(APP)
    assert mine == news
    assert (made.name, made.engine_id) == ("nightly-default", "default")


async def test_an_engine_whose_schedule_names_are_taken_gets_the_next_free_one(shop: Shop) -> None:
    await shop.set_switch(True)
    shop.settle()
    await shop.stores.engines.put(Engine(app_id=APP, engine_id="spring"))
    for name in ("nightly", "nightly-default", "nightly-spring"):
        news = Schedule(app_id=APP, name=name, engine_id="news", when="every 6h", recipe={"name": "fast"})
        await shop.stores.schedules.add(news)
    assert await shop.look_again() == 2
    schedules = {schedule.name: schedule.engine_id for schedule in await shop.stores.schedules.all(APP)}
    assert schedules == {
        "nightly": "news",
        "nightly-default": "news",
        "nightly-default-2": "default",
        "nightly-spring": "news",
        "nightly-spring-2": "spring",
    }


async def test_two_supervisors_at_once_make_one_schedule(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    await shop.set_switch(True)
    shop.settle()
    add = shop.stores.schedules.add

    async def add_after_another(schedule: Schedule) -> bool:
        await add(schedule.model_copy())
        return await add(schedule)

    monkeypatch.setattr(shop.stores.schedules, "add", add_after_another)
    assert await shop.look_again() == 1
    assert [schedule.name for schedule in await shop.stores.schedules.all(APP)] == ["nightly"]


async def test_a_second_supervisor_waits_for_the_lease(shop: Shop) -> None:
    await shop.set_switch(True)
    shop.settle()
    other = ModelSupervisor(shop.stores, shop.artifacts, shop.clock, owner="second")
    await shop.supervisor.run_once()
    assert await other.run_once() == 0
    await shop.supervisor.release()
    assert await other.run_once() == 0
    shop.clock.advance(int(EVERY_S * 1000))
    assert await other.run_once() == 1


async def test_a_drift_starts_one_early_training(shop: Shop) -> None:
    await shop.set_switch(True)
    mine = Schedule(app_id=APP, name="mine", engine_id="default", when="nightly", recipe={"name": "fast"})
    await shop.stores.schedules.add(mine.model_copy(update={"name": "deleted", "engine_id": "deleted"}))
    await shop.stores.schedules.add(mine)
    clicks = []
    for days in reversed(range(8)):
        at_ms = NOON_MS - 3 * HOUR_MS - days * DAY_MS
        shop.log_lists(at_ms, 500, 0)
        clicks += [(at_ms, number) for number in range(10 if days == 0 else 60 + days)]
    shop.log_clicks(clicks)
    await create_run(
        shop.stores, APP, "default", {"name": "fast"}, now_ms=NOON_MS - REST_MS + 60_000, by="schedule mine"
    )
    assert await shop.supervisor.examine_app((await shop.stores.access.read_all()).apps[APP]) == 0
    shop.clock.advance(HOUR_MS)
    assert await shop.look_again() == 1
    run = (await shop.stores.runs.newest(APP))[0]
    assert run.by == "drift: click rate changed from 12.8% to 2.0%"
    assert (run.recipe, run.promote) == (mine.recipe, True)
    shop.clock.advance(2 * HOUR_MS)
    assert await shop.look_again() == 0
    assert COOLDOWN_MS == DAY_MS


async def test_every_engine_gets_its_first_training(shop: Shop) -> None:
    await shop.set_switch(True)
    shop.settle()
    await shop.look_again()
    await shop.stores.engines.put(Engine(app_id=APP, engine_id="spring"))
    await shop.stores.engines.put(Engine(app_id=APP, engine_id="trained", snapshot="053040c827b6cf19"))
    assert await shop.look_again() == 1
    runs = {run.run_id: run.engine_id for run in await shop.stores.runs.list_open(APP)}
    assert runs == {"first-training": "default", "first-training-spring": "spring"}
    schedules = {schedule.name: schedule.engine_id for schedule in await shop.stores.schedules.all(APP)}
    assert schedules == {"nightly": "default", "nightly-spring": "spring"}
    assert await shop.look_again() == 0
