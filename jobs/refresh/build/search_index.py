"""The search index of an engine's products, built beside what was learned, by the modules recommenders read it with."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import orjson
from pydantic import BaseModel, Field

from actors.retrieval.snapshot_format import SEARCH, save
from actors.vectors.snapshot_arrays import ModelState
from jobs.refresh.learners.protocol import STRICT


class SearchRecipe(BaseModel):
    """Parameters of the search index."""

    model_config = STRICT

    learn_from: int = Field(default=5_000, ge=0, le=50_000)
    "Products that meaning is learned from; 0 leaves meaning to the vectors recommendations are made with."


def build_search_index(recipe: SearchRecipe, products: Iterable[bytes]) -> Mapping[str, ModelState]:
    """Index products; equal products give equal arrays.

    Cost:
        100,000 products of 60 words: 10 s, with meaning 30 s
    """
    return {SEARCH: save([orjson.loads(product) for product in products], learn_from=recipe.learn_from)}
