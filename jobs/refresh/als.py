"""Implicit ALS: a vector for every item, such that readers' vectors explain what they took. For embeddings.

Weighted least squares by turns; each side is solved for all rows at once by a few steps of conjugate gradients.

Source:
    Y. Hu, Y. Koren, C. Volinsky, Collaborative Filtering for Implicit Feedback Datasets, ICDM 2008
    G. Takacs, I. Pilaszy, D. Tikk, Applications of the Conjugate Gradient Method for Implicit Feedback, RecSys 2011
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from pydantic import Field

from actors.vectors.types import Matrix
from jobs.refresh.dataset import Interactions
from jobs.refresh.histories import Fading, Histories, faded
from jobs.refresh.learner import Batch, PartRecipe, Parts
from jobs.refresh.matrix import reader_item

_BLOCK_VALUES = 8_000_000


class AlsRecipe(PartRecipe):
    """Parameters of implicit ALS."""

    learner: Literal["als"] = "als"
    factors: int = Field(default=64, ge=1, le=1_024)
    "Length of an item's vector."
    rounds: int = Field(default=12, ge=1)
    "Both sides are solved so many times."
    regularisation: float = Field(default=0.05, gt=0)
    "Lambda; keeps vectors short."
    confidence: float = Field(default=20.0, gt=0)
    "What an event of weight 1 adds to the confidence of 1 that everything has."
    steps: int = Field(default=3, ge=1)
    "Conjugate gradient steps a solve."
    half_life_days: float | None = Field(default=None, gt=0)
    "Halves what an event of training is worth for every so many days of age."
    fading: Fading = Fading()
    "How the history fades when scoring."


@dataclass(frozen=True, slots=True)
class Als:
    """The learner."""

    recipe: AlsRecipe = field(default_factory=AlsRecipe)

    def train(self, data: Interactions, rng: np.random.Generator) -> Factors:
        """Learn item vectors.

        Cost:
            1,000,000 events, 64 factors, 12 rounds: 40 s on one core
        """
        recipe = self.recipe
        matrix = reader_item(data, recipe.half_life_days)
        by_item = matrix.T.tocsr()
        spread = recipe.factors**-0.5 * 0.1
        items = rng.normal(0.0, spread, (data.n_items, recipe.factors)).astype(np.float32)
        items[np.diff(by_item.indptr) == 0] = 0.0
        readers = np.zeros((data.n_readers, recipe.factors), np.float32)
        for _ in range(recipe.rounds):
            readers = solved(matrix, items, readers, recipe)
            items = solved(by_item, readers, items, recipe)
        return Factors(items, (items.T @ items).astype(np.float32), recipe)

    def load(self, parts: Parts) -> Factors:
        """Bring the vectors back."""
        return Factors(parts.array("items"), parts.array("gram"), AlsRecipe(**parts.facts["recipe"]))


@dataclass(frozen=True, slots=True)
class Factors:
    """The model: item vectors; a reader's vector is worked out when asked.

    Shapes:
        items: float32 [n, f]; gram: float32 [f, f]
    """

    items: Matrix
    gram: Matrix
    recipe: AlsRecipe

    def readers(self, histories: Histories) -> Matrix:
        """Work out the vectors of histories.

        Shapes:
            returns: float32 [q, f]; zeros for an empty history
        """
        liked = faded(histories, self.recipe.fading)
        liked.data = np.maximum(liked.data, 0.0)
        liked.eliminate_zeros()
        start = np.zeros((len(histories), self.items.shape[1]), np.float32)
        return solved(liked, self.items, start, self.recipe, gram=self.gram)

    def score(self, histories: Histories) -> Batch:
        """Multiply reader with item vectors.

        Shapes:
            returns: float32 [q, n]
        """
        scores: Batch = self.readers(histories) @ self.items.T
        return scores

    def fading_as(self, fading: Fading) -> Factors:
        """Give the same vectors with another fading of the history."""
        return Factors(self.items, self.gram, self.recipe.model_copy(update={"fading": fading}))

    def save(self) -> Parts:
        """Give the vectors."""
        return Parts({"items": self.items, "gram": self.gram}, {"recipe": self.recipe.model_dump()})


def solved(
    matrix: Any, others: Matrix, start: Matrix, recipe: AlsRecipe, gram: Matrix | None = None
) -> Matrix:
    """Solve (Y'Y + Y'(C - I)Y + lambda I) x = Y'Cp for every row, from where it stood.

    Shapes:
        matrix: CSR float32 [q, m], weights above 0; others: float32 [m, f]; start: float32 [q, f]
        returns: float32 [q, f]
    """
    ridge = np.eye(others.shape[1], dtype=np.float32) * np.float32(recipe.regularisation)
    base = (others.T @ others if gram is None else gram) + ridge
    extra = matrix.data * np.float32(recipe.confidence)
    owner = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))
    rows = start.copy()
    residual = _times(matrix, 1.0 + extra, others) - _applied(matrix, extra, owner, others, base, rows)
    direction = residual.copy()
    square = np.einsum("qf,qf->q", residual, residual)
    for _ in range(recipe.steps):
        product = _applied(matrix, extra, owner, others, base, direction)
        length = _divided(square, np.einsum("qf,qf->q", direction, product))
        rows += length[:, None] * direction
        residual -= length[:, None] * product
        now = np.einsum("qf,qf->q", residual, residual)
        direction = residual + _divided(now, square)[:, None] * direction
        square = now
    rows[np.diff(matrix.indptr) == 0] = 0.0
    return rows


def _applied(
    matrix: Any, extra: npt.NDArray[np.float32], owner: Any, others: Matrix, base: Matrix, vectors: Matrix
) -> Matrix:
    """Multiply each row's vector with its own matrix, without ever forming it."""
    inner = np.empty(len(owner), np.float32)
    step = max(1, _BLOCK_VALUES // others.shape[1])
    for first in range(0, len(owner), step):
        part = slice(first, first + step)
        inner[part] = np.einsum("mf,mf->m", vectors[owner[part]], others[matrix.indices[part]])
    applied: Matrix = vectors @ base + _times(matrix, extra * inner, others)
    return applied


def _times(matrix: Any, values: npt.NDArray[np.float32], others: Matrix) -> Matrix:
    product: Matrix = sp.csr_matrix((values, matrix.indices, matrix.indptr), shape=matrix.shape) @ others
    return product.astype(np.float32, copy=False)


def _divided(above: npt.NDArray[np.float32], below: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    return np.divide(above, below, out=np.zeros_like(above), where=below > 1e-20)
