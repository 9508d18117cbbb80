"""Where stand-bys of the named actors go, and what Ray keeps of an actor."""

from __future__ import annotations

import pickle

import pytest

from cluster.runtime.actors.actor_roles import StandbyStep, engine_operator_role, plan_standbys


@pytest.mark.parametrize(
    ("places", "nodes", "steps"),
    [
        ({"intake": "a"}, {"a": 1}, []),
        ({"intake": "a"}, {"a": 1, "b": 0}, [StandbyStep("create", "intake", "b")]),
        ({"intake": "a", "intake-standby": "b"}, {"a": 1, "b": 1}, []),
        ({"intake": "a", "intake-standby": "a"}, {"a": 2, "b": 0}, [StandbyStep("move", "intake", "b")]),
        ({"intake-standby": "b"}, {"a": 0, "b": 1}, []),
        ({"intake": "a"}, {"a": 1, "b": 3, "c": 2}, [StandbyStep("create", "intake", "c")]),
    ],
)  # fmt: skip
def test_a_standby_stands_on_another_node(
    places: dict[str, str], nodes: dict[str, int], steps: list[StandbyStep]
) -> None:
    assert plan_standbys(["intake"], places, nodes) == steps


def test_standbys_of_several_roles_spread_over_the_nodes() -> None:
    steps = plan_standbys(["intake", "trainer"], {"intake": "a", "trainer": "a"}, {"a": 2, "b": 0, "c": 0})
    assert [step.node for step in steps] == ["b", "c"]


def test_the_engine_operator_knows_the_roles_that_it_keeps() -> None:
    intake = engine_operator_role("x:build")
    assert engine_operator_role("x:build", [intake]).arguments[2] == (intake,)


@pytest.mark.parametrize(
    "name",
    [
        "actors.experiments.host AssignerHost",
        "actors.history.host TrackerHost",
        "actors.intake.host IntakeHost",
        "cluster.runtime.actor_roles ActorRole",
        "cluster.runtime.artifact_access open_artifact_store",
        "cluster.runtime.artifact_access open_patient_artifact_store",
        "cluster.runtime.connecting connect_actor",
        "cluster.runtime.connecting connect_serving_actor",
        "cluster.runtime.meter RayMeter",
        "jobs.refresh.driver Trainer",
    ],
)
def test_a_node_of_this_release_starts_actors_of_release_0_2_0(name: str) -> None:
    # Ray keeps these names of an actor's class and arguments, and resolves them where it starts the actor again.
    module, _, member = name.partition(" ")
    assert callable(pickle.loads(f"c{module}\n{member}\n.".encode()))
