from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cluster.records.engine import Engine, Placement, Scaling
from cluster.runtime.engine_plan import (
    QUIET_MS,
    DeployEngine,
    EngineApplication,
    RemoveApplication,
    RerouteEngine,
    Step,
    engine_status,
    is_at_target,
    plan_steps,
)

NOW = 1_700_000_000_000


def engine(**more: Any) -> Engine:
    return Engine(**{"app_id": "shop", "engine_id": "big", **more})


def seen(engine: Engine, **more: Any) -> EngineApplication:
    given = {
        "ours": True,
        "running": True,
        "replicas": 1,
        "target": 1,
        "arguments": engine.deployment_arguments(),
        **more,
    }
    return EngineApplication(name=engine.application, **given)


def next_steps(
    engine: Engine, *applications: EngineApplication, last: Mapping[str, int] | None = None
) -> list[Step]:
    return plan_steps(
        [engine], {application.name: application for application in applications}, last or {}, NOW
    )


def test_an_engine_in_the_doors_needs_nothing() -> None:
    assert next_steps(engine()) == []
    assert is_at_target(engine(), {})


def test_a_moving_engine_is_deployed_before_it_receives_queries() -> None:
    moving = engine(moving_to="own")
    assert next_steps(moving) == [DeployEngine(moving)]
    assert next_steps(moving, seen(moving, running=False)) == []
    assert next_steps(moving, seen(moving, replicas=0)) == []
    assert next_steps(moving, seen(moving)) == [RerouteEngine(moving, "own")]
    assert not is_at_target(moving, {moving.application: seen(moving)})


def test_a_limit_per_node_is_deployed_and_no_limit_leaves_deployments_of_earlier_releases_alone() -> None:
    dedicated = engine(placement="own")
    earlier = {"app_id": "shop", "engine_id": "big", **dedicated.scaling.model_dump()}
    assert next_steps(dedicated, seen(dedicated, arguments=earlier)) == []
    apart = dedicated.model_copy(update={"max_replicas_per_node": 1})
    assert next_steps(apart, seen(dedicated)) == [DeployEngine(apart)]
    assert next_steps(apart, seen(apart)) == []


def test_an_engine_that_moves_back_is_removed_only_when_nobody_asks_it_there_any_more() -> None:
    going = engine(placement="own", moving_to="door")
    assert next_steps(going, seen(going)) == [RerouteEngine(going, "door")]
    back = engine(moved_at=NOW - QUIET_MS - 1)
    assert next_steps(back, seen(back), last={back.application: NOW - 500}) == []
    assert next_steps(engine(moved_at=NOW - 500), seen(back)) == []
    assert next_steps(back, seen(back), last={back.application: NOW - QUIET_MS}) == [
        RemoveApplication(back.application)
    ]
    assert next_steps(back, seen(back, ending=True)) == []


def test_a_clock_that_was_set_back_keeps_no_application_for_ever() -> None:
    back = engine(moved_at=NOW + 3_600_000)
    assert next_steps(back, seen(back)) == [RemoveApplication(back.application)]


def test_a_missing_application_is_deployed_again() -> None:
    dedicated = engine(placement="own")
    assert next_steps(dedicated) == [DeployEngine(dedicated)]
    assert not is_at_target(dedicated, {})
    assert is_at_target(dedicated, {dedicated.application: seen(dedicated)})


def test_an_application_that_is_just_ending_is_waited_for() -> None:
    dedicated = engine(placement="own")
    assert next_steps(dedicated, seen(dedicated, ending=True, arguments=None)) == []


def test_other_scaling_is_deployed_and_the_same_is_left_alone() -> None:
    dedicated = engine(placement="own")
    assert next_steps(dedicated, seen(dedicated)) == []
    scaled = dedicated.model_copy(update={"scaling": Scaling(replicas_max=5)})
    assert next_steps(scaled, seen(dedicated)) == [DeployEngine(scaled)]


def test_what_belongs_to_nobody_is_swept_but_not_what_somebody_else_deployed() -> None:
    gone = engine(engine_id="gone")
    assert next_steps(engine(), seen(gone)) == [RemoveApplication(gone.application)]
    assert next_steps(engine(), seen(gone, ending=True)) == []
    assert next_steps(engine(), seen(gone, ours=False)) == []


def test_an_application_from_a_configuration_file_is_used_and_never_changed() -> None:
    theirs = seen(engine(), ours=False, arguments=None)
    for placement, step in (("own", "own"), ("door", None)):
        target: Placement | None = "own" if step else None
        embedded = engine(placement="door", moving_to=target)
        assert next_steps(embedded, theirs) == ([RerouteEngine(embedded, "own")] if step else []), placement
    assert is_at_target(engine(placement="own"), {theirs.name: theirs})
    assert is_at_target(engine(), {theirs.name: theirs})


def test_a_status_reports_the_obstacle() -> None:
    moving = engine(moving_to="own")
    assert engine_status(engine(), None, NOW) is None
    states = {
        "starting": [None, seen(moving, replicas=0), seen(moving, running=False)],
        "running": [seen(moving)],
        "failed": [seen(moving, failed=True, running=False, message="no such module")],
        "ending": [seen(moving, ending=True)],
    }
    for state, cases in states.items():
        for case in cases:
            status = engine_status(moving, case, NOW)
            assert status is not None
            assert status.state == state
    assert engine_status(engine(), seen(moving), NOW) is not None
