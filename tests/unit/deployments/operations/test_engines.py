"""Use cases of engines: who may do what, what they refuse, and what they change."""

from __future__ import annotations

from pathlib import Path

import pytest

from cluster.errors import Conflict, Forbidden, Invalid, NotFound
from cluster.records.administration import APP_ROLES
from cluster.records.engine import MOST_PAUSES, Engine
from tests.fakes.model_shop import APP, ModelShop, open_model_shop


@pytest.fixture
async def shop(tmp_path: Path) -> ModelShop:
    return await open_model_shop(tmp_path)


async def test_an_engine_is_created_moved_scaled_and_deleted(shop: ModelShop) -> None:
    made = await shop.perform("engines.create", engine_id="summer", replicas_min=1, replicas_max=3)
    assert made.to_dict()["scaling"]["replicas_max"] == 3
    moved = await shop.perform("engines.place", engine_id="summer", placement="dedicated")
    assert (moved.engine.placement, moved.engine.moving_to) == ("door", "own")
    scaled = await shop.perform("engines.scale", engine_id="summer", target_requests=2.5)
    scaling = scaled.view.engine.scaling
    assert (scaling.target_requests, scaling.replicas_max) == (2.5, 3)
    listed = await shop.perform("engines.list")
    assert [view.engine.engine_id for view in listed.engines] == ["default", "summer"]
    await shop.perform("engines.delete", engine_id="summer")
    assert await shop.stores.engines.get(APP, "summer") is None
    assert [(row.operation, row.outcome) for row in shop.audit.rows] == [
        (f"engines.{verb}", "done") for verb in ("create", "place", "scale", "delete")
    ]
    assert shop.audit.rows[1].before["moving_to"] is None
    assert shop.audit.rows[1].after["moving_to"] == "own"


@pytest.mark.parametrize(
    ("operation", "given", "error", "message"),
    [
        ("create", {"engine_id": "Summer!"}, Invalid, "lower case letters, digits and -"),
        ("create", {"engine_id": "../../x"}, Invalid, "can't be the name of an engine"),
        ("create", {"engine_id": "default"}, Conflict, "has an engine named default already"),
        (
            "create",
            {"engine_id": "a", "replicas_min": 3, "replicas_max": 1},
            Invalid,
            "replicas_min is larger",
        ),
        (
            "scale",
            {"engine_id": "default", "memory_budget_mb": 1},
            Invalid,
            "memory_budget_mb: input should be",
        ),
        ("place", {"engine_id": "default", "placement": "moon"}, Invalid, "choose embedded or dedicated"),
        ("get", {"engine_id": "nope"}, NotFound, "there are: default"),
        ("delete", {"engine_id": "default"}, Invalid, "can't be deleted"),
        ("explore", {"engine_id": "default", "share": 0.21}, Invalid, "share: .*less than or equal to 0.2"),
        ("explore", {"engine_id": "nope", "share": 0.1}, NotFound, "there are: default"),
        ("repeat_after", {"engine_id": "default", "days": -1}, Invalid, "days: .*greater than or equal to 0"),
    ],
)
async def test_what_is_wrong_is_named(
    shop: ModelShop, operation: str, given: dict[str, object], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        await shop.perform(f"engines.{operation}", **given)


async def test_an_engine_with_traffic_is_deleted_by_force_only(shop: ModelShop) -> None:
    await shop.perform("engines.create", engine_id="summer")
    await shop.stores.engine_activity.add_requests(APP, {("door", "summer"): 60}, shop.services.now_ms())
    with pytest.raises(Conflict, match="times a second"):
        await shop.perform("engines.delete", engine_id="summer")
    await shop.perform("engines.delete", engine_id="summer", force=True)


@pytest.mark.parametrize("role", APP_ROLES)
async def test_only_an_owner_places_scales_and_deletes(shop: ModelShop, role: str) -> None:
    await shop.perform("engines.list", role=role)
    for name, given in (
        ("create", {"engine_id": "x"}),
        ("place", {"engine_id": "x", "placement": "embedded"}),
        ("scale", {"engine_id": "x"}),
        ("explore", {"engine_id": "x", "share": 0.1}),
        ("repeat_after", {"engine_id": "x", "days": 1}),
        ("delete", {"engine_id": "x"}),
    ):
        if role == "owner":
            await shop.perform(f"engines.{name}", role=role, **given)
        else:
            with pytest.raises(Forbidden, match="needs the role owner"):
                await shop.perform(f"engines.{name}", role=role, **given)


async def test_exploration_is_off_until_somebody_turns_it_on_and_keeps_its_secret(shop: ModelShop) -> None:
    off = await shop.perform("engines.get", engine_id="default")
    assert (off.to_dict()["explore_share"], off.engine.exploration.secret) == (0.0, "")
    view = await shop.perform("engines.explore", engine_id="default", share=0.05, pool=50)
    secret = view.engine.exploration.secret
    assert len(bytes.fromhex(secret)) == 16
    view = await shop.perform("engines.explore", engine_id="default", share=0)
    assert view.engine.exploration.secret == secret, "draws can still be recomputed"
    first, second = shop.audit.rows
    assert (first.before["explore_share"], first.after["explore_share"]) == (0.0, 0.05)
    assert secret not in str(first) + str(second) + str(view.to_dict()) + repr(view)


async def test_lists_over_all_apps_show_only_apps_of_the_person(shop: ModelShop) -> None:
    await shop.stores.engines.put(Engine(app_id="other", engine_id="default"))
    listed = await shop.perform("engines.list_all", role="viewer")
    assert {view.engine.app_id for view in listed.engines} == {APP}


async def test_pauses_are_set_changed_and_removed_by_type(shop: ModelShop) -> None:
    async def change(**given: object) -> object:
        view = await shop.perform("engines.repeat_after", engine_id="default", **given)
        return view.to_dict()["repeat_after_days"]

    assert await change(type="checkout", days=60) == {"checkout": 60.0}
    assert await change(days=0.5) == {"checkout": 60.0, "*": 0.5}
    assert await change(type="checkout") == {"*": 0.5}
    assert await change() == {}
    for number in range(32):
        await change(type=f"type_{number}", days=1)
    with pytest.raises(Invalid, match="at most 32 types"):
        await change(type="one_more", days=1)


async def test_a_pause_may_apply_to_all_engines_and_new_engines_inherit_it(shop: ModelShop) -> None:
    await shop.perform("engines.create", engine_id="summer")
    await shop.perform(
        "engines.repeat_after", engine_id="default", type="checkout", days=30, all_engines=True
    )
    await shop.perform("engines.repeat_after", engine_id="default", type="watch", days=36_500)
    await shop.perform("engines.create", engine_id="winter")
    pauses = {engine.engine_id: engine.repeat_after_days for engine in await shop.stores.engines.all(APP)}
    checkout = {"checkout": 30.0}
    assert pauses["summer"] == checkout
    assert pauses["default"] == pauses["winter"] == {**checkout, "watch": 36_500.0}


async def test_a_pause_that_an_engine_refuses_changes_no_engine(shop: ModelShop) -> None:
    full = {f"kind{number}": 1.0 for number in range(MOST_PAUSES)}
    await shop.stores.engines.put(Engine(app_id=APP, engine_id="full", repeat_after_days=full))
    with pytest.raises(Invalid, match="at most 32 types"):
        await shop.perform("engines.repeat_after", engine_id="default", days=1, all_engines=True)
    assert all(engine.repeat_after_days != {"*": 1.0} for engine in await shop.stores.engines.all(APP))
