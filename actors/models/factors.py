"""Matrix factorization (ALS). The vector of a user is computed from the history at query time.

Source:
    Y. Hu, Y. Koren, C. Volinsky, Collaborative Filtering for Implicit Feedback Datasets, ICDM 2008
    G. Takacs, I. Pilaszy, D. Tikk, Applications of the Conjugate Gradient Method for Implicit Feedback, RecSys 2011
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from actors.models.model import Batch
from actors.models.user_histories import TimeDecay, UserHistories, apply_time_decay
from actors.vectors.snapshot_arrays import ModelState
from actors.vectors.types import Matrix

# Numbers of one gathered block: 32 MB of float32, whatever the number of interactions.
_BLOCK_VALUES = 8_000_000


@dataclass(frozen=True, slots=True)
class SolverConfig:
    """Parameters of the least-squares solver."""

    regularisation: float = 0.05
    "Lambda, the weight of the L2 penalty."
    confidence: float = 20.0
    "Confidence that an event of weight 1 adds to the confidence 1 of every item."
    steps: int = 3
    "Conjugate gradient steps of each solve."


@dataclass(frozen=True, slots=True)
class FactorModel:
    """Item vectors; user vectors are computed from histories.

    Shapes:
        items: float32 [n, f]; gram: float32 [f, f]
    """

    items: Matrix
    gram: Matrix
    solving: SolverConfig
    fading: TimeDecay

    def compute_user_vectors(self, histories: UserHistories) -> Matrix:
        """Return the user vectors of histories.

        Shapes:
            returns: float32 [q, f]; zeros for an empty history
        """
        liked = apply_time_decay(histories, self.fading)
        # Confidence is never negative: with one, the matrix of the system might not be positive definite.
        liked.data = np.maximum(liked.data, 0.0)
        # A stored 0 would still be a preference of 1 with confidence 1 in `solve_factors`.
        liked.eliminate_zeros()
        start = np.zeros((len(histories), self.items.shape[1]), np.float32)
        return solve_factors(liked, self.items, start, self.solving, gram=self.gram)

    def score(self, histories: UserHistories) -> Batch:
        """Return the products of user vectors and item vectors.

        Shapes:
            returns: float32 [q, n]
        """
        scores: Batch = self.compute_user_vectors(histories) @ self.items.T
        return scores

    def save(self) -> ModelState:
        facts = {"solving": asdict(self.solving), "fading": self.fading.model_dump()}
        return ModelState({"items": self.items, "gram": self.gram}, facts)

    @classmethod
    def load(cls, parts: ModelState) -> FactorModel:
        solving = SolverConfig(**parts.facts["solving"])
        fading = TimeDecay(**parts.facts["fading"])
        return cls(parts.array("items"), parts.array("gram"), solving, fading)


def solve_factors(
    matrix: Any, others: Matrix, start: Matrix, solving: SolverConfig, gram: Matrix | None = None
) -> Matrix:
    """Solve (Y'Y + Y'(C - I)Y + lambda I) x = Y'Cp for every row, starting from `start`.

    Shapes:
        matrix: CSR float32 [q, m], weights above 0; others: float32 [m, f]; start: float32 [q, f]
        returns: float32 [q, f]
    """
    # Y'Y + lambda I is shared by all users, so only the sparse rest is computed for each (equation 21).
    ridge = np.eye(others.shape[1], dtype=np.float32) * np.float32(solving.regularisation)
    # Y'Y costs n f^2: the saved one keeps a query independent of the size of the catalog.
    shared = (others.T @ others if gram is None else gram) + ridge
    extra = matrix.data * np.float32(solving.confidence)
    owner = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))
    # A copy: `+=` below works in place, and the start vectors belong to the caller.
    rows = start.copy()
    # r = Y' C p - A x for every row at once; shapes [q, f]
    residual = _multiply(matrix, 1.0 + extra, others) - _apply_matrix(
        matrix, extra, owner, others, shared, rows
    )
    # A copy: `residual -=` below would change the direction, too, and lose conjugacy.
    direction = residual.copy()
    # `einsum` adds up each row without an array of all products.
    square = np.einsum("qf,qf->q", residual, residual)
    for _ in range(solving.steps):
        product = _apply_matrix(matrix, extra, owner, others, shared, direction)
        # alpha = r'r / d'A d, a step length for each row
        length = _divide(square, np.einsum("qf,qf->q", direction, product))
        rows += length[:, None] * direction
        residual -= length[:, None] * product
        now = np.einsum("qf,qf->q", residual, residual)
        # beta = r'r of now / r'r of before: the next direction is conjugate to the earlier ones
        direction = residual + _divide(now, square)[:, None] * direction
        square = now
    # Users without events would keep the start vector.
    rows[np.diff(matrix.indptr) == 0] = 0.0
    return rows


def _apply_matrix(
    matrix: Any, extra: npt.NDArray[np.float32], owner: Any, others: Matrix, shared: Matrix, vectors: Matrix
) -> Matrix:
    """Multiply the vector of each row with the matrix of the row, without building the matrices."""
    inner = np.empty(len(owner), np.float32)
    step = max(1, _BLOCK_VALUES // others.shape[1])
    for first in range(0, len(owner), step):
        part = slice(first, first + step)
        inner[part] = np.einsum("mf,mf->m", vectors[owner[part]], others[matrix.indices[part]])
    applied: Matrix = vectors @ shared + _multiply(matrix, extra * inner, others)
    return applied


def _multiply(matrix: Any, values: npt.NDArray[np.float32], others: Matrix) -> Matrix:
    product: Matrix = sp.csr_matrix((values, matrix.indices, matrix.indptr), shape=matrix.shape) @ others
    # scipy promotes to the wider type of both factors; the arrays of the solver stay float32.
    return product.astype(np.float32, copy=False)


def _divide(above: npt.NDArray[np.float32], below: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    # A row that converged has residual 0: its step must be 0, not 0 / 0.
    return np.divide(above, below, out=np.zeros_like(above), where=below > 1e-20)
