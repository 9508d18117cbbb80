"""Salted hashing."""

from __future__ import annotations

import itertools
from collections import Counter

import numpy as np
import pytest
from scipy import stats

from actors.experiments.assignment import hash_position, is_eligible, select_variant
from cluster.records.experiment import Experiment, Variant

VECTORS = [
    ("salt", "u:ada", 0.8538240338385897),
    ("salt", "a:ada", 0.7497199796638994),
    ("", "", 0.006748622698109608),
    ("entry-5f0c", "u:Łukasz", 0.577488983969),
]


def experiment(weights: tuple[float, ...] = (1, 1), **about: object) -> Experiment:
    variants = tuple(
        Variant(variant_id=f"v{at}", name=f"V{at}", slug=f"v{at}", weight=weight)
        for at, weight in enumerate(weights)
    )
    given = {"entry_salt": "entry-salt-1", "variant_salt": "variant-salt-1", **about}
    return Experiment(
        app_id="shop", experiment_id="e1", slug="e1", name="E1", status="Active", variants=variants, **given
    )


@pytest.mark.parametrize(("salt", "reader", "wanted"), VECTORS)
def test_places_are_the_published_ones(salt: str, reader: str, wanted: float) -> None:
    assert hash_position(salt, reader) == wanted


@pytest.mark.parametrize("weights", [(1, 1), (9, 1), (50, 30, 20), (1, 0, 3), (1,) * 7])
def test_readers_are_split_by_weight(weights: tuple[float, ...]) -> None:
    compared = experiment(weights)
    count = 40_000
    got = Counter(select_variant(compared, f"u:{number}").variant_id for number in range(count))
    wanted = [count * weight / sum(weights) for weight in weights if weight]
    seen = [got[f"v{at}"] for at, weight in enumerate(weights) if weight]
    assert sum(seen) == count
    if len(seen) > 1:
        assert stats.chisquare(seen, wanted).pvalue > 1e-4


def test_salts_are_independent_of_each_other() -> None:
    places = np.array(
        [[hash_position(salt, f"u:{number}") for salt in ("a-1", "a-2", "b")] for number in range(20_000)]
    )
    for one, other in itertools.combinations(range(3), 2):
        table = np.histogram2d(places[:, one], places[:, other], bins=10)[0]
        assert stats.chi2_contingency(table).pvalue > 1e-4


def test_experiments_of_one_layer_never_share_a_reader() -> None:
    first = experiment(layer="page", slice=(0.0, 0.4))
    second = experiment(layer="page", slice=(0.4, 1.0), entry_salt="another-salt")
    takers = [(is_eligible(first, f"u:{n}"), is_eligible(second, f"u:{n}")) for n in range(5_000)]
    assert all(sum(pair) == 1 for pair in takers)
    assert 0.36 < np.mean([pair[0] for pair in takers]) < 0.44


def test_more_traffic_keeps_everybody_who_took_part() -> None:
    small, large = experiment(traffic=0.2), experiment(traffic=0.5)
    readers = [f"u:{number}" for number in range(5_000)]
    before = {reader for reader in readers if is_eligible(small, reader)}
    after = {reader for reader in readers if is_eligible(large, reader)}
    assert before < after
    assert all(select_variant(small, reader) == select_variant(large, reader) for reader in before)


def test_a_paused_variant_takes_nobody() -> None:
    compared = experiment()
    paused = compared.model_copy(
        update={
            "variants": (compared.variants[0], compared.variants[1].model_copy(update={"status": "Paused"}))
        }
    )
    assert {select_variant(paused, f"u:{number}").slug for number in range(100)} == {"v0"}
