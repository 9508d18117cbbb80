"""Who gets which variant."""

from __future__ import annotations

import pytest

from actors.experiments.assignment import choose_variant
from cluster.errors import NotFound
from tests.unit.actors.experiments.test_assignment import experiment

NOW = 1_700_000_000_000


def test_a_fresh_reader_gets_a_variant_that_is_remembered() -> None:
    choice = choose_variant(experiment(), ("u:ada", "a:x"), {}, now_ms=NOW)
    assert choice.in_experiment
    assert choice.remember == {"u:ada": choice.variant.variant_id, "a:x": choice.variant.variant_id}


def test_a_variant_once_given_stays_when_weights_change() -> None:
    choice = choose_variant(experiment((0, 1)), ("u:ada",), {"u:ada": "v0"}, now_ms=NOW)
    assert (choice.variant.variant_id, dict(choice.remember)) == ("v0", {})


def test_a_visitor_who_signs_in_keeps_the_variant() -> None:
    choice = choose_variant(experiment((0, 1)), ("u:ada", "a:x"), {"a:x": "v0"}, now_ms=NOW)
    assert (choice.variant.variant_id, dict(choice.remember)) == ("v0", {"u:ada": "v0"})


def test_the_variant_of_the_user_wins_over_the_visitors() -> None:
    choice = choose_variant(experiment(), ("u:ada", "a:x"), {"u:ada": "v1", "a:x": "v0"}, now_ms=NOW)
    assert (choice.variant.variant_id, dict(choice.remember)) == ("v1", {"a:x": "v1"})


@pytest.mark.parametrize("name", ["V1", "v1"])
def test_a_named_variant_is_forced_and_sticks(name: str) -> None:
    choice = choose_variant(experiment((1, 0)), ("u:ada",), {"u:ada": "v0"}, now_ms=NOW, variant_name=name)
    assert choice.forced
    assert dict(choice.remember) == {"u:ada": "v1"}


def test_an_unknown_variant_raises() -> None:
    with pytest.raises(NotFound, match="Variant is not found"):
        choose_variant(experiment(), ("u:ada",), {}, now_ms=NOW, variant_name="v9")


def test_an_experiment_that_does_not_run_shows_the_control_and_remembers_nothing() -> None:
    ended = experiment(ends_at=NOW)
    choice = choose_variant(ended, ("u:ada",), {}, now_ms=NOW)
    assert (choice.in_experiment, choice.variant.variant_id, dict(choice.remember)) == (False, "v0", {})
    assert choose_variant(ended, ("u:ada",), {}, now_ms=NOW - 1).in_experiment


def test_who_is_outside_the_traffic_sees_the_control() -> None:
    choice = choose_variant(experiment((0, 1), traffic=0.0), ("u:ada",), {}, now_ms=NOW)
    assert (choice.in_experiment, choice.variant.variant_id) == (False, "v0")
