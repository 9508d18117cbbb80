"""Use cases of trainings and schedules: ordered through the store, followed by their record."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from actors.models.loading.allowed_learners import ALLOWED
from cluster.artifacts.segments import SegmentStore
from cluster.errors import Conflict, Forbidden, Invalid, NotFound, Unprocessable
from cluster.records.apps import DEFAULT_TRAINING_MB, new_app_settings
from cluster.records.run import StageResult, claim_run, end_run, update_leased_run
from deployments.operations.framework.operation import result_to_json
from jobs.refresh.runs.local_worker import free_memory_mb
from tests.fakes.model_shop import APP, ModelShop, open_model_shop
from tests.suites.test_runs import a_run
from tests.suites.test_segments import clicks, products


@pytest.fixture
async def shop(tmp_path: Path) -> ModelShop:
    return await open_model_shop(tmp_path)


async def test_a_training_is_ordered_by_a_person_and_waits_for_a_worker(shop: ModelShop) -> None:
    view = await shop.perform("runs.order", role="editor", recipe="fast", changes={"seed": 7}, promote=True)
    run = await shop.stores.runs.get(APP, view.run.run_id)
    assert run is not None
    assert (run.status, run.by, run.promote, run.recipe["seed"]) == ("queued", "ada", True, 7)
    assert (await shop.perform("runs.list", role="viewer")).runs == (run,)
    assert (await shop.perform("runs.list", engine_id="other")).runs == ()
    assert (await shop.perform("runs.get", run_id=run.run_id[:6])).run == run
    assert (await shop.perform("runs.find", run_id=run.run_id)).run == run


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ({"recipe": "/etc/passwd"}, NotFound, "there is no recipe '/etc/passwd'; choose from default"),
        ({"recipe": {"parts": {}}}, Invalid, "there must be at least one"),
        ({"recipe": "fast", "changes": {"parts.rules.windw": 1}}, Invalid, "there is no such field"),
        ({"engine_id": "nope"}, NotFound, "has no engine nope"),
        (
            {"recipe": {"parts": {"x": {"learner": "os:system"}}}},
            Invalid,
            "is not allowed in this installation",
        ),
        ({"code": "abc"}, Unprocessable, "extra inputs"),
        ({"owner": "me"}, Unprocessable, "extra inputs"),
    ],
)
async def test_an_order_that_can_not_be_is_refused(
    shop: ModelShop, given: dict[str, Any], error: type[Exception], message: str
) -> None:
    for operation in ("runs.order", "runs.estimate"):
        with pytest.raises(error, match=message):
            await shop.perform(operation, **given)
    assert await shop.stores.runs.newest(APP) == []


async def test_viewers_follow_and_editors_order_and_cancel(shop: ModelShop) -> None:
    run_id = (await shop.perform("runs.order")).run.run_id
    for operation, given in (("runs.order", {}), ("runs.estimate", {}), ("runs.cancel", {"run_id": run_id})):
        with pytest.raises(Forbidden, match="needs the role editor"):
            await shop.perform(operation, role="analyst", **given)
    assert (await shop.perform("runs.cancel", role="editor", run_id=run_id)).run.status == "cancelled"
    with pytest.raises(Conflict, match="has ended already"):
        await shop.perform("runs.cancel", run_id=run_id)


async def test_the_log_lists_the_steps_of_a_training(shop: ModelShop) -> None:
    now_ms = shop.services.now_ms()
    run = (await shop.perform("runs.order")).run
    steps: list[dict[str, Any]] = [
        {"stage": "dataset", "message": ""},
        {"message": "read segments"},
        {"message": "read segments", "fraction": 0.5},
        {"stage": "plan", "message": ""},
    ]
    claimed = claim_run(run, "worker", now_ms)
    assert claimed is not None
    for step in steps:
        claimed = update_leased_run(claimed, "worker", 1, now_ms, step)
        assert claimed is not None
    ended = end_run(claimed, "worker", 1, now_ms, "failed", {"error": "too little data"})
    assert ended is not None
    await shop.stores.runs.compare_and_set(ended)
    log = await shop.perform("runs.log", role="viewer", run_id=run.run_id)
    assert [line[21:] for line in log.lines] == [
        "ordered by ada", "claimed by a worker, attempt 1", "dataset", "dataset: read segments", "plan",
        "failed: too little data",
    ]  # fmt: skip
    assert "log" not in (await shop.perform("runs.get", run_id=run.run_id)).to_dict()


async def test_the_log_of_a_run_is_bounded(shop: ModelShop) -> None:
    run = claim_run((await shop.perform("runs.order")).run, "worker", 0)
    for number in range(300):
        assert run is not None
        run = update_leased_run(run, "worker", 1, 0, {"message": f"step {number} {'x' * 1_000}"})
    assert run is not None
    assert len(run.log) == 100
    assert max(map(len, run.log)) == 300


async def test_an_estimate_needs_compacted_data(shop: ModelShop) -> None:
    with pytest.raises(Invalid, match="no data of it is compacted"):
        await shop.perform("runs.estimate", role="editor")


async def test_an_estimate_counts_rows_and_reads_none(shop: ModelShop) -> None:
    segments = SegmentStore(shop.artifacts)
    segments.append(APP, "product", products("1-0", ("p1", 1), ("p2", 1)), first="1-0", last="1-0")
    clicked = clicks("1-0", *(f"u:{number % 10}" for number in range(40)))
    segments.append(APP, "interaction", clicked, first="1-0", last="1-0")
    assert segments.row_counts(APP) == {"product": 2, "interaction": 40}
    files = [path for path in shop.folder.rglob("*") if path.is_file() and "manifest" not in path.name]
    assert files
    for path in files:
        path.unlink()
    estimate = (await shop.perform("runs.estimate", role="editor", recipe="fast", changes="seed=7")).to_dict()
    assert (estimate["events"], estimate["readers"], estimate["products"]) == (40, 5, 2)
    assert estimate["fits"] is True
    assert {part["part"] for part in estimate["parts"]} >= {"rules"}
    counted = StageResult(name="dataset", facts={"events": 20, "readers": 5})
    await shop.stores.runs.compare_and_set(a_run("counted", engine_id="default", stages=(counted,)))
    assert (await shop.perform("runs.estimate", recipe="fast")).to_dict()["readers"] == 10


async def test_recipes_and_learners_are_listed(shop: ModelShop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ALLOWED, "_read", lambda: ("b:B", "a:A"))
    listing = (await shop.perform("recipes.list", role="viewer")).to_dict()
    assert [recipe["name"] for recipe in listing["recipes"]] == [
        "default",
        "fast",
        "deep",
        "sequence",
        "shop",
        "session",
    ]
    assert listing["learners"] == ["a:A", "b:B"]


async def test_schedules_are_added_listed_and_removed(shop: ModelShop) -> None:
    made = await shop.perform("schedules.add", role="editor", schedule="nightly", recipe="fast")
    assert (made.to_dict()["when"], made.to_dict()["recipe"]) == ("nightly", "fast")
    listed = result_to_json(await shop.perform("schedules.list", role="viewer"))
    assert listed == {"schedules": [made.to_dict()]}
    assert result_to_json(await shop.perform("schedules.list_all", role="viewer")) == listed
    with pytest.raises(Conflict, match="has a schedule nightly already"):
        await shop.perform("schedules.add", schedule="nightly")
    for given in ({"schedule": "No!"}, {"schedule": "x", "when": "sometimes"}):
        with pytest.raises(Invalid):
            await shop.perform("schedules.add", **given)
    changed = (
        await shop.perform("schedules.change", schedule="nightly", when="every 6h", promote=False)
    ).to_dict()
    assert (changed["when"], changed["promote"], changed["recipe"]) == ("every 6h", False, "fast")
    for given in ({"when": "sometimes"}, {"recipe": "./mine.toml"}):
        with pytest.raises((Invalid, NotFound)):
            await shop.perform("schedules.change", schedule="nightly", **given)
    assert result_to_json(await shop.perform("schedules.list", role="viewer")) == {"schedules": [changed]}
    removed = (await shop.perform("schedules.remove", schedule="nightly")).to_dict()
    assert removed == {"app_id": APP, "name": "nightly", "removed": True}
    assert shop.audit.rows[-1].before["when"] == "every 6h"
    with pytest.raises(NotFound):
        await shop.perform("schedules.remove", schedule="nightly")


EVIL = {"parts": {"evil": {"learner": "subprocess:run"}}}


async def test_a_forbidden_learner_is_refused_wherever_a_recipe_is_accepted(shop: ModelShop) -> None:
    orders: tuple[tuple[str, dict[str, Any]], ...] = (
        ("runs.order", {"recipe": EVIL}),
        ("runs.estimate", {"recipe": EVIL}),
        ("schedules.add", {"recipe": EVIL, "schedule": "nightly", "when": "nightly"}),
        ("evaluations.order", {"recipe": EVIL}),
        ("evaluations.sweep", {"recipe": EVIL, "sweep": ["seed=1,2"]}),
        ("evaluations.sweep", {"recipe": "fast", "sweep": ['parts.evil={"learner":"antigravity:fly"}']}),
    )
    for operation, given in orders:
        with pytest.raises(Invalid, match="is not allowed in this installation"):
            await shop.perform(operation, **given)
    assert await shop.stores.runs.newest(APP) == []
    assert await shop.stores.schedules.all(APP) == []


@pytest.mark.parametrize("depth", [100, 2_000, 40_000])
async def test_changes_of_many_brackets_are_refused(shop: ModelShop, depth: int) -> None:
    deep = "seed=" + "[" * depth
    for operation, given in (
        ("runs.order", {"recipe": "fast", "changes": deep}),
        ("runs.estimate", {"recipe": "fast", "changes": deep}),
        ("evaluations.sweep", {"recipe": "fast", "changes": deep, "sweep": ["seed=1"]}),
    ):
        with pytest.raises((Invalid, Unprocessable)):
            await shop.perform(operation, **given)


@pytest.mark.parametrize(
    ("of_app", "of_installation"), [(2_000, 0), (2_000, 3_000), (3_000, 2_000), (0, 2_000)]
)
async def test_the_memory_of_a_training_is_bounded_by_the_app_and_the_installation(
    shop: ModelShop, monkeypatch: pytest.MonkeyPatch, of_app: int, of_installation: int
) -> None:
    monkeypatch.setenv("KIOSK_MAX_TRAINING_MEMORY_MB", str(of_installation))
    app = (await shop.stores.access.read_all()).apps[APP]
    settings = app.settings.model_copy(update={"max_training_memory_mb": of_app})
    await shop.stores.access.put_app(app.model_copy(update={"settings": settings}))
    for memory_mb, fits in ((2_000, True), (2_001, False), (1_000_000_000, False)):
        changes = {"limits.memory_mb": memory_mb}
        orders: tuple[tuple[str, dict[str, Any]], ...] = (
            ("runs.order", {"changes": changes}),
            ("evaluations.order", {"changes": changes}),
        )
        for operation, given in orders:
            if fits:
                await shop.perform(operation, recipe="fast", **given)
            else:
                with pytest.raises(Invalid, match="memory_mb"):
                    await shop.perform(operation, recipe="fast", **given)
    with pytest.raises(Invalid, match="at most 2000 MB"):
        await shop.perform("schedules.add", recipe="fast", schedule="nightly", when="nightly")


async def test_a_new_app_of_production_bounds_the_memory_of_its_trainings(shop: ModelShop) -> None:
    app = (await shop.stores.access.read_all()).apps[APP]
    assert app.settings.max_training_memory_mb == 0, "apps of an earlier release keep their value"
    settings = new_app_settings("production")
    await shop.stores.access.put_app(app.model_copy(update={"settings": settings}))
    await shop.perform("runs.order", recipe="fast", changes={"limits.memory_mb": DEFAULT_TRAINING_MB})
    with pytest.raises(Invalid, match="may use at most 8192 MB"):
        await shop.perform("runs.order", recipe="fast", changes={"limits.memory_mb": DEFAULT_TRAINING_MB + 1})


def test_a_worker_uses_no_more_memory_than_the_installation_allows(monkeypatch: pytest.MonkeyPatch) -> None:
    assert free_memory_mb() > 100
    monkeypatch.setenv("KIOSK_MAX_TRAINING_MEMORY_MB", "100")
    assert free_memory_mb() == 100
