"""Films with years, as film catalogs list them, are found as people type them; see benchmarks/completions.py."""

from __future__ import annotations

import numpy as np
import pytest

from actors.language.folding import fold_typed
from actors.retrieval.autocomplete.lookup import CompletionIndex
from tests.benchmarks.quality_sets import data_folder, has
from tests.benchmarks.typos import Case, half_typed, load_films, misspelled, with_typos

pytestmark = [pytest.mark.data, pytest.mark.timeout(120), pytest.mark.slow]
FLOORS = {0: 0.93, 1: 0.87, 2: 0.8, 3: 0.8, 4: 0.9}
HALF_TYPED_FLOORS = {0: 0.93, 1: 0.92, 2: 0.88, 3: 0.88, 4: 0.84}
"Number of typos -> share of titles among the first ten."
_CASES = 200


@pytest.mark.skipif(not has("titles"), reason="the public title sets are not here")
def test_films_match_in_spite_of_typos() -> None:
    films = load_films(data_folder())
    index = CompletionIndex.of(films.texts, np.array(films.popularity))

    def share(cases: list[Case]) -> float:
        looked_up = [index.look_up(fold_typed(case.typed), 10).texts.tolist() for case in cases]
        return float(
            np.mean(
                [
                    case.title in {films.texts[at] for at in places}
                    for case, places in zip(cases, looked_up, strict=True)
                ]
            )
        )

    for typos, floor in FLOORS.items():
        assert share(with_typos(films, typos, _CASES)) >= floor, typos
    for typos, floor in HALF_TYPED_FLOORS.items():
        assert share(half_typed(films, typos, _CASES)) >= floor, typos
    assert share(with_typos(films, 4, _CASES, hasty=True)) >= 0.75
    assert share(misspelled(films, data_folder(), _CASES)) >= 0.86
