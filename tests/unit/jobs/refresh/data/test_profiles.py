from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import orjson

from actors.models.loading.snapshot import Snapshot
from actors.models.loading.validation import validate_snapshot
from actors.vectors.vocabulary import Vocabulary
from jobs.refresh.build.fit import train_engine
from jobs.refresh.build.model_snapshot import write_model_snapshot
from jobs.refresh.data.profiles import Profiles
from jobs.refresh.recipe import parse_recipe
from jobs.refresh.runs.checkpoint import bytes_from_source, source_from_bytes
from jobs.refresh.runs.training_source import TrainingSource
from tests.fakes.trained_snapshot import RECIPE, ring_data


def users(**values: Any) -> list[bytes]:
    """Twelve users; a value per user number, by field."""
    return [
        orjson.dumps({"user_id": f"u{n}", **{field: give(n) for field, give in values.items()}})
        for n in range(12)
    ]


USERS = Vocabulary.from_names([f"u:u{n}" for n in range(12)] + ["a:visitor"])


def test_fields_nobody_filled_and_values_of_very_few_are_left_out() -> None:
    places, names = {"country": lambda n: "AT" if n < 9 else "CH"}, {"description": lambda n: "Likes soil."}
    profiles = Profiles.from_users(users(**places, **names, age=lambda n: 6 * n), USERS)
    assert profiles.fields == ("country",)
    assert profiles.values == (("AT",),)
    assert sorted(profiles.codes[:, 0].tolist()) == [-1] * 4 + [0] * 9


def test_ages_are_counted_by_band() -> None:
    profiles = Profiles.from_users(users(age=lambda n: 25 + n % 10), USERS)
    assert (profiles.fields, profiles.values) == (("age",), (("25-34",),))


def test_a_recipe_may_name_fields_attributes_included() -> None:
    records = users(custom_attributes=lambda n: {"plan": n % 2 == 0})
    profiles = Profiles.from_users(records, USERS, ("custom_attributes.plan", "attributes.plan"))
    assert profiles.fields == ("custom_attributes.plan",)
    assert profiles.values == (("false", "true"),)


def test_readers_without_a_record_and_records_without_a_reader_do_no_harm() -> None:
    assert Profiles.from_users([], USERS).codes.shape == (13, 0)
    assert Profiles.from_users(users(country=lambda n: "AT"), Vocabulary.from_names(["a:x"])).fields == ()


def test_cohorts_go_into_the_snapshot_and_come_back(tmp_path: Path) -> None:
    data = ring_data()
    records = [
        orjson.dumps({"user_id": name.removeprefix("u:"), "country": "AT" if at % 2 else "CH"})
        for at, name in enumerate(data.readers.names.to_pylist())
    ]
    data = replace(data, profiles=Profiles.from_users(records, data.readers))
    again = source_from_bytes(bytes_from_source(TrainingSource(data))).data
    assert again.profiles is not None
    np.testing.assert_array_equal(again.profiles.codes, data.profiles.codes)  # type: ignore[union-attr]
    assert (again.profiles.fields, again.profiles.values) == (("country",), (("AT", "CH"),))
    recipe = parse_recipe({**RECIPE, "cohorts": {"prior": 10.0}})
    manifest = write_model_snapshot(train_engine(recipe, again), tmp_path / "s", written_at_ms=1)
    learned = validate_snapshot(Snapshot.open(tmp_path / "s"), str(manifest.facts["version"]))
    assert learned.cohorts is not None
    assert learned.cohorts.codes({"country": "CH", "gender": "M"}).tolist() == [[1]]
    shares = learned.cohorts.score(learned.cohorts.codes({"country": "CH"}))[0]
    assert shares.sum() > 0.99
