"""Guardrails that pause experiments, through the HTTP interface with simulated latency, and their decisions."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

from actors.experiments import guardrails
from actors.experiments.assignment import select_variant
from actors.experiments.goal_values import ExperimentPeople, GoalValues, PeopleFigures, list_goals
from actors.experiments.guardrails import GuardrailWatcher, check_goals, check_requests
from actors.experiments.lifecycle import ExperimentLifecycle
from actors.recommender.messages import RecommendationResult, UserQuery
from cluster.artifacts.storage.artifact_store import ArtifactStore
from cluster.errors import KioskError, Unavailable
from cluster.records.engine import Engine
from cluster.records.experiment import Experiment
from cluster.store.engines.experiments import GUARD
from tests.fakes.asgi import call
from tests.fakes.request_handler import BROWSER, Corner, StillClock, open_corner
from tests.suites.test_experiments import an_experiment

VARIANTS = [
    {"variant_id": "a", "name": "a", "slug": "a"},
    {"variant_id": "b", "name": "b", "slug": "b", "engine_id": "rival"},
]


class SimulatedEngine:
    """Answers after a latency with a long tail, by a clock that it moves; the rival may be worse."""

    def __init__(
        self, clock: StillClock, *, slower_ms: int = 0, fails: float = 0.0, is_empty: bool = False
    ) -> None:
        self._clock, self._random = clock, Random(5)
        self._slower_ms, self._fails, self._is_empty = slower_ms, fails, is_empty

    async def answer(self, query: UserQuery) -> RecommendationResult:
        is_rival = query.engine_id == "rival"
        took_ms = self._random.lognormvariate(4.5, 0.7)
        self._clock.pass_ms(round(took_ms) + self._slower_ms * is_rival)
        if is_rival and self._random.random() < self._fails:
            raise Unavailable("away", retry_after_s=1)
        return RecommendationResult([] if is_rival and self._is_empty else [{"product_id": "p"}])


class Traffic:
    """Requests of many people through the HTTP interface, with a look of the watcher after every 50."""

    def __init__(self, corner: Corner, watcher: GuardrailWatcher) -> None:
        self.corner, self.watcher = corner, watcher
        self.statuses: list[int] = []

    async def send(self, most: int) -> int | None:
        """Return after how many requests the experiment was paused; None: it was not."""
        for number in range(1, most + 1):
            await self.ask(f"u{number % 700}")
            if number % 50 == 0 and await self.watcher.run_once():
                return number
        return None

    async def ask(self, user_id: str) -> None:
        answer = await self.corner.send(
            "POST", "/v1/recommendation/user_to_products", json={"user_id": user_id}
        )
        self.statuses.append(answer.status)


async def open_traffic(guardrails: dict[str, float], **worse: Any) -> Traffic:
    clock = StillClock()
    corner = await open_corner(clock=clock, client=SimulatedEngine(clock, **worse))
    for engine_id in ("default", "rival"):
        await corner.stores.engines.put(Engine(app_id="shop", engine_id=engine_id))
    experiment = an_experiment(variants=VARIANTS, guardrails=guardrails)
    assert await corner.stores.experiments.compare_and_set(experiment, 0)
    watcher = GuardrailWatcher(
        corner.stores, None, corner.experiments.treatments, clock, owner="r", list_apps=lambda: ()
    )
    return Traffic(corner, watcher)


async def test_a_variant_200_ms_slower_is_paused_before_2000_requests_and_no_request_fails() -> None:
    traffic = await open_traffic({"latency": 50}, slower_ms=200)
    paused_after = await traffic.send(2_000)
    assert paused_after is not None
    assert paused_after < 2_000
    assert set(traffic.statuses) == {200}
    stores = traffic.corner.stores
    experiment = (await stores.experiments.read_all("shop")).find("one")
    assert experiment is not None
    assert (experiment.status, experiment.paused_by) == ("Scheduled", "latency of b")
    (row,) = [row async for row in stores.audit.rows()]
    assert (row.operation, row.way, row.outcome, row.app_id) == (
        "experiments.pause",
        "automatic",
        "done",
        "shop",
    )
    evidence = row.arguments["evidence"]
    assert evidence["guardrail"] == "latency"
    assert evidence["effect"]["low"] > 50
    assert evidence["treated"]["mean"] - evidence["control"]["mean"] == pytest.approx(200, abs=40)
    assert not await stores.audit.begun()


async def test_an_equal_variant_is_not_paused() -> None:
    traffic = await open_traffic({"latency": 50, "errors": 0.005, "empty": 0.01})
    assert await traffic.send(2_000) is None


@pytest.mark.parametrize(
    ("guardrails", "worse"), [({"errors": 0.005}, {"fails": 0.1}), ({"empty": 0.01}, {"is_empty": True})]
)
async def test_errors_and_empty_answers_pause_too(
    guardrails: dict[str, float], worse: dict[str, Any]
) -> None:
    traffic = await open_traffic(guardrails, **worse)
    assert await traffic.send(2_000) is not None


async def test_a_new_start_judges_the_requests_since_then() -> None:
    traffic = await open_traffic({"latency": 50}, slower_ms=200)
    assert await traffic.send(2_000) is not None
    stores = traffic.corner.stores
    await ExperimentLifecycle(stores, StillClock()).start("shop", "one")
    served = await stores.experiments.served("shop", "id-one")
    assert not any(GUARD in name for name in served)
    assert served
    started = (await stores.experiments.read_all("shop")).find("one")
    assert started is not None
    assert started.paused_by == ""


async def test_two_replicas_pause_once() -> None:
    traffic = await open_traffic({"latency": 50})
    stores, experiment = traffic.corner.stores, an_experiment(variants=VARIANTS, guardrails={"latency": 50})
    broken = check_requests(experiment, count_requests("b", 2_000))
    assert broken is not None
    assert await traffic.watcher.pause(experiment, broken)
    assert not await traffic.watcher.pause(experiment, broken)
    assert len([row async for row in stores.audit.rows()]) == 1


async def test_a_store_that_is_away_fails_the_look_and_no_request() -> None:
    traffic = await open_traffic({"latency": 50}, slower_ms=200)
    await traffic.send(40)
    store: Any = traffic.corner.stores.experiments

    async def refuse(*_: object) -> None:
        raise Unavailable("away", retry_after_s=1)

    whole = store.record_served
    store.record_served = refuse
    with pytest.raises(KioskError):
        await traffic.watcher.run_once()
    store.record_served = whole
    assert await traffic.send(2_000) is not None


def count_requests(slow: str, requests: int) -> dict[str, int]:
    rng = np.random.default_rng(1)
    counts = {}
    for variant_id in ("a", "b"):
        took = rng.lognormal(4.5, 0.7, requests).astype(int) + 200 * (variant_id == slow)
        counts |= {
            f"{variant_id}:{GUARD}answered": requests,
            f"{variant_id}:{GUARD}ms": int(took.sum()),
            f"{variant_id}:{GUARD}ms_ms": int((took**2).sum()),
        }
    return counts


def test_a_slow_control_breaks_nothing() -> None:
    experiment = an_experiment(variants=VARIANTS, guardrails={"latency": 50})
    assert check_requests(experiment, count_requests("a", 2_000)) is None
    assert check_requests(experiment, {}) is None


def test_of_1000_equal_variants_looked_at_40_times_at_most_1_percent_are_paused() -> None:
    rng = np.random.default_rng(7)
    experiment = an_experiment(variants=VARIANTS, guardrails={"latency": 0})
    took = np.rint(rng.lognormal(3.0, 1.0, (1_000, 2, 40, 50)))
    sums, squares = took.sum(axis=3).cumsum(axis=2), np.square(took).sum(axis=3).cumsum(axis=2)

    def is_paused(run: int) -> bool:
        return any(
            check_requests(
                experiment,
                {
                    f"{variant_id}:{GUARD}{name}": int(value)
                    for at, variant_id in enumerate("ab")
                    for name, value in (
                        ("answered", 50 * (look + 1)), ("ms", sums[run, at, look]), ("ms_ms", squares[run, at, look]),
                    )
                },
            )
            for look in range(40)
        )  # fmt: skip

    assert sum(is_paused(run) for run in range(1_000)) <= 10


@pytest.mark.parametrize(("lift", "is_broken"), [(0.5, True), (1.0, False), (1.5, False)])
def test_a_goal_that_falls_breaks_its_guardrail(lift: float, is_broken: bool) -> None:
    rng = np.random.default_rng(3)
    size = 8_000
    variants = (np.arange(size) % 2).astype(np.int32)
    value = np.where(rng.random(size) < 0.2 * np.where(variants, lift, 1), rng.exponential(20, size), 0.0)
    experiment = an_experiment(variants=VARIANTS, goals=["revenue"], guardrails={"revenue": 0.05})
    goal = list_goals(experiment)[1]
    people: Any = ExperimentPeople(variants, np.zeros(size, np.int64), None)  # type: ignore[arg-type]
    figures = PeopleFigures((GoalValues(goal, value, None, np.zeros(size)),), np.zeros(size, bool))
    broken = check_goals(experiment, people, figures)
    assert (broken is not None) == is_broken
    if broken is not None:
        assert broken.to_dict()["guardrail"] == "revenue"


async def test_an_experiment_that_is_scheduled_after_a_pause_is_judged_anew() -> None:
    traffic = await open_traffic({"latency": 50}, slower_ms=200)
    assert await traffic.send(2_000) is not None
    stores, clock = traffic.corner.stores, StillClock()
    await ExperimentLifecycle(stores, clock).schedule("shop", "one", clock.now_ms() + 1)
    assert not any(GUARD in name for name in await stores.experiments.served("shop", "id-one"))


async def test_goals_that_cant_be_read_are_not_read_twice_a_second_and_leave_others_watched(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    clock = StillClock()
    corner = await open_corner(clock=clock)
    for version, name in enumerate(("one", "two")):
        experiment = an_experiment(
            experiment_id=f"id-{name}", slug=name, layer=name, variants=VARIANTS, goals=["revenue"],
            guardrails={"revenue": 0.05},
        )  # fmt: skip
        assert await corner.stores.experiments.compare_and_set(experiment, version)
    read: list[str] = []

    async def refuse(stores: object, artifacts: object, experiment: Experiment) -> None:
        read.append(experiment.slug)
        raise ZeroDivisionError("the data of somebody")

    monkeypatch.setattr(guardrails, "load_people_figures", refuse)
    watcher = GuardrailWatcher(
        corner.stores, ArtifactStore.open(tmp_path), corner.experiments.treatments, clock, owner="r",
        list_apps=lambda: ("shop",),
    )  # fmt: skip
    clock.pass_ms(301_000)
    for _ in range(3):
        assert await watcher.run_once() == 0
    assert sorted(read) == ["one", "two"]


@pytest.mark.parametrize("legitimate", [200, 1_500])
async def test_one_address_with_many_made_up_visitors_of_a_variant_pauses_nothing(
    monkeypatch: pytest.MonkeyPatch, legitimate: int
) -> None:
    traffic = await open_traffic({"latency": 50, "errors": 0.005, "empty": 0.01})
    assert await traffic.send(legitimate) is None

    async def answer_slowly(engine: SimulatedEngine, query: UserQuery) -> RecommendationResult:
        traffic.corner.clock.pass_ms(9_000)
        return RecommendationResult([])

    monkeypatch.setattr(SimulatedEngine, "answer", answer_slowly)
    experiment = (await traffic.corner.stores.experiments.read_all("shop")).find("one")
    assert experiment is not None
    visitors = [f"made-up-{number}" for number in range(1_000)]
    treated = [name for name in visitors if select_variant(experiment, f"a:{name}").slug == "b"]
    assert len(treated) > 400
    headers = {"X-API-KEY": traffic.corner.publishable(), "User-Agent": BROWSER}
    for number, name in enumerate(treated):
        body = json.dumps({"anonymous_id": name}).encode()
        answer = await call(
            traffic.corner.handler, "POST", "/v1/recommendation/user_to_products", headers=headers, body=body
        )
        assert answer.status == 200
        if number % 50 == 0:
            assert await traffic.watcher.run_once() == 0
    assert await traffic.watcher.run_once() == 0


async def test_one_user_with_empty_answers_on_ten_quiet_days_pauses_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    traffic = await open_traffic({"empty": 0.01})
    answer = SimulatedEngine.answer

    async def answer_empty(engine: SimulatedEngine, query: UserQuery) -> RecommendationResult:
        answered = await answer(engine, query)
        return RecommendationResult([]) if query.user_id == "u1" and query.engine_id == "rival" else answered

    experiment = (await traffic.corner.stores.experiments.read_all("shop")).find("one")
    assert experiment is not None
    assert select_variant(experiment, "u:u1").slug == "b"
    monkeypatch.setattr(SimulatedEngine, "answer", answer_empty)
    for _ in range(10):
        assert await traffic.send(150) is None
        for _ in range(20):
            await traffic.ask("u1")
        assert await traffic.watcher.run_once() == 0
        traffic.corner.clock.pass_ms(86_400_000)


@pytest.mark.parametrize("user_id", ["u1", "u2", "u3", "u4", "u5"])
async def test_one_user_with_a_thousand_empty_answers_pauses_nothing(
    monkeypatch: pytest.MonkeyPatch, user_id: str
) -> None:
    traffic = await open_traffic({"empty": 0.01})
    assert await traffic.send(2_000) is None

    async def answer_empty(engine: SimulatedEngine, query: UserQuery) -> RecommendationResult:
        return RecommendationResult([])

    monkeypatch.setattr(SimulatedEngine, "answer", answer_empty)
    for _ in range(1_000):
        await traffic.ask(user_id)
    assert await traffic.watcher.run_once() == 0
